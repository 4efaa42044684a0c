"""Registries: the package's own entries of a kind by name, and the entries that users add.

The rooms of systems stand above `config`, so `systems.registry` fills :data:`SYSTEMS`, and `config`
only reads it.  `import scribe_spark` imports that registry: it is full before any config is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

from scribe_spark.core.errors import shown


def load(package: str, name: str, homes: Mapping[str, str]) -> Any:
    """Return the object with a name of a package; `homes` has the module of each name."""
    if name not in homes:
        raise AttributeError(f"module {shown(package)} has no attribute {shown(name)}")
    return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)


class Named(Protocol):
    """An object that can be registered."""

    @property
    def name(self) -> str:
        """The name of the entry."""


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """Entries by name, in the order of registration; `what` is their kind, for messages.

    An entry of the package cannot be replaced.  An entry of a user may be registered again, for
    example when a cell of a notebook runs twice; it then replaces the former one.
    """

    def __init__(self, what: str, *built_in: T) -> None:
        self._what = what
        self._entries: dict[str, T] = {}
        self._built_in: frozenset[str] = frozenset()
        self.build_in(*built_in)

    def build_in(self, *entries: T) -> None:
        """Add entries of the package."""
        self._entries |= {entry.name: entry for entry in entries}
        self._built_in |= {entry.name for entry in entries}

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def is_built_in(self, name: str) -> bool:
        """Return True if an entry belongs to the package."""
        return name in self._built_in

    def register(self, entry: T) -> T:
        """Add an entry to this process."""
        if entry.name in self._built_in:
            raise ValueError(
                f"{shown(entry.name)} is a {self._what} of the package; take another name"
            )
        self._entries[entry.name] = entry
        return entry

    def unregister(self, name: str) -> None:
        """Remove a user's entry, if there is one of that name."""
        if name not in self._built_in:
            self._entries.pop(name, None)


class Declared(Protocol):
    """A declared system; `rounds.declaration.System` describes the attributes."""

    @property
    def name(self) -> str:
        """The name of the system."""

    @property
    def config(self) -> Any:
        """The class of the section, or its place, ``package.module:Class``."""

    @property
    def config_section(self) -> str | None:
        """The name of the section; None without a section."""

    def needs_pastry(self, config: Any) -> bool:
        """Return True if the system reads tables of Pastry in the rounds of a config."""


#: The systems by name, in the order of tables and metrics.
SYSTEMS: Registry[Any] = Registry("system")
