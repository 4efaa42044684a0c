"""The kind of value that a field takes, read from its annotation; such a value out of a text."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from scribe_spark.errors import InputError

#: What a value must be, in words.
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "names separated by commas",
}


@dataclass(frozen=True)
class TakenAs:
    """Marks a field that flags and sweeps take as a text, which the config reads.

    Attributes
    ----------
    kind : str
        The name of the field's kind: ``size``, ``rate``, ``time``, ``file``.
    """

    kind: str


@dataclass(frozen=True)
class Kind:
    """The values that a field takes.

    Attributes
    ----------
    name : str
        ``int``, ``float``, ``bool``, ``str``, ``list`` (of texts); of a text with a meaning what
        `TakenAs` says: ``size``, ``rate``, ``time``, ``file``.
    choices : tuple
        The only values, if there are just a few.
    optional : bool
        Whether None stands for unset.
    """

    name: str
    choices: tuple[Any, ...] = ()
    optional: bool = False

    def parse(self, field: str, text: str) -> Any:
        """A value out of its text, as a flag has it; range and meaning are the config's to check.

        Any other kind stays a text, which the config reads.

        Raises
        ------
        InputError
            Naming `field`.
        """
        try:
            if self.name == "bool":
                return {"true": True, "false": False}[text]
            return {"int": whole_number, "float": _number}.get(self.name, str)(text)
        except (KeyError, ValueError):
            raise InputError(field, text, f"must be {_WORDS[self.name]}") from None


def whole_number(text: str) -> int:
    """A whole number out of its text, in the digits 0 to 9 and no others that Python knows.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> whole_number("12")
    12
    """
    return int(_ascii(text))


def _number(text: str) -> float:
    return float(_ascii(text))


def _ascii(text: str) -> str:
    if not text.isascii():
        raise ValueError("has digits of another script")
    return text


def kind_of(annotation: Any) -> Kind:
    """The kind of an annotation such as ``int | None``, ``Literal["a", "b"]``, ``tuple[str, ...]``.

    Of several types the first counts: it is what a flag's text is read as.

    Examples
    --------
    >>> kind_of(int | None)
    Kind(name='int', choices=(), optional=True)
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        marks = [mark.kind for mark in inner[1:] if isinstance(mark, TakenAs)]
        return Kind(marks[0]) if marks else kind_of(inner[0])
    if origin in (Union, types.UnionType):
        first = kind_of(inner[0])
        return Kind(first.name, first.choices, type(None) in inner)
    if origin is Literal:
        return Kind(type(inner[0]).__name__, inner)
    return Kind("list" if origin is tuple else annotation.__name__)
