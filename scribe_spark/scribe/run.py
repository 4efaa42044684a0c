"""A run is round 0 of a world in which nobody comes or goes: what its programs have in common.

All nodes are alive, and their tables are right; so no JOIN comes to a node twice, no path from the
root is out of date, and nobody counts messages.  The tables of a bucket hold only what differs
between the nodes of a run.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import NONE, SortedTable, whole_numbers
from scribe_spark.core.key_limits import refuse_groups
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Facts, KnowsRing
from scribe_spark.engine.packing import count_rows, overlay
from scribe_spark.overlay import Overlay
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.program import GroupRound, RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import NOTHING, PARTS, BucketState, ScribeState, table_of
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.trees import LiveTreesConfig

__all__ = ["GIVEN", "HELD", "Run", "RunRound", "RunState"]

_Program = TypeVar("_Program", bound=RoundProgram)

#: How the names of tables begin with which programs start, and which they do not change.
GIVEN = "given "

#: The parts that the tables of a run hold, and their columns.
HELD = {
    "entries": ("key", "member", "root", "parent", "cause"),
    "children": ("key",),
    "copies": ("key", "epoch", "version", "creator", "value", "root", "incarnation"),
}

#: What all nodes of a run have in the other columns.
_SAME = {
    **{"entered": 0, "joined": 0, "number": 0, "heard": 0, "tried": True, "extra": NOTHING},
    **{"path": NONE, "moved": False, "heeded": False, "refreshed": 0, "got_payload": False},
}


class RunState(BucketState):
    """What the nodes of a bucket know, of a run.

    A part that no program has written yet is that of the table :data:`GIVEN`, if there is one.
    """

    def _read(self, name: str) -> Any:
        names = [one for one in (table_of(name), GIVEN + table_of(name)) if one in self._tables]
        if name not in HELD or not names:
            return super()._read(name)
        kind, columns = PARTS[name], self._tables[names[0]]
        assert kind is not None
        assert issubclass(kind, SortedTable)
        rows = count_rows(columns)
        same = {
            column: np.broadcast_to(np.array(_SAME[column], empty.dtype), rows)
            for column, empty in vars(kind()).items()
            if column not in HELD[name]
        }
        return kind().borrow(self._lend(name, overlay(columns, same)))

    def _write(self, name: str, part: Any) -> None:
        if name not in HELD:
            return
        table = table_of(name)
        if table in self._tables:
            read = {column: one for column, one in part.read().items() if column in HELD[name]}
            if read:
                self._tables[table] = overlay(self._tables[table], read)
        else:  # empty ones, too: those given are not to come back
            self._tables[table] = {column: getattr(part, column) for column in HELD[name]}


@dataclass(frozen=True)
class RunRound(GroupRound):
    """The round of a run.

    Attributes
    ----------
    rule : NextHop
        Of the overlay.
    roots : ndarray of int64, shape (G,)
        Positions of the roots, for programs that ask for them: the ends of all paths.
    """

    rule: NextHop | None = None
    roots: np.ndarray | None = None

    def state(self, tables: Tables, writes: Sequence[str] = ()) -> RunState:
        """See `GroupRound`."""
        nodes = self.groups.size
        same = np.broadcast_to(np.int64(NONE), nodes)
        return RunState(tables, writes, nodes, same, len(self.groups))

    def scribe(self, given: Given, bucket: int, tables: Tables, state: ScribeState) -> Scribe:
        """See `GroupRound`."""
        assert self.rule is not None
        return replace(
            super().scribe(given, bucket, tables, state),
            observer=None,
            rule=partial(self.rule, int(given.bounds[bucket]), tables),
            roots=self.roots,
            settled=True,
        )


@dataclass(frozen=True)
class Run:
    """What the programs of a run have in common; picklable.

    Attributes
    ----------
    given : Given
    round : RunRound
    """

    given: Given
    round: RunRound

    @classmethod
    def of(cls, overlay: Overlay, groups: pa.Table) -> Run:
        """Return what a run over an overlay has.

        Parameters
        ----------
        groups : pyarrow.Table
            ``group, key_hi, key_lo``, in the order of the groups' numbers.
        """
        names = ("group", "key_hi", "key_lo")
        number, hi, lo = (groups.column(name).to_numpy() for name in names)
        ring, underlay = overlay.ring, overlay.underlay
        refuse_groups(len(number), len(ring))
        keys = Keys(hi.view(np.uint64), lo.view(np.uint64))
        of = Groups(number, keys, len(ring))
        way = (underlay.kernel, underlay.lan_us)
        return cls.over(ring.facts, ring.bounds, of, overlay.rule, *way)

    @classmethod
    def over(
        cls,
        facts: KnowsRing,
        bounds: np.ndarray,
        groups: Groups,
        rule: NextHop,
        kernel: Kernel,
        lan_us: int,
    ) -> Run:
        """Return what a run has, over nodes that route by a rule."""
        from scribe_spark.config import OverlayConfig, ScribeConfig, TreesConfig  # on the driver

        of = (0, groups, ScribeConfig().for_tasks(), TreesConfig().for_tasks(), whole_numbers())
        # nobody arrives in a run's programs
        given = Given(facts, bounds, OverlayConfig().for_tasks(), kernel, Observer(()))
        return cls(given, RunRound(*of, timed=True, lan_us=lan_us, rule=rule))

    @property
    def facts(self) -> Facts:
        """All nodes."""
        return cast(Facts, self.given.facts)

    @property
    def kernel(self) -> Kernel:
        """Of the underlay."""
        return self.given.kernel

    @property
    def lan_us(self) -> int:
        """Delay of a node's LAN link, each way."""
        return self.round.lan_us

    @property
    def number(self) -> np.ndarray:
        """The numbers of the groups: int64, shape (G,)."""
        return self.round.groups.number

    def for_variant(
        self, trees: LiveTreesConfig, limits: ChildLimits | None, seed: int, roots: np.ndarray
    ) -> Run:
        """Return the run for the programs of a variant, which draw."""
        round = replace(self.round, trees=trees.for_tasks(), limits=limits, roots=roots)
        return Run(replace(self.given, seed=seed), round)

    def program(self, kind: type[_Program], *more: Any) -> _Program:
        """Return a program of a kind."""
        return kind(self.given, self.round, *more)
