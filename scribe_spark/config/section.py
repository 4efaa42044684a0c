"""The base of all sections of a config: frozen, strictly typed, with one-line errors.

A section is a pydantic model.  A field has a name in its section (``count`` in `groups`) and a flat
name, which is also the name of its flag (``groups``): its name in its `Flat` mark, else its name in
the section with the section's prefix.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Self, cast

from annotated_types import Interval
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.config.kinds import kind_of
from scribe_spark.config.used_when import UsedWhen
from scribe_spark.core.errors import InputError, check_names, listed
from scribe_spark.core.frozen_fields import FrozenFields


@dataclass(frozen=True)
class Flat:
    """A mark of a field whose flat name differs from its name in the section."""

    name: str


@dataclass(frozen=True)
class OnlyIn:
    """A mark of a field that only some commands have; `why` ends an error of other commands."""

    commands: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Differs:
    """A mark of a field that has another default, and another description, in some commands."""

    commands: tuple[str, ...]
    default: Any
    description: str | None = None


def only_in_worlds(why: str) -> OnlyIn:
    """Return the mark of a field that only worlds have; `why` is the reason in errors of runs."""
    return OnlyIn(("world",), f"applies to worlds only: {why}")


def _check_text(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must be a non-empty text")
    return text


def _check_whole(value: Any) -> Any:
    if type(value) is not int:
        raise PydanticCustomError("literal_error", "not a whole number")
    return value


def _plain(value: Any) -> Any:
    """Return a value as JSON and TOML can write it; a graph is replaced by its digest."""
    if isinstance(value, tuple):
        return [_entry(one) if isinstance(one, Section) else one for one in value]
    return str(value) if isinstance(value, GivenGraph) else value


def _entry(section: Section) -> dict[str, Any]:
    """Return a section, which is an element of a list, as a dict without the unset fields."""
    return {name: value for name, value in section.flat().items() if value is not None}


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return tuple(value) if isinstance(value, list) else value


def setting(default: Any, text: str) -> Any:
    """Return a field with a default and its text for ``--help`` and the docs."""
    return Field(default=default, description=text)


def unset(text: str) -> Any:
    """Return a field that is None by default."""
    return setting(None, text)


def within(least: float, most: float) -> Interval:
    """Return the mark of a field whose numbers are from `least` to `most`."""
    return Interval(ge=least, le=most)


#: A non-empty text.
Text = Annotated[str, AfterValidator(_check_text)]

#: A path or a URL; a path may begin with ``~``, the user's home.
Location = Annotated[Text, AfterValidator(os.path.expanduser)]

#: Names in a list, or in one text, separated by commas.
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]

#: For a choice of whole numbers: refuses True and 4.0, which equal 1 and 4.
Whole = BeforeValidator(_check_whole)


class Section(BaseModel):
    """A group of settings, which are checked when it is made."""

    #: The configs in which the section has an effect; None: all configs.
    all_used_when: ClassVar[UsedWhen | None] = None

    #: The beginning of all flat names without a `Flat` mark.
    flat_prefix: ClassVar[str] = ""

    #: The text above the flags of the section in ``--help``.
    about: ClassVar[str] = ""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **given: Any) -> None:
        check_names(given, type(self).model_fields, "config key")
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _refusal(error, type(self).model_fields, self.flat_names()) from None

    @classmethod
    @cache
    def flat_names(cls) -> dict[str, str]:
        """Return the flat name of each field, in order."""
        return {
            name: next(
                (mark.name for mark in field.metadata if isinstance(mark, Flat)),
                cls.flat_prefix + name,
            )
            for name, field in cls.model_fields.items()
        }

    @classmethod
    @cache
    def marked(cls, kind: type) -> dict[str, Any]:
        """Return the marks of a `kind` (a class), by the name of the field that has the mark."""
        return {
            name: mark
            for name, field in cls.model_fields.items()
            for mark in field.metadata
            if isinstance(mark, kind)
        }

    @classmethod
    @cache
    def refused_in(cls, command: str) -> dict[str, str]:
        """Return the fields that only other commands than this one have: flat name -> reason."""
        flat, marks = cls.flat_names(), cls.marked(OnlyIn)
        return {flat[name]: one.why for name, one in marks.items() if command not in one.commands}

    @classmethod
    def differing_in(cls, command: str) -> dict[str, Differs]:
        """Return the marks `Differs` of the fields that differ in a command: field name -> mark."""
        marks = cls.marked(Differs)
        return {name: mark for name, mark in marks.items() if command in mark.commands}

    def with_defaults_of(self, command: str) -> Self:
        """Return the section with the defaults of a command in the fields that were not set.

        An empty list is a field that was not set.
        """
        told, fields = self.given(), type(self).model_fields
        usual = {
            name: mark.default
            for name, mark in self.differing_in(command).items()
            if not told.get(name) and getattr(self, name) == fields[name].default
        }
        if not usual:
            return self
        copy = self.model_copy(update=usual)
        copy.model_fields_set.difference_update(usual)
        return copy

    def values_for(self, command: str) -> dict[str, Any]:
        """Return the fields that were set, and those that differ from a command's default."""
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        usual |= {name: mark.default for name, mark in self.differing_in(command).items()}
        return {
            name: value
            for name, value in self
            if name in self.model_fields_set or value != usual[name]
        }

    def flat(self) -> dict[str, Any]:
        """Return the values of all fields by flat name, in order, in types that JSON can write."""
        values = {flat: getattr(self, name) for name, flat in self.flat_names().items()}
        return {name: _plain(value) for name, value in values.items()}

    def given(self) -> dict[str, Any]:
        """Return the values of the fields that were set explicitly: field name -> value."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def for_tasks(self) -> Self:
        """Return an object with the fields and properties alone; tasks read it without pydantic."""
        kinds = (kind for kind in type(self).__mro__ if issubclass(kind, Section))
        derived = [
            name for kind in kinds for name, one in vars(kind).items() if isinstance(one, property)
        ]
        names = (*type(self).model_fields, *derived)
        return cast(Self, FrozenFields(**{name: getattr(self, name) for name in names}))

    @classmethod
    def completed(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings (flat name -> value), with values of unset fields if they are known."""
        return dict(settings)

    def check_within(self, config: Any) -> None:
        """Refuse settings that do not fit to the config of a run or world that plays the system."""

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more groups, or more members of all groups, than the system can number.

        `members` is the path of the table from which the groups come, if any.
        """

    def check_network(self, source: str, routers: int, has_rates: bool) -> None:
        """Refuse settings that do not fit to the network of a run or world.

        The network has so many routers from a `source` (generated, or a kind of file); `has_rates`
        is True if the rates of its links are known.
        """

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked again."""
        return type(self)(**{**self.given(), **changes})


