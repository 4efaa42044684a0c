"""Fields with a unit: a size, a rate or a time, each stored in one spelling (``128KB``).

With one spelling, equal values give equal configs; `core.units` converts it to a number.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from scribe_spark.config.kinds import TakenAs
from scribe_spark.core import units


def _spelled(quantity: units.Quantity, least: int) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value is None:  # the field is unset
            return value
        return units.canonical(quantity, units.parse(quantity, value, least))

    return BeforeValidator(check)


#: Texts with a size, a rate, a time: ``128KB``, ``50Mbit/s``, ``5ms``.  A time may be ``0us``.
Size = Annotated[str, TakenAs("size"), _spelled("size", 1)]
Rate = Annotated[str, TakenAs("rate"), _spelled("rate", 1)]
Time = Annotated[str, TakenAs("time"), _spelled("time", 0)]
