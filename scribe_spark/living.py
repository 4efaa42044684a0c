"""The seam between a world and a multicast system that lives through its rounds.

A world plays Pastry and Scribe, and then each other system that it has.  A system keeps its state
in tables of its own, which the world packs and saves; it is told what happens in the round, counts
its messages, and tells what became of publications.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from scribe_spark.core.arrays import Rows, whole_numbers
from scribe_spark.engine.facts import KnowsRing, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Inbox, Outbox, Prefixed, Program, Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.observer import MESSAGES, TRAFFIC
from scribe_spark.pastry.arrivals.states import CELLS, LEAVES
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = [
    "InBuckets",
    "LiveSystem",
    "LivingRound",
    "OwnRounds",
    "Pairs",
    "PlaysPrograms",
    "PlaysSystems",
    "Publications",
    "SystemOnBuckets",
    "SystemPlayer",
    "SystemRound",
    "count_messages",
    "join_buckets",
    "play_own_rounds",
    "split_tables",
]

#: Indices of groups and positions of nodes, ascending by both; each pair once.
Pairs = tuple[np.ndarray, np.ndarray]

#: Round numbers, one or many.
RoundNumber = TypeVar("RoundNumber", int, np.ndarray)


@dataclass(frozen=True)
class OwnRounds:
    """The rounds of a system within those of a world, in whole microseconds.

    Both begin at time 0 and follow each other without a gap.  A world's round has the system's own
    rounds that begin in it, so what is left of the last one is carried into the next round exactly.

    Attributes
    ----------
    world_us : int
        How long a round of the world lasts.
    own_us : int
        How long a round of the system lasts; at most `world_us`.

    Examples
    --------
    >>> own = OwnRounds(world_us=2_000_000, own_us=700_000)
    >>> [own.first(number) for number in range(4)]  # begin at 0, 2.1, 4.2 and 6.3 s
    [0, 3, 6, 9]
    >>> own.world_round(5)  # begins at 3.5 s
    1
    """

    world_us: int = 1
    own_us: int = 1

    def first(self, number: RoundNumber) -> RoundNumber:
        """Return the first own round that begins in a round of the world."""
        return -(-number * self.world_us // self.own_us)

    def world_round(self, own: RoundNumber) -> RoundNumber:
        """Return the round of the world in which an own round begins."""
        return own * self.own_us // self.world_us


@dataclass(frozen=True)
class LivingRound:
    """A system's own round in a world; all of it is for reading only.

    Nodes are their positions in `ring`, groups their indices.  Events, joins, quits and
    publications are those of the world's round, in the first own round that begins in it; the
    others have none.

    Attributes
    ----------
    number : int
        Own rounds count from 0.
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
        Rounds of the world after which a publication that has not been delivered counts as lost.
    tally : Tally
        Where the system counts its messages, by kind.
    incarnation : ndarray of int64, shape (K,)
        The last round of the world in which each node arrived or recovered; -1: none.
    own : OwnRounds
        Which own rounds begin in which round of the world; by default one in each.
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
    incarnation: np.ndarray
    own: OwnRounds = OwnRounds()

    @property
    def world_round(self) -> int:
        """The number of the world's round."""
        return self.own.world_round(self.number)

    @property
    def begins_round(self) -> bool:
        """True if it is the first own round of the world's round."""
        return self.number == self.own.first(self.world_round)

    @property
    def ends_round(self) -> bool:
        """True if the world's round has no own round after this one."""
        return self.number + 1 == self.own.first(self.world_round + 1)

    @property
    def alive(self) -> np.ndarray:
        """The nodes that are alive after the events: bool, shape (K,)."""
        return self.overlay.alive

    @property
    def is_last(self) -> bool:
        """True in the last own round of the world's last round."""
        return self.ends_round and self.world_round == self.rounds - 1


