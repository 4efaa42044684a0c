"""Classes of nodes: parts of all nodes with their own rates, times and degrees."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from scribe_spark.config.kinds import Rate, TakenAs, Time
from scribe_spark.config.section import Section
from scribe_spark.config.toml import read_toml
from scribe_spark.core.errors import InputError, exact, unlike

MOST_CLASSES = 100

#: The form of a name, which appears in tables and messages.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")

#: The sum of the shares may differ from 1 by this much, as decimals are rounded.
_TOLERANCE = 1e-6

_EXAMPLE = '[[classes]] with name = "fast", share = 0.2, up = "1Gbit/s"'


class NodeClass(Section):
    """A class of nodes; if a field is None, the setting for all nodes applies."""

    name: str
    share: float = Field(gt=0.0, le=1.0)
    up: Rate | None = None
    down: Rate | None = None
    validation: Time | None = None
    degree: int | None = Field(default=None, ge=1, le=1_000)
    custody: int | None = Field(default=None, ge=0, le=2**31 - 1)


def _read(value: Any) -> Any:
    """Return the classes from a list of tables, or from a TOML file with such tables."""
    if isinstance(value, str):
        return _read(_of_file(value))
    if not isinstance(value, list | tuple):
        raise InputError("classes", value, f"must be tables, such as {_EXAMPLE}")
    if len(value) > MOST_CLASSES:
        remedy = f"must be at most {MOST_CLASSES} classes"
        raise InputError("classes", f"{len(value):,} classes", remedy)
    classes = tuple(_class(number, given) for number, given in enumerate(value, 1))
    names = [one.name for one in classes]
    for name in names:
        if names.count(name) > 1:
            raise InputError("classes.name", name, "is the name of two classes; rename one")
    total = math.fsum(one.share for one in classes)
    if classes and abs(total - 1.0) > _TOLERANCE:
        shares = " + ".join(exact(one.share) for one in classes)
        raise InputError("classes.share", shares, f"must sum to 1, but sums to {unlike(total, 1)}")
    return classes


def _of_file(path: str) -> list[Any]:
    found = read_toml(path, "classes").get("classes")
    if not isinstance(found, list):
        raise InputError("classes", path, f"has no classes; needs {_EXAMPLE}")
    return found


def _class(number: int, given: Any) -> NodeClass:
    if isinstance(given, NodeClass):
        return given
    if not isinstance(given, Mapping):
        raise InputError("classes", given, f"must be tables, such as {_EXAMPLE}")
    try:
        found = NodeClass(**given)
    except InputError as error:
        if error.field == "config key":  # classes have no such field
            raise InputError("classes", error.value, error.remedy) from None
        field = f"classes.{error.field} of class {given.get('name', number)}"
        raise InputError(field, error.value, error.remedy) from None
    if not _NAME.fullmatch(found.name):
        remedy = "must be 1 to 40 letters, digits, dots, underscores or hyphens"
        raise InputError("classes.name", found.name, remedy)
    return found


#: The type of a config's field; a text is the path of a TOML file with tables ``[[classes]]``.
Classes = Annotated[tuple[NodeClass, ...], TakenAs("file"), BeforeValidator(_read)]

NO_CLASSES: Any = Field(
    default=(),
    description="TOML file with classes of nodes, a table [[classes]] for each: name, share of "
    "the nodes (the sum is 1) and, where a class differs, up and down (rates), validation "
    "(time), degree (GossipSub's D), custody",
)
