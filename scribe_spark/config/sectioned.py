"""A config of several sections, whose fields are given by flat names, by section, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from scribe_spark.config.flatten import flatten
from scribe_spark.config.section import Section


class Sectioned(Section):
    """Sections of fields, and fields that are in none.

    Attributes
    ----------
    sections : dict of str to type
        Of the class: the sections by name, in the order of flags and docs.
    elsewhere : dict of str to str
        Of the class: names that another kind of config has -> why this one has none.
    is_world : bool
        Of the class: whether it is a world's.
    """

    sections: ClassVar[dict[str, type[Section]]] = {}
    elsewhere: ClassVar[dict[str, str]] = {}
    is_world: ClassVar[bool] = False

    def __init__(self, **given: Any) -> None:
        flat = self.flat_values(given)  # field name = flat name for what is in no section
        made = {
            section: model(**{n: flat.pop(f) for n, f in model.flat_names().items() if f in flat})
            for section, model in self.sections.items()
        }
        super().__init__(**flat, **made)

    @classmethod
    def of(cls, *sources: Mapping[str, Any]) -> Self:
        """A config from mappings of fields, later ones winning (a TOML file, then flags).

        Raises
        ------
        InputError
            Unknown field (with the nearest right one) or bad value.
        """
        merged: dict[str, Any] = {}
        for source in sources:
            merged |= cls.flat_values(source)
        return cls(**merged)

    @classmethod
    def own_fields(cls) -> list[str]:
        """The fields that are in no section."""
        return [name for name in cls.model_fields if name not in cls.sections]

    @classmethod
    def flat_values(cls, given: Mapping[str, Any], what: str = "config key") -> dict[str, Any]:
        """Fields by their flat names, however they were given.

        Raises
        ------
        InputError
            For an unknown name (`what` says what the names are), or a field that is given twice.
        """
        return flatten(given, cls.sections, cls.own_fields(), what, cls.elsewhere)

    def flat(self) -> dict[str, Any]:
        """Flat name -> value of every field, in order; lists are lists."""
        return {
            name: value
            for own, field in super().flat().items()
            for name, value in (
                field.flat() if isinstance(field, Section) else {own: field}
            ).items()
        }

    def given(self) -> dict[str, Any]:
        """Flat name -> value of the fields that were given when this was made."""
        own = {n: value for n, value in super().given().items() if n not in self.sections}
        return own | {
            flat[name]: value
            for section, model in self.sections.items()
            for flat in [model.flat_names()]
            for name, value in getattr(self, section).given().items()
        }

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, given flat or by section, checked again."""
        return self.of(self.given(), changes)
