"""The kind of a field's values, from its annotation; and the conversion of texts to such values."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator

from scribe_spark.core import units
from scribe_spark.core.errors import InputError

#: The description of a value of each kind, for messages.
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "names separated by commas",
}


@dataclass(frozen=True)
class TakenAs:
    """A mark of a field: its text is converted as a ``size``, ``rate``, ``time`` or ``file``."""

    kind: str


@dataclass(frozen=True)
class ValueKind:
    """The kind of a field's values: a type (``list`` for texts), or that of a `TakenAs`."""

    name: str
    choices: tuple[Any, ...] = ()
    optional: bool = False

    def parse(self, field: str, text: str) -> Any:
        """Return the value of a flag's text; the config checks its range and meaning.

        A text of another kind than number and boolean stays a text.
        """
        try:
            if self.name == "bool":
                return {"true": True, "false": False}[text]
            if self.name == "float":
                return float(_ascii(text))
            return whole_number(text) if self.name == "int" else text
        except (KeyError, ValueError):
            raise InputError(field, text, f"must be {_WORDS[self.name]}") from None


def whole_number(text: str) -> int:
    """Return the whole number in a text of the digits 0 to 9, not of other scripts' digits.

    Examples
    --------
    >>> whole_number("12")
    12
    """
    return int(_ascii(text))


def _ascii(text: str) -> str:
    if not text.isascii():
        raise ValueError("has digits of another script")
    return text


def kind_of(annotation: Any, marks: Iterable[Any] = ()) -> ValueKind:
    """Return the kind of an annotation: ``int | None``, ``Literal["a", "b"]``, ``tuple[str, ...]``.

    Of several types, the first one counts: a flag's text is converted to it.

    Examples
    --------
    >>> kind_of(int | None)
    ValueKind(name='int', choices=(), optional=True)
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    for mark in marks:
        if isinstance(mark, TakenAs):
            return ValueKind(mark.kind)
    if origin is Annotated:
        return kind_of(inner[0], inner[1:])
    if origin in (Union, types.UnionType):
        first = kind_of(inner[0])
        return ValueKind(first.name, first.choices, type(None) in inner)
    if origin is Literal:
        return ValueKind(type(inner[0]).__name__, inner)
    return ValueKind("list" if origin is tuple else annotation.__name__)


# --- fields with a unit, each stored in one spelling (``128KB``), so that equal values are equal


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
