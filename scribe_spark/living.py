"""What a multicast system is to a world: it lives through the rounds, under the same events.

A world plays Pastry and Scribe, and then each other system that it has.  A system keeps its state
in tables of its own, which the world packs and saves; it is told what happens in the round, counts
its messages, and tells what became of publications.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from scribe_spark.core.arrays import Rows, whole_numbers
from scribe_spark.engine.program import Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["LiveSystem", "LivingRound", "Pairs", "Publications", "SystemRound"]

#: Indices of groups and positions of nodes, ascending by both; each pair once.
Pairs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LivingRound:
    """A round of a world, as a system is told of it; all of it is for reading only.

    Nodes are their positions in `ring`, groups their indices.

    Attributes
    ----------
    number : int
        Rounds count from 0.
    rounds : int
        Of the world; after the last one all publications are due.
    ring : Ring
        All K nodes that there are, were or may be; the same in every round.
    overlay : OverlayState
        What Pastry's nodes know after this round, who is alive (``alive``, bool, shape (K,)) and
        when the others died.
    events : Events
        Of nodes: ``fail`` (silent), ``leave``, ``recover``, ``arrive``.
    group : ndarray of int64, shape (G,)
        The numbers of the groups, by which draws are keyed.
    key_hi, key_lo : ndarray of uint64, shape (G,)
        The groupIds.
    join, quit, publish : Pairs
        Of groups, of nodes that are alive after the events of nodes, and that may do so.  At most
        one of each for (group, node).  A node that dies is a member no more; one that is back joins
        anew.
    kernel : Kernel
    lan_us : int
    seed : int
        Key of every draw.
    deadline : int
        Rounds after which a publication that has not been delivered counts as lost.
    tally : Tally
        Where the system counts its messages, by kind.
    """

    number: int
    rounds: int
    ring: Ring
    overlay: OverlayState
    events: Events
    group: np.ndarray
    key_hi: np.ndarray
    key_lo: np.ndarray
    join: Pairs
    quit: Pairs
    publish: Pairs
    kernel: Kernel
    lan_us: int
    seed: int
    deadline: int
    tally: Tally

    @property
    def alive(self) -> np.ndarray:
        """Whether each node is alive after the events: bool, shape (K,)."""
        return self.overlay.alive

    @property
    def is_last(self) -> bool:
        """Whether no round comes after it."""
        return self.number == self.rounds - 1


@dataclass(frozen=True)
class Publications(Rows):
    """What became of publications that are due; in time + late + lost = expected.

    Due are those of `deadline` rounds before, and in the last round all that are left.

    Attributes
    ----------
    round : ndarray of int64, shape (p,)
        In which each was published.
    group : ndarray of int64, shape (p,)
        Its index; several of a group and round may be one row, or several.
    expected : ndarray of int64, shape (p,)
        Members at the end of each round from the publication to the deadline, the source too.
    in_time, late, lost : ndarray of int64, shape (p,)
        Of them, those that got it in its round (the source did), later, or not up to the deadline.
    duplicates : ndarray of int64, shape (p,)
        How often nodes got it again, up to the deadline.
    """

    round: np.ndarray = field(default_factory=whole_numbers)
    group: np.ndarray = field(default_factory=whole_numbers)
    expected: np.ndarray = field(default_factory=whole_numbers)
    in_time: np.ndarray = field(default_factory=whole_numbers)
    late: np.ndarray = field(default_factory=whole_numbers)
    lost: np.ndarray = field(default_factory=whole_numbers)
    duplicates: np.ndarray = field(default_factory=whole_numbers)

    def by_group(self, groups: np.ndarray) -> dict[str, np.ndarray]:
        """Add them up by round and group, over their sources: columns by name, all int64.

        Parameters
        ----------
        groups : ndarray of int64, shape (G,)
            The numbers of the groups, by index.
        """
        columns = self.to_columns()
        key, which = np.unique(
            columns.pop("round") * len(groups) + columns.pop("group"), return_inverse=True
        )
        published, group = np.divmod(key, max(1, len(groups)))
        sums = {
            name: np.bincount(which, count, len(key)).astype(np.int64)
            for name, count in columns.items()
        }
        return {"round": published, "group": groups[group], **sums}


@dataclass(frozen=True)
class SystemRound:
    """What a round leaves besides a system's state.

    Attributes
    ----------
    measures : mapping of str to float
        By name, without that of the system; messages are counted by `LivingRound.tally`.
    publications : Publications
    """

    measures: Mapping[str, float]
    publications: Publications


class LiveSystem(Protocol):
    """A multicast system that lives in worlds; picklable, and the same in each round.

    Attributes
    ----------
    payload : tuple of str
        The kinds of its messages that are copies of publications.
    control : tuple of str
        All other kinds.
    """

    @property
    def payload(self) -> tuple[str, ...]: ...
    @property
    def control(self) -> tuple[str, ...]: ...

    def play(self, tables: Tables, now: LivingRound) -> SystemRound:
        """Play a round; writes into `tables`, which are empty before the first one.

        Parameters
        ----------
        tables : Tables
            The state of the system, of all nodes: columns of whole numbers, of numbers of floating
            point or of bool, of one dimension.  Positions and indices are the same in all rounds.
        """
        ...
