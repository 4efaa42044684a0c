"""A config of several sections, whose fields are given by flat names, by section, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from scribe_spark.config.flatten import flatten
from scribe_spark.config.section import Section


class Sectioned(Section):
    """Sections of fields, and fields that are in none.

    Attributes
    ----------
    sections : dict of str to type
        Of the class: the sections by name, in the order of flags and docs.  Those of users' systems
        (`outside.add_section`) are no fields of the model; they are attributes all the same.
    elsewhere : dict of str to str
        Of the class: names that another kind of config has -> why this one has none.
    is_world : bool
        Of the class: whether it is a world's.
    """

    sections: ClassVar[dict[str, type[Section]]] = {}
    elsewhere: ClassVar[dict[str, str]] = {}
    is_world: ClassVar[bool] = False
    _outside: dict[str, Section] = PrivateAttr(default_factory=dict)

    def __init__(self, **given: Any) -> None:
        flat = self.flat_values(given)  # field name = flat name for what is in no section
        made = {
            section: model(**{n: flat.pop(f) for n, f in model.flat_names().items() if f in flat})
            for section, model in self.sections.items()
        }
        fields = type(self).model_fields
        super().__init__(**flat, **{name: one for name, one in made.items() if name in fields})
        self._outside = {name: one for name, one in made.items() if name not in fields}

    def __getattr__(self, name: str) -> Any:
        if name in type(self).sections:
            return self._outside.get(name) or type(self).sections[name]()
        return super().__getattr__(name)  # type: ignore[misc]

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
        own = super().flat()
        outside = {name: getattr(self, name) for name in self.sections if name not in own}
        return {
            name: value
            for key, field in {**own, **outside}.items()
            for name, value in (
                field.flat() if isinstance(field, Section) else {key: field}
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