@dataclass(frozen=True)
class Publications(Rows):
    """Outcomes of publications that are due; in time + late + lost = expected.

    At the end of a round of the world those of `deadline` rounds before are due, and at the end of
    the last round all that are left.

    Attributes
    ----------
    round : ndarray of int64, shape (p,)
        The round of the world in which each was published.
    group : ndarray of int64, shape (p,)
        Its index; several of a group and round may be one row, or several.
    expected : ndarray of int64, shape (p,)
        Members at the end of each round from the publication to the deadline, the source too.
    in_time, late, lost : ndarray of int64, shape (p,)
        Of them, those that got it in its round of the world (the source did), later, or not up to
        the deadline.
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
    """The measures and publications of a round.

    Attributes
    ----------
    measures : mapping of str to float
        By name, without that of the system; messages are counted by `LivingRound.tally`.  Of a
        round of the world those of its last own round are kept.
    publications : Publications
    counts : mapping of str to float
        Measures that are added up over the own rounds of a round of the world.
    """

    measures: Mapping[str, float]
    publications: Publications
    counts: Mapping[str, float] = field(default_factory=dict)


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
        """Play an own round; write into `tables`, which are empty before the first one.

        Parameters
        ----------
        tables : Tables
            The state of the system, of all nodes: columns of whole numbers, of numbers of floating
            point or of bool, of one dimension.  Positions and indices are the same in all rounds.
        """
        ...


def play_own_rounds(play: Callable[[LivingRound], SystemRound], now: LivingRound) -> SystemRound:
    """Play the own rounds of a system that begin in a round of the world.

    Parameters
    ----------
    play : callable
        Plays an own round.
    now : LivingRound
        `number` is that of the world's round.
    """
    first, last = now.own.first(now.number), now.own.first(now.number + 1)
    nobody = whole_numbers(), whole_numbers()
    quiet = replace(now, events=Events(), join=nobody, quit=nobody, publish=nobody)
    played = [
        play(replace(now if number == first else quiet, number=number))
        for number in range(first, last)
    ]
    counts = {name: sum(one.counts[name] for one in played) for name in played[0].counts}
    due = Publications.join(*(one.publications for one in played))
    return SystemRound(played[-1].measures, due, counts)


# --- systems whose rounds are programs on buckets


class PlaysPrograms(Protocol):
    """Plays programs on buckets, one after the other.

    The orchestrator, which makes them, sees no table but those that it takes or gathers.
    """

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """Play a program until nobody sends; return how many messages were sent.

        Parameters
        ----------
        first : mapping of Columns, optional
            Messages of superstep 0, by kind.
        """
        ...

    def has(self, name: str) -> bool:
        """Return whether any bucket has rows in a table."""
        ...

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Remove tables from all buckets; return their rows, bucket by bucket.

        A name stands for the tables ``name 0``, ``name 1``, ... too; the result has no entry for a
        table that no bucket has.
        """
        ...

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Return the rows of tables as :meth:`take` does; the tables stay."""
        ...

    def share(self, **arrays: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return a picklable mapping to arrays that every bucket's programs read in this round."""
        ...


class PlaysSystems(PlaysPrograms, Protocol):
    """Plays programs of a system, for its orchestrator (`SystemOnBuckets.play_round`).

    Attributes
    ----------
    facts : KnowsRing
        All nodes, for programs to hold.
    bounds : ndarray of int64, shape (B + 1,)
    """

    @property
    def facts(self) -> KnowsRing: ...
    @property
    def bounds(self) -> np.ndarray: ...


class InBuckets(InTask):
    """Buckets in the memory of a task; see `PlaysSystems`.

    Parameters
    ----------
    facts : KnowsRing
    bounds : ndarray of int64, shape (B + 1,)
    tables : sequence of Tables
        The tables of each bucket; programs change them.
    """

    def __init__(self, facts: KnowsRing, bounds: np.ndarray, tables: Sequence[Tables]) -> None:
        super().__init__(tables)
        self.facts, self.bounds = facts, bounds


