"""A config of several sections, whose fields are set by flat name, by section, or both."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import cache
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
    not fields of the model.  `command` decides which fields the config has (`OnlyInWorlds`), and
    which defaults (`Differs`).
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
        sections, refused = dict(cls.sections.items()) | dict(beside or {}), cls.refused_fields()
        known = _known_names((*cls.fields_outside(), *tables), tuple(sections.items()))
        found: dict[str, Any] = {}
        for name, value in _entries(given, sections, cls.command, known):
            section, dot, field = name.partition(".")
            if name in refused:
                raise InputError(name, value, refused[name])
            if name not in known and dot and section in sections:
                own = [f"{section}.{one}" for one in sections[section].flat_names()]
                homes = [one for one in known if one.endswith(f".{field}")]
                is_elsewhere = len(homes) == 1 and known[homes[0]] not in refused
                check_names([name], homes if is_elsewhere else own, what)
            elif name not in known:
                taken = [one for one in known if "." not in one and one not in refused]
                check_names([name], [*taken, *sections], what)
            if (one := known[name]) in refused:
                raise InputError(name, value, refused[one])
            if one in found:
                raise InputError(one, value, "is given twice; leave one of them out")
            found[one] = value
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


@cache
def _known_names(
    outside: tuple[str, ...], sections: tuple[tuple[str, type[Section]], ...]
) -> dict[str, str]:
    """Return the names that users may give, flat or dotted, and the flat name of each."""
    known = dict(zip(outside, outside, strict=True))
    for section, model in sections:
        for field, flat in model.flat_names().items():
            # a section may also name a field by its flat name
            known |= dict.fromkeys((flat, f"{section}.{flat}", f"{section}.{field}"), flat)
    return known


def _entries(
    given: Mapping[str, Any],
    sections: Mapping[str, type[Section]],
    command: str,
    known: Mapping[str, str],
) -> Iterator[tuple[str, Any]]:
    """Yield the fields that users give with their names, dotted for those in a section."""
    for name, value in given.items():
        # `topology` and `groups` are both sections and flat names
        if name not in sections or (name in known and not isinstance(value, Mapping | Section)):
            yield name, value
            continue
        model = sections[name]
        inner = value.values_for(command) if type(value) is model else value
        if not isinstance(inner, Mapping):
            some = next(iter(model.model_fields))
            raise InputError(name, inner, f"must be a table of fields, such as {some}")
        yield from ((f"{name}.{field}", of) for field, of in inner.items())
