"""A config of several sections, whose fields are set by flat name, by section, or both."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from functools import cache, cached_property
from pkgutil import resolve_name
from typing import Any, ClassVar, Self, TypeVar

from pydantic import PrivateAttr

from scribe_spark.config.section import Section
from scribe_spark.core.errors import InputError, check_names
from scribe_spark.core.registry import SYSTEMS, Declared

T = TypeVar("T")


class Computed(Mapping[str, T]):
    """A mapping that a function makes at each use, since systems may be registered later."""

    def __init__(self, make: Callable[[], Mapping[str, T]]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> T:
        return self._make()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make())

    def __len__(self) -> int:
        return len(self._make())

    def items(self) -> ItemsView[str, T]:
        """Return the items; the function is called once."""
        return self._make().items()

    def values(self) -> ValuesView[T]:
        """Return the values; the function is called once."""
        return self._make().values()


def with_systems(sections: Mapping[str, type[Section]]) -> Computed[type[Section]]:
    """Return the sections of a config by name, and then the sections that systems declare now."""
    return Computed(
        lambda: {
            **sections,
            **{
                system.config_section: declared_section(system)
                for system in SYSTEMS.values()
                if system.config_section is not None
            },
        }
    )


def declared_section(system: Declared) -> type[Section]:
    """Return the class of the section that a system declares."""
    given = system.config
    return _resolved(given) if isinstance(given, str) else given


@cache
def _resolved(place: str) -> type[Section]:
    """Return the class at a place, ``package.module:Class``."""
    return resolve_name(place)


class Sectioned(Section):
    """A config with sections of fields, and own fields that belong to no section.

    `sections` are in the order of flags and docs; sections that systems declare are attributes, but
    not fields of the model.  `command` decides which fields the config has (`OnlyIn`), and which
    defaults (`Differs`).
    """

    sections: ClassVar[Mapping[str, type[Section]]] = {}
    command: ClassVar[str] = "run"
    _outside: dict[str, Section] = PrivateAttr(default_factory=dict)

    def __init__(self, **given: Any) -> None:
        flat = self.flat_values(given)  # fields outside of sections have one name
        made = {
            section: model(
                **{n: flat.pop(f) for n, f in model.flat_names().items() if f in flat}
            ).with_defaults_of(self.command)
            for section, model in self.sections.items()
        }
        fields = type(self).model_fields
        super().__init__(**flat, **{name: one for name, one in made.items() if name in fields})
        self._outside = {name: one for name, one in made.items() if name not in fields}

    def __getattr__(self, name: str) -> Any:
        if name in type(self).sections:
            return self._outside.get(name) or type(self).sections[name]().with_defaults_of(
                self.command
            )
        return super().__getattr__(name)  # type: ignore[misc]

    @property
    def is_world(self) -> bool:
        """True for the config of a world."""
        return self.command == "world"

    @classmethod
    def of(cls, *sources: Mapping[str, Any]) -> Self:
        """Return a config from mappings of fields; later mappings override earlier ones."""
        merged: dict[str, Any] = {}
        for source in sources:
            merged |= cls.flat_values(source)
        return cls(**merged)

    @classmethod
    def fields_outside(cls) -> list[str]:
        """Return the names of the fields that belong to no section."""
        elsewhere = {*cls.sections, *cls.refused_in(cls.command)}
        return [name for name in cls.model_fields if name not in elsewhere]

    @classmethod
    def refused_fields(cls) -> dict[str, str]:
        """Return the flat names of fields that only other commands have -> the reason."""
        return {
            name: why
            for model in (cls, *cls.sections.values())
            for name, why in model.refused_in(cls.command).items()
        }

    @classmethod
    def flat_values(
        cls,
        given: Mapping[str, Any],
        what: str = "config key",
        beside: Mapping[str, type[Section]] | None = None,
        tables: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Return the fields in a mapping by flat name: flat name -> value.

        `given` has fields by flat name (``nodes``), by dotted name (``overlay.nodes``), or whole
        sections (``overlay``: a mapping, or a section's model).  `beside` and `tables` are further
        sections, and names outside of sections; `what` says in messages what the names are.

        Examples
        --------
        >>> from scribe_spark.config import RunConfig
        >>> RunConfig.flat_values({"overlay": {"nodes": 5}, "overlay.b": 2})
        {'nodes': 5, 'b': 2}
        """
        sections = {**dict(cls.sections.items()), **(beside or {})}
        own = [*cls.fields_outside(), *tables]
        taken = _Taken(cls.command, sections, own, what, cls.refused_fields())
        found: dict[str, Any] = {}
        for name, value in given.items():
            for field, inner in taken.fields(name, value).items():
                if field in found:
                    raise InputError(field, inner, "is given twice; leave one of them out")
                found[field] = inner
        return found

    def flat(self) -> dict[str, Any]:
        """Return the values of all fields by flat name, in order, in types that JSON can write."""
        fields = {**super().flat(), **{name: getattr(self, name) for name in self.sections}}
        values = {
            name: value
            for key, field in fields.items()
            for name, value in (
                field.flat() if isinstance(field, Section) else {key: field}
            ).items()
        }
        refused = self.refused_fields()
        return {name: value for name, value in values.items() if name not in refused}

    def given(self) -> dict[str, Any]:
        """Return the values of the fields that were set explicitly: flat name -> value."""
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


