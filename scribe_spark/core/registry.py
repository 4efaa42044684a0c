"""Registries: the package's own entries of a kind by name, and the entries that users' modules add.

The rooms of systems stand above `config`, so `systems.registry` fills :data:`SYSTEMS`, and `config`
only reads it.  `import scribe_spark` imports that registry: it is full before any config is made.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn, Protocol, TypeVar

from scribe_spark.core.errors import InputError, in_words, shown

# --- users' modules that register systems, measures, overlays and other extensions at their import

#: The group of entry points; commands import their modules without a flag.
GROUP = "scribe_spark.extensions"

#: Imported module -> SHA-256 of its file.
_IMPORTED: dict[str, str] = {}


def imported() -> dict[str, str]:
    """Return the SHA-256 of the file of each module that :func:`import_extensions` has imported."""
    return dict(_IMPORTED)


def import_extensions(names: Iterable[str] = ()) -> None:
    """Import the modules of installed extensions, then the named modules."""
    for point in entry_points(group=GROUP):
        _import(point.module, f"; uninstall the extension {point.name}")
    for name in names:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        _import(name)


def _import(name: str, remedy: str = "") -> None:
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError("import", name, _fault(name, error) + remedy) from None
    _IMPORTED[name] = _digest(module)


def _fault(name: str, error: BaseException) -> str:
    """Return why a module cannot be imported, and the line of the user's file, in words."""
    if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
        return (
            "is no module in the working directory, and none is installed; give a name as in "
            "`import my_systems`"
        )
    if name.endswith(".py") and isinstance(error, ModuleNotFoundError):
        return f"is a file; give the name of its module, {name.removesuffix('.py')}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = in_words(str(error) or type(error).__name__)
    return f"cannot be imported: {type(error).__name__}: {words}{place}"


def _digest(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()


class Named(Protocol):
    """The type of objects that can be registered by name."""

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
        """Add entries of the package, which users cannot replace."""
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


#: A declared system; `rounds.declaration.System` describes it.
Declared = Any

#: The systems by name, in the order of tables and metrics.
SYSTEMS: Registry[Any] = Registry("system")


class FrozenFields(SimpleNamespace):
    """Named values that tasks read without pydantic, the library that has checked the values."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed")