class SystemPlayer:
    """Plays a system on buckets that have the tables of other protocols, too; see `PlaysSystems`.

    Parameters
    ----------
    engine : PlaysPrograms
        Keeps the tables of all protocols.
    facts : KnowsRing
    bounds : ndarray of int64, shape (B + 1,)
    prefix : str
        The names of the system's tables begin with it.
    reads : tuple of str
        Tables of other protocols that the system reads.
    """

    def __init__(
        self,
        engine: PlaysPrograms,
        facts: KnowsRing,
        bounds: np.ndarray,
        prefix: str,
        reads: tuple[str, ...] = (),
    ) -> None:
        self.facts, self.bounds = facts, bounds
        self._engine, self._prefix, self._reads = engine, prefix, reads

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """See `PlaysPrograms.play`."""
        return self._engine.play(Prefixed(program, self._prefix, self._reads), first)

    def has(self, name: str) -> bool:
        """See `PlaysPrograms.has`."""
        return self._engine.has(self._prefix + name)

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `PlaysPrograms.take`."""
        return self._named(self._engine.take(*(self._prefix + name for name in names)))

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `PlaysPrograms.gather`."""
        return self._named(self._engine.gather(*(self._prefix + name for name in names)))

    def share(self, **arrays: np.ndarray) -> Mapping[str, np.ndarray]:
        """See `PlaysPrograms.share`."""
        return self._engine.share(**arrays)

    def _named(self, tables: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
        return {name.removeprefix(self._prefix): columns for name, columns in tables.items()}


@dataclass(frozen=True)
class _Keep:
    """The first bucket keeps the tables of the orchestrator between rounds."""

    bounds: np.ndarray
    tables: Mapping[str, Columns]

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not bucket:
            tables.update(self.tables)
        return {}


class SystemOnBuckets:
    """A `LiveSystem` whose rounds are programs on buckets, so that any number of them is equal.

    Attributes
    ----------
    kept_in_buckets : mapping of str to int
        Tables of a bucket that stay between rounds, each with a column ``key``: name -> the power
        of K by which the key is divided to leave a node as the last part.
    kept : tuple of str
        Tables that the orchestrator keeps between rounds.
    reads_overlay : bool
        Whether programs read the tables of Pastry's nodes (`States.tables`).
    """

    kept_in_buckets: ClassVar[Mapping[str, int]]
    kept: ClassVar[tuple[str, ...]]
    reads_overlay: ClassVar[bool] = False

    def play_round(self, player: PlaysSystems, kept: Tables, now: LivingRound) -> SystemRound:
        """Play a round.

        Parameters
        ----------
        kept : Tables
            What the orchestrator keeps between rounds: no row of a node.
        """
        raise NotImplementedError

    def play_on(
        self,
        engine: PlaysPrograms,
        facts: KnowsRing,
        bounds: np.ndarray,
        prefix: str,
        now: LivingRound,
    ) -> SystemRound:
        """Play the own rounds of a round of the world on buckets that have Pastry's tables, too.

        Parameters
        ----------
        engine, facts, bounds, prefix
            As of `SystemPlayer`.
        now : LivingRound
            As of `play_own_rounds`.
        """
        reads = (LEAVES, CELLS) if self.reads_overlay else ()
        player = SystemPlayer(engine, facts, bounds, prefix, reads)
        kept = Tables.of(player.take(*self.kept))
        done = play_own_rounds(partial(self.play_round, player, kept), now)
        player.play(_Keep(bounds, {name: kept[name] for name in self.kept}))
        return done

    def play(self, tables: Tables, now: LivingRound) -> SystemRound:
        """See `LiveSystem.play`: the round of one bucket."""
        bounds = np.array([0, len(now.ring)])
        buckets = [Tables.of(one) for one in split_tables(tables, self.kept_in_buckets, bounds)]
        if self.reads_overlay:
            buckets[0].update(now.overlay.states.tables())
        done = self.play_round(InBuckets(RingInMemory(now.ring), bounds, buckets), tables, now)
        tables.update(join_buckets(buckets, self.kept_in_buckets))
        return done


def count_messages(player: PlaysSystems, now: LivingRound) -> None:
    """Add up the messages that observers have counted in the buckets."""
    names = (MESSAGES,) if now.tally.traffic is None else (MESSAGES, TRAFFIC)
    now.tally.take(player.take(*names))


def split_tables(
    tables: Mapping[str, Columns], powers: Mapping[str, int], bounds: np.ndarray
) -> list[dict[str, Columns]]:
    """Return the tables of each bucket: the rows of its nodes.

    Parameters
    ----------
    powers : mapping of str to int
        As `SystemOnBuckets.kept_in_buckets`; tables that are not named stay out.
    """
    names = [name for name in powers if name in tables]
    if len(bounds) == 2:
        return [{name: tables[name] for name in names}]
    buckets: list[dict[str, Columns]] = [{} for _ in bounds[1:]]
    for name in names:
        size = int(bounds[-1])
        node = tables[name]["key"] // size ** powers[name] % size
        for mine, first, last in zip(buckets, bounds[:-1], bounds[1:], strict=True):
            mine[name] = take(tables[name], np.flatnonzero((node >= first) & (node < last)))
    return buckets


def join_buckets(
    buckets: Sequence[Mapping[str, Columns]], powers: Mapping[str, int]
) -> dict[str, Columns]:
    """Return the tables of all buckets together, in the order of their keys."""
    joined: dict[str, Columns] = {}
    for name in powers:
        parts = [mine[name] for mine in buckets if name in mine]
        if len(parts) == 1:
            joined[name] = parts[0]
        elif parts:
            together = concatenate(parts)
            joined[name] = take(together, np.argsort(together["key"]))
    return joined
