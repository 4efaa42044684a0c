"""A config of several sections, whose fields are set by flat name, by section, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from scribe_spark.config.flatten import flatten
from scribe_spark.config.section import Section


class Sectioned(Section):
    """A config with sections of fields, and own fields that belong to no section.

    `sections` are in the order of flags and docs; sections of users' systems
    (`outside.add_section`) are attributes, but not fields of the model.  `elsewhere` has the names
    of settings that only another kind of config has -> the reason, as the end of an error message.
    """

    sections: ClassVar[dict[str, type[Section]]] = {}
    elsewhere: ClassVar[dict[str, str]] = {}
    is_world: ClassVar[bool] = False
    _outside: dict[str, Section] = PrivateAttr(default_factory=dict)

    def __init__(self, **given: Any) -> None:
        flat = self.flat_values(given)  # fields outside of sections have one name
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
        """Return a config from mappings of fields; later mappings override earlier ones."""
        merged: dict[str, Any] = {}
        for source in sources:
            merged |= cls.flat_values(source)
        return cls(**merged)

    @classmethod
    def own_fields(cls) -> list[str]:
        """Return the names of the fields that belong to no section."""
        return [name for name in cls.model_fields if name not in cls.sections]

    @classmethod
    def flat_values(cls, given: Mapping[str, Any], what: str = "config key") -> dict[str, Any]:
        """Return fields by flat name, from fields by flat name, by dotted name or in sections."""
        return flatten(given, cls.sections, cls.own_fields(), what, cls.elsewhere)

    def flat(self) -> dict[str, Any]:
        """Return the values of all fields by flat name, in order, in types that JSON can write."""
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
        """Return the values of the fields that were set explicitly, by flat name."""
        own = {n: value for n, value in super().given().items() if n not in self.sections}
        return own | {
            flat[name]: value
            for section, model in self.sections.items()
            for flat in [model.flat_names()]
            for name, value in getattr(self, section).given().items()
        }

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, by flat name or by section, which are checked again."""
        return self.of(self.given(), changes)