@dataclass(frozen=True)
class _Taken:
    """The names that users may give for the config of a command."""

    command: str
    sections: Mapping[str, type[Section]]
    own: list[str]
    what: str
    refused: Mapping[str, str]

    @cached_property
    def flat(self) -> dict[str, None]:
        """The flat names (without a section) of all fields, also of refused fields, in order."""
        names = (n for one in self.sections.values() for n in one.flat_names().values())
        return dict.fromkeys([*self.own, *names])

    def fields(self, name: str, value: Any) -> dict[str, Any]:
        """Return the fields that one entry (a name and its value) sets: flat name -> value."""
        section, dot, field = name.partition(".")
        if dot and section in self.sections:
            return self._of_section(section, {field: value})
        # `topology` and `groups` are both sections and flat names
        if name in self.sections and (
            name not in self.flat or isinstance(value, Mapping | Section)
        ):
            return self._of_section(name, value)
        if name in self.refused:
            raise InputError(name, value, self.refused[name])
        if name not in self.flat:
            known = [one for one in self.flat if one not in self.refused]
            check_names([name], [*known, *self.sections], self.what)
        return {name: value}

    def _of_section(self, section: str, given: Any) -> dict[str, Any]:
        model = self.sections[section]
        if type(given) is model:
            given = given.values_for(self.command)
        if not isinstance(given, Mapping):
            some = next(iter(model.model_fields))
            raise InputError(section, given, f"must be a table of fields, such as {some}")
        names = model.flat_names()
        # a section may also name a field by its flat name
        known = {**{flat: flat for flat in names.values()}, **names}
        found: dict[str, Any] = {}
        for name, value in given.items():
            dotted = f"{section}.{name}"
            if name not in known:
                if home := self._home(name):
                    raise InputError(dotted, value, f"is not a field of [{section}]; give {home}")
                check_names([dotted], [f"{section}.{one}" for one in names], self.what)
            flat = known[name]
            if flat in self.refused:
                raise InputError(dotted, value, self.refused[flat])
            if flat in found:
                raise InputError(flat, value, "is given twice; leave one of them out")
            found[flat] = value
        return found

    def _home(self, name: str) -> str | None:
        """Return the section and name of a field by its flat name, or by its only section."""
        fields = [
            (section, field, flat)
            for section, model in self.sections.items()
            for field, flat in model.flat_names().items()
            if flat not in self.refused
        ]
        homes = [f"{section}.{field}" for section, field, flat in fields if flat == name]
        homes = homes or [f"{section}.{field}" for section, field, flat in fields if field == name]
        return homes[0] if len(homes) == 1 else None
