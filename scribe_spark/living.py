"""The seam between a world and a multicast system that lives through its rounds.

A world plays Pastry and Scribe, and then each other system that it has.  A system keeps its state
in tables of its own, which the world packs and saves; it is told what happens in the round, counts
its messages, and tells what became of publications.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np

from scribe_spark.bandwidth.rounds import Begun, RoundLinks
from scribe_spark.core.arrays import NONE, Rows, find_sorted, whole_numbers
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.player import Player, Shared
from scribe_spark.engine.program import Inbox, Outbox, Prefixed, Program, Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.observer import MESSAGES, TRAFFIC
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.lives import KnowsLives
from scribe_spark.pastry.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = [
    "CARRIED",
    "DELIVERED",
    "LivingRound",
    "Multicasts",
    "OwnRounds",
    "Pairs",
    "Publications",
    "SystemOnBuckets",
    "SystemPlayer",
    "SystemRound",
    "count_messages",
    "notes_copies",
    "play_own_rounds",
]

#: Indices of groups and positions of nodes, ascending by both; each pair once.
Pairs = tuple[np.ndarray, np.ndarray]

#: The tables of a bucket after a round whose multicasts are measured: the first copies that its
#: nodes have got (``group, publication, node, hops, delay_us``); and copies that were sent, lost
#: ones too (``group, publication, sender, to``; where copies to live nodes may be lost also
#: ``lost``), each in any one bucket.  In a run copies of a mesh have the columns ``hops, sent_us,
#: first``, too.
DELIVERED, CARRIED = "multicast deliveries", "multicast copies"

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
    overlay : KnowsLives
        The nodes that are alive after the events (``alive``, bool, shape (K,)), and when the others
        died.
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
    measures : tuple of str
        The measures of the round's multicasts that a config names: ``delay``, ``node_stress``,
        ``link_stress``.  Without any, systems need not leave :data:`DELIVERED` and :data:`CARRIED`.
    source : str
        The start of multicasts, as of `ScribeConfig`.
    capacity : ndarray of int64, shape (K,), or None
        The limits of children that a user gives the nodes (`TreesConfig.capacities`).
    links : RoundLinks or None
        Sizes, rates and times, where publications have a size.
    """

    number: int
    rounds: int
    ring: Ring
    overlay: KnowsLives
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
    measures: tuple[str, ...] = ()
    source: str = "root"
    capacity: np.ndarray | None = None
    links: RoundLinks | None = None

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


def notes_copies(measures: tuple[str, ...]) -> bool:
    """Return whether measures read :data:`CARRIED`; all of them read :data:`DELIVERED`."""
    return not COPIES_NOTED_FOR.isdisjoint(measures)


#: The measures that read :data:`CARRIED`.
COPIES_NOTED_FOR = frozenset(("link_stress", "node_stress", "bytes"))


@dataclass(frozen=True)
class Multicasts(Rows):
    """The multicasts of a round that are measured, one a group: arrays of shape (p,); rule S25.

    Attributes
    ----------
    group : ndarray of int64
        The indices of the groups, ascending.
    publication : ndarray of int64
        The names of the publications in :data:`DELIVERED` and :data:`CARRIED`.
    start : ndarray of int64
        The node where each begins.
    hops, delay_us : ndarray of int64
        Of the way from there to the node at which the hops of deliveries are 0.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    start: np.ndarray = field(default_factory=whole_numbers)
    hops: np.ndarray = field(default_factory=whole_numbers)
    delay_us: np.ndarray = field(default_factory=whole_numbers)

    @classmethod
    def from_start(
        cls, group: np.ndarray, publication: np.ndarray, start: np.ndarray
    ) -> Multicasts:
        """Return multicasts whose hops and delays count from their starts."""
        none = np.zeros(len(group), dtype=np.int64)
        return cls(group, publication, start, none, none)

    def find(self, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
        """Return the multicast of each publication, NONE where there is none."""
        of = find_sorted(self.group, group)
        of[of >= 0] = np.where(
            self.publication[of[of >= 0]] == publication[of >= 0], of[of >= 0], NONE
        )
        return of


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
    multicasts : Multicasts, optional
        The multicasts of the world's round, of its last own round; None: they are not measured.
    begun : Begun, optional
        The publications that the clock with bandwidth plays after the round along the copies of
        :data:`CARRIED`, where publications have a size; by default the multicasts, from their
        starts.  A system that plays the clock itself names none.
    """

    measures: Mapping[str, float]
    publications: Publications
    counts: Mapping[str, float] = field(default_factory=dict)
    multicasts: Multicasts | None = None
    begun: Begun | None = None


def play_own_rounds(play: Callable[[LivingRound], SystemRound], now: LivingRound) -> SystemRound:
    """Play the own rounds of a system that begin in a round of the world.

    Parameters
    ----------
    play : callable
        Plays an own round.
    now : LivingRound
        `number` is that of the world's round.
    """
    first, end = now.own.first(now.number), now.own.first(now.number + 1)
    nobody = whole_numbers(), whole_numbers()
    quiet = replace(now, events=Events(), join=nobody, quit=nobody, publish=nobody)
    played = [
        play(replace(now if number == first else quiet, number=number))
        for number in range(first, end)
    ]
    counts = {name: sum(one.counts[name] for one in played) for name in played[0].counts}
    due = Publications.join(*(one.publications for one in played))
    last = played[-1]
    return SystemRound(last.measures, due, counts, last.multicasts, last.begun)


# --- systems whose rounds are programs on buckets


