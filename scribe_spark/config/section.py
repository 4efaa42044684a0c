"""The base of all sections of a config: frozen, strictly typed, with one-line errors.

A section is a pydantic model.  A field has a name in its section (``count`` in `groups`) and a flat
name, which is also the name of its flag (``groups``); if they differ, the field has a `Flat` mark.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.config.refusals import refusal
from scribe_spark.config.used_when import UsedWhen
from scribe_spark.core.frozen_fields import FrozenFields
from scribe_spark.errors import check_names


@dataclass(frozen=True)
class Flat:
    """Mark of a field whose flat name differs from its name."""

    name: str


def _check_text(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must be a non-empty text")
    return text


def _check_whole(value: Any) -> Any:
    if type(value) is not int:
        raise PydanticCustomError("literal_error", "not a whole number")
    return value


def _plain(value: Any) -> Any:
    """Return a value as JSON and TOML can write it; a graph becomes its digest."""
    if isinstance(value, tuple):
        return [_entry(one) if isinstance(one, Section) else one for one in value]
    return str(value) if isinstance(value, GivenGraph) else value


def _entry(section: Section) -> dict[str, Any]:
    """Return a section of a list as a dict without the unset fields."""
    return {name: value for name, value in section.flat().items() if value is not None}


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return tuple(value) if isinstance(value, list) else value


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

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **given: Any) -> None:
        check_names(given, type(self).model_fields, "config key")
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise refusal(error, type(self).model_fields, self.flat_names()) from None

    @classmethod
    @cache
    def flat_names(cls) -> dict[str, str]:
        """Return the flat name of each field, in order."""
        return {
            name: next((mark.name for mark in field.metadata if isinstance(mark, Flat)), name)
            for name, field in cls.model_fields.items()
        }

    def flat(self) -> dict[str, Any]:
        """Return the values of all fields by flat name, in order, in types that JSON can write."""
        values = {flat: getattr(self, name) for name, flat in self.flat_names().items()}
        return {name: _plain(value) for name, value in values.items()}

    def given(self) -> dict[str, Any]:
        """Return the values of the fields that were set explicitly, by field name."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def for_tasks(self) -> Self:
        """Return the fields and properties only, which executors can read without pydantic."""
        kinds = (kind for kind in type(self).__mro__ if issubclass(kind, Section))
        derived = [
            name for kind in kinds for name, one in vars(kind).items() if isinstance(one, property)
        ]
        names = (*type(self).model_fields, *derived)
        return cast(Self, FrozenFields(**{name: getattr(self, name) for name in names}))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked again."""
        return type(self)(**{**self.given(), **changes})
