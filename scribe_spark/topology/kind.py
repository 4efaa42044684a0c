"""A kind of topology: its name, and the function that makes its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scribe_spark.config import TopologyConfig
from scribe_spark.topology.graph import Graph


@dataclass(frozen=True)
class TopologyKind:
    """A kind of topology, which ``--topology NAME`` or ``--topology NAME:ARGUMENT`` selects.

    Attributes
    ----------
    name : str
        The name in ``--topology NAME``.
    make : callable
        ``make(argument, config, seed)`` returns a `Graph`, without Spark; random values in it must
        depend on the seed only.
    argument : str
        A word for the argument in messages, in capitals; empty for a kind without argument.
    is_kept : bool
        True if `make` gives the same graph for the same arguments, because it reads no file of a
        user; such a graph is kept and not made again.
    """

    name: str
    make: Callable[[str, TopologyConfig, int], Graph]
    argument: str = ""
    is_kept: bool = True

    @property
    def spelling(self) -> str:
        """The form in which a user writes the kind, for example ``topohub:NAME``."""
        return f"{self.name}:{self.argument}" if self.argument else self.name