class SystemPlayer:
    """Plays a system's programs on buckets that have the tables of other protocols, too.

    The orchestrator (`SystemOnBuckets.play_round`) sees no table but those that it takes or
    gathers.

    Parameters
    ----------
    engine : Player
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
        engine: Player,
        facts: KnowsRing,
        bounds: np.ndarray,
        prefix: str,
        reads: tuple[str, ...] = (),
    ) -> None:
        self.facts, self.bounds = facts, bounds
        self._engine, self._prefix, self._reads = engine, prefix, reads
        self._shared: dict[str, Shared] = {}

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """See `Player.play`."""
        return self._engine.play(Prefixed(program, self._prefix, self._reads), first)

    def keep(self, orchestrate: Callable[[SystemPlayer], None], called: str) -> None:
        """See `Player.keep`."""
        of = self.facts, self.bounds, self._prefix, self._reads, orchestrate
        self._engine.keep(partial(_play_system, *of), self._prefix + called)

    def has(self, name: str) -> bool:
        """See `Player.has`."""
        return self._engine.has(self._prefix + name)

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `Player.take`."""
        return self._named(self._engine.take(*(self._prefix + name for name in names)))

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `Player.gather`."""
        return self._named(self._engine.gather(*(self._prefix + name for name in names)))

    def share(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> Shared:
        """Share arrays as `Player.share` does, once in a round of the world; freed after it.

        Parameters
        ----------
        make : callable
            Returns the arrays by name; it is called the first time.
        """
        if name not in self._shared:
            self._shared[name] = self._engine.share(**make())
        return self._shared[name]

    def free_shared(self) -> None:
        """Free all arrays that were shared by this player."""
        while self._shared:
            self._engine.free(self._shared.popitem()[1])

    def _named(self, tables: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
        return {name.removeprefix(self._prefix): columns for name, columns in tables.items()}


def _play_system(
    facts: KnowsRing,
    bounds: np.ndarray,
    prefix: str,
    reads: tuple[str, ...],
    orchestrate: Callable[[SystemPlayer], None],
    engine: Player,
) -> None:
    """Let an orchestrator play the programs of a system on an engine."""
    orchestrate(SystemPlayer(engine, facts, bounds, prefix, reads))


@dataclass(frozen=True)
class _Keep:
    """Buckets keep the state of a system; the first one that of the orchestrator, too.

    Attributes
    ----------
    bounds : ndarray of int64, shape (B + 1,)
    names : set of str
        The tables that stay, besides those of messages.
    tables : mapping of str to Columns
        The orchestrator's.
    """

    bounds: np.ndarray
    names: frozenset[str]
    tables: Mapping[str, Columns]

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        for name in list(tables):
            if name not in self.names and not name.startswith(f"{TRAFFIC} "):
                del tables[name]
        if not bucket:
            tables.update(self.tables)
        return {}


class SystemOnBuckets:
    """A multicast system that lives in rounds; picklable, and the same in each round.

    A round is programs on buckets, so that any number of buckets is equal.

    Attributes
    ----------
    payload : tuple of str
        The kinds of its messages that are copies of publications.
    control : tuple of str
        All other kinds.
    kept_in_buckets : mapping of str to int
        Tables of a bucket that stay between rounds, each with a column ``key``: name -> the power
        of K by which the key is divided to leave a node as the last part.
    kept : tuple of str
        Tables that the orchestrator keeps between rounds.
    reads : tuple of str
        Tables of other protocols that programs read, as those of Pastry's nodes.
    member_table : str
        One of `kept_in_buckets`, whose keys are (group, node) of all members; empty: the
        multicasts of the system are not measured.
    merged : bool
        Whether routers duplicate packets: the routes of a publication's copies are merged.
    state : mapping of str to str
        The entries that nodes keep in a run: a name for users -> a table with a column ``key``,
        whose rows are counted by (group, node).
    """

    kept_in_buckets: ClassVar[Mapping[str, int]]
    kept: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[str, ...]] = ()
    member_table: ClassVar[str] = ""
    merged: ClassVar[bool] = False
    state: ClassVar[Mapping[str, str]] = {}

    @property
    def payload(self) -> tuple[str, ...]:
        """The kinds of messages that are copies of publications."""
        raise NotImplementedError

    @property
    def control(self) -> tuple[str, ...]:
        """All other kinds of messages."""
        raise NotImplementedError

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        """Play an own round.

        Parameters
        ----------
        kept : Tables
            What the orchestrator keeps between rounds: no row of a node.
        """
        raise NotImplementedError

    def play_on(
        self,
        player: SystemPlayer,
        now: LivingRound,
        measure: Callable[[SystemRound], None] | None = None,
    ) -> SystemRound:
        """Play the own rounds that begin in a round of the world; `now` as of `play_own_rounds`.

        Parameters
        ----------
        measure : callable, optional
            Is called while buckets still have :data:`DELIVERED` and :data:`CARRIED`.
        """
        kept = Tables.of(player.take(*self.kept))
        done = play_own_rounds(partial(self.play_round, player, kept), now)
        if measure is not None:
            measure(done)
        names = frozenset((*self.kept_in_buckets, *self.kept))
        player.play(_Keep(player.bounds, names, {name: kept[name] for name in self.kept}))
        player.free_shared()
        return done


def count_messages(player: SystemPlayer, now: LivingRound) -> None:
    """Add up the messages that observers have counted in the buckets."""
    now.tally.take(player.take(MESSAGES))