# --- pydantic's errors as one line in the words of this package

#: Pydantic's name of an error -> the remedy.
_TYPES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a non-empty text",
    "string_unicode": "must be a text in UTF-8",
    "tuple_type": "must be names, in a list or separated by commas",
    "missing": "must be given",
}

#: Pydantic's name of a bound -> its words.
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _refusal(
    error: ValidationError, fields: Mapping[str, FieldInfo], flat: Mapping[str, str]
) -> InputError:
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    if isinstance(context.get("error"), InputError):
        return context["error"]
    name = str(first["loc"][0])
    value = "" if first["type"] == "missing" else first["input"]
    return InputError(flat[name], value, _remedy(first["type"], context, fields[name]))


def _remedy(complaint: str, context: Mapping[str, Any], field: FieldInfo) -> str:
    if complaint == "value_error":  # one of our validators has raised it
        return str(context["error"])
    if complaint == "literal_error":
        return f"must be one of {listed(kind_of(field.annotation).choices)}"
    if complaint == "multiple_of" and context["multiple_of"] == 2:
        return f"must be even, for example {field.default}"
    for bound, words in _BOUNDS.items():
        if bound in context:
            limit = context[bound]
            return f"must be {words} {f'{limit:,}' if isinstance(limit, int) else limit}"
    return _TYPES.get(complaint, complaint.replace("_", " "))
