"""A kind of topology: its name, and how its graph is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scribe_spark.config import TopologyConfig
from scribe_spark.topology.graph import Graph


@dataclass(frozen=True)
class TopologyKind:
    """One kind of topology, as ``--topology NAME`` or ``--topology NAME:ARGUMENT`` asks for it.

    Attributes
    ----------
    name : str
    make : callable
        (argument, config, seed) -> Graph; without Spark, every draw keyed by the seed.
    argument : str
        What the argument is, in capitals; empty where the kind takes none.
    is_kept : bool
        Whether a graph is kept and not made again: `make` gives the same graph of the same
        arguments, because it reads no file of a user.
    """

    name: str
    make: Callable[[str, TopologyConfig, int], Graph]
    argument: str = ""
    is_kept: bool = True

    @property
    def spelling(self) -> str:
        """As a user writes it: ``topohub:NAME``."""
        return f"{self.name}:{self.argument}" if self.argument else self.name
