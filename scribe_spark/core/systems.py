"""The declared multicast systems, as the configs know them: their names and their sections.

The rooms of systems stand above `config`, so `systems.registry` writes this list, and `config` only
reads it.  `import scribe_spark` imports that registry: the list is full before any config is made.
"""

from __future__ import annotations

from typing import Any, Protocol

from scribe_spark.core.registry import Registry


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
