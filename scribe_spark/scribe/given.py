"""What the programs of a round are given, where all nodes are in this process' memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.engine import Columns, Program, Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.packing import concatenate, count_rows
from scribe_spark.pastry.arrivals.states import IsAlive
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import Tally
from scribe_spark.pastry.traffic import Between
from scribe_spark.underlay.protocol import Kernel

__all__ = ["FOUND", "Given", "LocalPlayer", "Observer"]

#: The table of dead nodes that nodes of the bucket have met: ``node``, ``dead``.
FOUND = "found dead"


@dataclass(frozen=True)
class Observer:
    """Counts messages."""

    tally: Tally

    def count(
        self,
        tables: Tables,
        kind: str,
        messages: int | np.integer,
        lost: int | np.integer = 0,
        *,
        between: Between,
    ) -> None:
        """Count messages that nodes of a bucket send, of which some meet a dead node."""
        self.tally.add(kind, messages, lost, between=between)

    def meet(self, tables: Tables, node: np.ndarray, dead: np.ndarray) -> None:
        """Note that live nodes of a bucket have found others dead: positions."""
        if len(node):
            before = [tables[FOUND]] if FOUND in tables else []
            tables[FOUND] = concatenate([*before, {"node": node, "dead": dead}])


@dataclass(frozen=True)
class Given:
    """What programs have in common.

    Attributes
    ----------
    facts : RingInMemory
    bounds : ndarray of int64, shape (B + 1,)
    rules : WorldRules
    kernel : Kernel
    observer : Observer
    is_alive : callable
    """

    facts: RingInMemory
    bounds: np.ndarray
    rules: WorldRules
    kernel: Kernel
    observer: Observer
    is_alive: IsAlive = field(repr=False)


class LocalPlayer:
    """Plays programs on the buckets of this process.

    Attributes
    ----------
    given : Given
    tables : list of Tables
        Of the buckets.
    supersteps : int
    """

    def __init__(self, given: Given, tables: list[Tables]) -> None:
        self.given, self.tables, self.supersteps = given, tables, 0

    def play(self, program: Program) -> int:
        """Play a program until nobody sends; return how many messages were sent."""
        sent = play(program, self.tables)
        self.supersteps += len(sent)
        return sum(sent)

    def has(self, name: str) -> bool:
        """Whether any bucket has rows in a table."""
        return any(name in one and count_rows(one[name]) > 0 for one in self.tables)

    def take(self, *names: str) -> dict[str, Columns]:
        """Take tables out of the buckets: the rows of all of them."""
        taken = {}
        for name in names:
            parts = [one.pop(name) for one in self.tables if name in one]
            if parts:
                taken[name] = concatenate(parts)
        return taken
