"""Registries: what the package has of a kind, by name, and what a user adds to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

from scribe_spark.errors import shown


class Named(Protocol):
    """An object that can be registered."""

    @property
    def name(self) -> str:
        """The name that it is asked for by."""


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """Name -> entry, in the order in which they were registered.

    An entry of the package keeps its name.  An entry of a user may be registered again, as when a
    cell of a notebook is run twice, and takes the place of the former one.

    Parameters
    ----------
    what : str
        What an entry is, for messages.
    built_in : T
        The entries of the package.
    """

    def __init__(self, what: str, *built_in: T) -> None:
        self._what = what
        self._entries = {entry.name: entry for entry in built_in}
        self._built_in = frozenset(self._entries)

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def is_built_in(self, name: str) -> bool:
        """Return whether an entry is the package's own."""
        return name in self._built_in

    def register(self, entry: T) -> T:
        """Add an entry to this process.

        Raises
        ------
        ValueError
            The package has one of that name.
        """
        if entry.name in self._built_in:
            raise ValueError(
                f"{shown(entry.name)} is a {self._what} of the package; take another name"
            )
        self._entries[entry.name] = entry
        return entry

    def unregister(self, name: str) -> None:
        """Take a user's entry out again; nothing happens if there is none of that name."""
        if name not in self._built_in:
            self._entries.pop(name, None)
