"""The interface between a world and a multicast system that plays in its rounds.

A world plays the round of its nodes (of Pastry, if a system needs it) and then its systems one
after the other.  A system keeps its state in tables with its prefix, which the world packs and
saves.  The world tells it the events of the round; the system counts its messages and reports the
results of publications.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import Begun, RoundLinks
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.core import arrays
from scribe_spark.engine.facts import KnowsRing, Ring
from scribe_spark.engine.losses import Late, Lost, late_copies, lost_copies
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.player import Player, Shared, counted, most_supersteps
from scribe_spark.engine.program import SilentProgram, Tables
from scribe_spark.rounds.applications import MEMORY, Applications, TellApplication
from scribe_spark.rounds.events import Events, KnowsLives
from scribe_spark.rounds.group_events import (
    GroupEvents,
    Groups,
    Pairs,
    Publishing,
    keys_in,
    publication_ids,
)
from scribe_spark.rounds.player import MESSAGES, TRAFFIC, BucketPlayer, Environment, Tally
from scribe_spark.schemas import PUBLICATION_COUNTS
from scribe_spark.underlay.protocol import Kernel

#: The tables of a bucket after a round whose publications are measured: the first copies at its
#: nodes (``group, publication, node, hops, delay_us``); and the sent copies, also lost ones
#: (``group, publication, sender, to``; also ``lost``, if copies to live nodes may be lost), each in
#: any one bucket.  In a run, copies of a mesh also have the columns ``hops, sent_us, first``, and
#: perhaps ``kind``: the indices of kinds of messages, of payload and control, in this order.  The
#: time ``sent_us`` counts from the publication; NONE: unknown.
DELIVERED, CARRIED = "multicast deliveries", "multicast copies"

#: The separator between the name of a system and the name of one of its tables.
OF_SYSTEM = "/"

#: One or several numbers of rounds.
RoundNumber = TypeVar("RoundNumber", int, np.ndarray)


@dataclass(frozen=True)
class OwnRounds:
    """The own rounds of a system beside the rounds of the world, in whole microseconds.

    Both begin at time 0 and follow each other without a gap.  A world's round contains the system's
    own rounds that begin in it; the rest of the last one belongs to the next round.  An own round
    is at most as long as one of the world.

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
        """Return the number of the first own round that begins in round `number` of the world."""
        return -(-number * self.world_us // self.own_us)

    def world_round(self, own: RoundNumber) -> RoundNumber:
        """Return the number of the world's round in which the own round `own` begins."""
        return own * self.own_us // self.world_us


@dataclass(frozen=True)
class LivingRound:
    """The read-only description of a system's own round in a world.

    Nodes are positions in `ring`, groups are indices.  The events, joins, quits and publications of
    a round of the world are in the first own round that begins in it; its other own rounds have
    none.

    Attributes
    ----------
    number : int
        The number of the own round, from 0.
    rounds : int
        The number of rounds of the world; after the last one all publications are counted.
    ring : Ring
        All K nodes, also dead ones and nodes that may arrive later; the same in every round.
    overlay : KnowsLives
        The nodes that live after the events (``alive``, bool, shape (K,)), and the rounds in which
        the others died.
    events : Events
        The events of nodes: ``fail`` (silent), ``leave``, ``recover``, ``arrive``.
    group : ndarray of int64, shape (G,)
        The numbers of the groups, which key draws.
    key_hi, key_lo : ndarray of uint64, shape (G,)
        The halves of the groupIds.
    join, quit : Pairs
        The groups and nodes of these events; the nodes live after the events of nodes, and have the
        right.  Each list has a pair (group, node) at most once.  A dead node is no member any more;
        a node that comes back joins again.
    publish : Publishing
        The publications that begin in the round; their sources live, and have the right.
    kernel : Kernel
        Delays between routers.
    lan_us : int
        The delay of a node's LAN link in each direction, in microseconds.
    seed : int
        The key of every draw.
    deadline : int
        The number of rounds of the world after which a publication is due: members without it
        have lost it.
    tally : Tally
        The object that counts the system's messages by kind.
    incarnation : ndarray of int64, shape (K,)
        The last round of the world in which each node arrived or recovered; -1: none.
    own : OwnRounds
        The own rounds in each round of the world; by default one in each.
    measures : tuple of str
        The config's measures of publications: ``delay``, ``node_stress``, ``link_stress``.  Without
        any, systems need not leave :data:`DELIVERED` and :data:`CARRIED`.
    source : str
        The start of publications: the setting `source` of `ScribeConfig`.
    capacity : ndarray of int64, shape (K,), or None
        The user's limits of children (`TreesConfig.capacities`).
    links : RoundLinks or None
        Rates and times of nodes, if publications have sizes or times.
    in_run : bool
        True in a run: every publication is measured, not the first one of each group; and messages
        are recorded with their groups, also those by which members join.
    scheduled : bool
        True in a world with a schedule: every publication is measured.
    groups : Groups or None
        The groups with their access lists.
    group_events : GroupEvents
        All events of groups, also CREATEs and the events of nodes that do not have the right.
    watched : ndarray of int64
        The indices of the groups whose trees are recorded; in a run, of the group with a picture.
    environment : Environment or None
        The rules and the observer of the nodes, for a system that shares their tables.
    routers : int
        The number of routers.
    applications : Applications or None
        The user's application, which is told the failures that nodes notice.
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
    publish: Publishing
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
    in_run: bool = False
    scheduled: bool = False
    groups: Groups | None = None
    group_events: GroupEvents = field(default_factory=GroupEvents)
    watched: np.ndarray = field(default_factory=arrays.whole_numbers)
    environment: Environment | None = None
    routers: int = 0
    applications: Applications | None = None

    @property
    def world_round(self) -> int:
        """The number of the round of the world in which this own round begins."""
        return self.own.world_round(self.number)

    @property
    def begins_round(self) -> bool:
        """True in the first own round of a round of the world."""
        return self.number == self.own.first(self.world_round)

    @property
    def ends_round(self) -> bool:
        """True in the last own round of a round of the world."""
        return self.number + 1 == self.own.first(self.world_round + 1)

    def lost_copies(
        self,
        facts: KnowsRing,
        some: np.ndarray | None = None,
        each: np.ndarray | slice = slice(None),
        more: tuple[str, ...] = (),
    ) -> Lost | None:
        """Return the losses of copies of publications; None if the network loses no copies.

        `facts` has the nodes, `some` are indices in `publish` (by default all), `each` has the
        index in `some` of each publication by which copies are named, and `more` are columns of
        links that are further keys of the draws.
        """
        publish, name = self._named(some)
        group, number = (part[each] for part in name)
        return lost_copies(facts, self.kernel, self.seed, group, number, publish.node[each], more)

    def late_copies(
        self,
        facts: KnowsRing,
        some: np.ndarray | None = None,
        each: np.ndarray | slice = slice(None),
    ) -> Late | None:
        """Return the jitter of copies of publications (see :meth:`lost_copies`), or None."""
        group, number = (part[each] for part in self._named(some)[1])
        return late_copies(facts, self.kernel, self.seed, group, number)

    def _named(self, some: np.ndarray | None) -> tuple[Publishing, tuple[np.ndarray, np.ndarray]]:
        """Return some publications, their groups, and numbers that are unique in these: N1."""
        publish = self.publish if some is None else self.publish.take(some)
        if self.in_run:
            numbers = arrays.rank_in_group(publish.group)
        else:
            number, nodes = self.ring.node[publish.node], int(self.ring.node.max()) + 1
            numbers = publication_ids(self.world_round, number, publish.turn, nodes)
        return publish, (self.group[publish.group], numbers)

    def for_buckets(self) -> LivingRound:
        """Return the round as programs on buckets carry it: without nodes, events and rules."""
        names = "ring", "groups", "environment", "applications", "incarnation"
        none: dict[str, Any] = dict.fromkeys(names)
        return replace(_without_events(self), publish=self.publish, **none)

    @property
    def parts(self) -> Parts:
        """The rule by which publications are split into parts; by default one part each."""
        return Parts() if self.links is None else self.links.parts

    @property
    def measures_all(self) -> bool:
        """True if all publications are measured: in a run, and with a schedule."""
        return self.in_run or self.scheduled

    @property
    def alive(self) -> np.ndarray:
        """True for the nodes that live after the events: bool, shape (K,)."""
        return self.overlay.alive

    @property
    def is_last(self) -> bool:
        """True in the last own round of the world's last round."""
        return self.ends_round and self.world_round == self.rounds - 1


@dataclass(frozen=True)
class Publications(arrays.Rows):
    """The publications that are due in a round, with the numbers of their receivers: arrays (p,).

    At the end of a round of the world, the publications of `deadline` rounds before are due, and a
    system counts them.  At the end of the last round, the system also counts all remaining ones,
    which are *open*.  The world, not the system, decides which members have lost a publication.

    `round` and `group` (an index) may repeat.  `expected` members stay members from the publication
    to the deadline, the source included; `in_time` or `late` of them received it in its round of
    the world (as the source does), or later.  `first_copies` and `duplicates` are copies that
    arrived until the deadline at nodes without or with the publication; all nodes count.
    """

    round: np.ndarray = field(default_factory=arrays.whole_numbers)
    group: np.ndarray = field(default_factory=arrays.whole_numbers)
    expected: np.ndarray = field(default_factory=arrays.whole_numbers)
    in_time: np.ndarray = field(default_factory=arrays.whole_numbers)
    late: np.ndarray = field(default_factory=arrays.whole_numbers)
    first_copies: np.ndarray = field(default_factory=arrays.whole_numbers)
    duplicates: np.ndarray = field(default_factory=arrays.whole_numbers)

    def by_group(self, groups: np.ndarray, last_due: int) -> dict[str, np.ndarray]:
        """Return the account of all publications by round and group, over all sources.

        A member that has not received a publication of a round up to `last_due` has *lost* it; else
        the delivery is *open*. in_time + late + lost + open = expected, and ``due`` is ``expected``
        of the publications that are due, 0 of others.
        """
        columns = self.to_columns()
        key, which = np.unique(
            columns.pop("round") * len(groups) + columns.pop("group"), return_inverse=True
        )
        published, group = np.divmod(key, max(1, len(groups)))
        sums = {name: arrays.sums_at(which, count, len(key)) for name, count in columns.items()}
        is_due, missing = published <= last_due, sums["expected"] - sums["in_time"] - sums["late"]
        sums["due"] = np.where(is_due, sums["expected"], 0)
        sums["lost"], sums["open"] = np.where(is_due, missing, 0), np.where(is_due, 0, missing)
        counts = {name: sums[name] for name in PUBLICATION_COUNTS}
        return {"round": published, "group": groups[group], **counts}


def notes_copies(measures: tuple[str, ...]) -> bool:
    """Return True if a measure (a name) reads :data:`CARRIED`; all read :data:`DELIVERED`."""
    return not {"link_stress", "node_stress", "bytes"}.isdisjoint(measures)


@dataclass(frozen=True)
class Multicasts(arrays.Rows):
    """The measured publications of a round, sorted by group and name: arrays of shape (p,); rule
    S25.

    `publication` has their names in :data:`DELIVERED` and :data:`CARRIED`, and `start` the node at
    which each begins; `hops` and `delay_us` are those from there to the node where deliveries count
    from 0.  With a schedule, `number` and `size` are the index in `LivingRound.publish` and the
    size in bytes; by default, the name is the index, and the size is the one of that publication.
    `root` is the node that has the publication before its first copy; by default the start, or NONE
    if there are hops.  In a world without a schedule, each group has one measured publication at
    most.
    """

    group: np.ndarray = field(default_factory=arrays.whole_numbers)
    publication: np.ndarray = field(default_factory=arrays.whole_numbers)
    start: np.ndarray = field(default_factory=arrays.whole_numbers)
    hops: np.ndarray = field(default_factory=arrays.whole_numbers)
    delay_us: np.ndarray = field(default_factory=arrays.whole_numbers)
    number: np.ndarray = None  # type: ignore[assignment]
    size: np.ndarray = None  # type: ignore[assignment]
    root: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.number is None:
            object.__setattr__(self, "number", self.publication)
        if self.root is None:
            object.__setattr__(self, "root", np.where(self.hops == 0, self.start, arrays.NONE))
        if self.size is None:
            object.__setattr__(self, "size", np.full_like(self.group, arrays.NONE))

    @property
    def are_scheduled(self) -> bool:
        """True if the publications are those of a schedule, with sizes of their own."""
        return bool((self.size >= 0).any())

    def with_sizes(self, publish: Publishing) -> Multicasts:
        """Return the same publications; sizes (bytes) that are not set are those of `publish`."""
        unset = self.size < 0
        size = self.size.copy()
        size[unset] = publish.size[self.number[unset]]
        return replace(self, size=size)

    @classmethod
    def from_start(
        cls, group: np.ndarray, publication: np.ndarray, start: np.ndarray
    ) -> Multicasts:
        """Return measured publications; their hops and delays count from the nodes `start`."""
        none = np.zeros(len(group), dtype=np.int64)
        return cls(group, publication, start, none, none)

    @classmethod
    def of_round(cls, now: LivingRound) -> Multicasts:
        """Return the publications of a round that are measured; they start at their sources."""
        publish = now.publish
        every = cls.from_start(publish.group, np.arange(len(publish)), publish.node)
        return every.measured(now.measures_all)

    def measured(self, every: bool) -> Multicasts:
        """Return the measured publications, sorted: all if `every`, else each group's first."""
        order = np.lexsort((self.publication, self.group))
        return self.take(order if every else order[arrays.run_starts(self.group[order])])

    def of_groups(self, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of an element of `group` and a publication of it: two indices."""
        first, end = (np.searchsorted(self.group, group, side) for side in ("left", "right"))
        row, of = arrays.expand(first, end)
        return row, of

    def find(self, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
        """Return the index of each publication of a group here; NONE if it is not here: int64."""
        if (self.group[1:] > self.group[:-1]).all():  # one publication of a group
            of = arrays.find_sorted(self.group, group)
            return np.where(
                np.append(self.publication, arrays.NONE)[of] == publication, of, arrays.NONE
            )
        names = 1 + max(self.publication.max(initial=0), publication.max(initial=0))
        return arrays.find_sorted(
            self.group * names + self.publication, group * names + publication
        )


@dataclass(frozen=True)
class SystemRound:
    """The results of a system's round: measures, publications that are due, and tables.

    Attributes
    ----------
    measures : mapping of str to float
        Measures by name, without the system's name; `LivingRound.tally` counts messages.  Of a
        round of the world, the measures of its last own round are kept.
    publications : Publications
        The publications that are due; in the world's last round, also all others.
    counts : mapping of str to float
        Measures that are summed over the own rounds of a round of the world.
    multicasts : Multicasts, optional
        The measured publications of the world's round; None: no measurement.  Of several own
        rounds, those of the last one that has some.
    begun : Begun, optional
        If publications have a size: the publications that the world simulates after the round,
        along the copies of :data:`CARRIED`; by default `multicasts`, from their starts.  A system
        that simulates sizes itself names none.
    goes_on : bool
        True in a run if another own round follows; see `SystemOnBuckets.rounds_before`.
    tables : mapping of str to pyarrow.Table
        Further tables of the round's results, by name, for users.
    """

    measures: Mapping[str, float]
    publications: Publications
    counts: Mapping[str, float] = field(default_factory=dict)
    multicasts: Multicasts | None = None
    begun: Begun | None = None
    goes_on: bool = False
    tables: Mapping[str, pa.Table] = field(default_factory=dict)

    def without_times(self, merged: bool) -> Begun:
        """Return the publications with sizes whose deliveries have no times yet.

        `merged` is True if routers duplicate the system's packets.
        """
        of = Multicasts() if self.multicasts is None else self.multicasts
        if self.begun is not None and not merged:
            return self.begun
        none = np.zeros(len(of), dtype=np.int64)
        return Begun(of.group, of.publication, of.start, of.start, none, none)


def play_own_rounds(play: Callable[[LivingRound], SystemRound], now: LivingRound) -> SystemRound:
    """Play the own rounds of a system in a round of the world; return one result for all."""
    first, end = now.own.first(now.number), now.own.first(now.number + 1)
    quiet = _without_events(now)
    played = [
        play(replace(now if number == first else quiet, number=number))
        for number in range(first, end)
    ]
    counts = {name: sum(one.counts[name] for one in played) for name in played[0].counts}
    due = Publications.join(*(one.publications for one in played))
    last = played[-1]
    of = next((one for one in reversed(played) if one.multicasts is not None), last)
    begun, multicasts = of.begun, of.multicasts
    if multicasts is not None and now.scheduled:
        multicasts = multicasts.with_sizes(now.publish)
    return replace(last, publications=due, counts=counts, multicasts=multicasts, begun=begun)


def _without_events(now: LivingRound) -> LivingRound:
    nobody = arrays.whole_numbers(), arrays.whole_numbers()
    return replace(
        now,
        events=Events(),
        group_events=GroupEvents(),
        join=nobody,
        quit=nobody,
        publish=Publishing(),
    )


#: The length of the world's round in which a run of several own rounds is, in own rounds.
_ENDLESS = OwnRounds(world_us=2**62)


def play_run(system: SystemOnBuckets, player: SystemPlayer, now: LivingRound) -> SystemRound:
    """Play a run: all joins and publications of `now`; return the result of the last own round."""
    if system.rounds_before is None:
        return system.play_round(player, Tables(), now)
    most = system.rounds_before + most_supersteps(len(now.ring))
    numbers = counted("own rounds of a run", most, "rounds")
    return play_rounds_of_run(system, player, Tables(), now, numbers)


def play_rounds_of_run(
    system: SystemOnBuckets,
    player: SystemPlayer,
    kept: Tables,
    now: LivingRound,
    numbers: Iterable[int],
) -> SystemRound:
    """Play the own rounds `numbers` of a run, until the system says that no other one follows."""
    quiet, before = replace(_without_events(now), own=_ENDLESS), system.rounds_before
    assert before is not None
    for number in numbers:
        round = replace(quiet, number=number)
        if number == 0:
            round = replace(round, join=now.join)
        if number == before:
            round = replace(round, publish=now.publish)
        done = system.play_round(player, kept, round)
        if number >= before and not done.goes_on:
            break
    return done


# --- systems whose rounds are programs on buckets


class SystemPlayer(BucketPlayer):
    """Plays a system's programs on buckets that also have tables of other protocols."""

    def __init__(
        self,
        engine: Player,
        facts: KnowsRing,
        bounds: np.ndarray,
        prefix: str,
        reads: tuple[str, ...] = (),
        shares: tuple[str, ...] = (),
    ) -> None:
        super().__init__(engine, prefix, reads, shares)
        self.facts, self.bounds = facts, bounds
        self._shared: dict[str, Shared] = {}

    def keep(self, orchestrate: Callable[[SystemPlayer], None], called: str) -> None:
        of = self.facts, self.bounds, self._prefix, self._reads, self._shares
        called = self._prefix + called
        self.engine.keep(lambda engine: orchestrate(SystemPlayer(engine, *of)), called)

    def share(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> Shared:
        """Make arrays of `make()` readable for all buckets, once in a round of the world."""
        if name not in self._shared:
            self._shared[name] = self.engine.share(**make())
        return self._shared[name]

    def free_shared(self) -> None:
        """Free all arrays that were shared by this player."""
        while self._shared:
            self.engine.free(self._shared.popitem()[1])


@dataclass(frozen=True)
class _PutTables(SilentProgram):
    """The program by which the first bucket keeps the orchestrator's tables."""

    bounds: np.ndarray
    tables: Mapping[str, Columns]

    def change(self, bucket: int, tables: Tables) -> None:
        """Write the tables."""
        if not bucket:
            tables.update(self.tables)


class SystemOnBuckets:
    """A multicast system that plays in rounds; picklable, and the same in each round.

    A round is a sequence of programs on buckets, whose number does not change results.

    Attributes
    ----------
    payload : tuple of str
        The kinds of its messages that are copies of publications.
    control : tuple of str
        All other kinds of its messages.  The empty tuple declares that the system does not simulate
        control messages; then reports have the words "not simulated" in place of their numbers.
    kept_in_buckets : mapping of str to int
        The tables of a bucket that stay between rounds, each with a column ``key``: name -> the
        power of K by which a key is divided so that a node is its last part.
    kept : tuple of str
        The tables that the orchestrator keeps between rounds.
    reads : tuple of str
        The tables of other protocols that programs read, for example of Pastry's nodes.
    shares : tuple of str
        The tables of the nodes that programs read and write.  A system that shares tables plays
        within the round of the nodes (`pastry.round`), because its messages travel by Pastry and
        find dead entries, which nodes then repair.  Its messages are counted with those of the
        nodes, by `LivingRound.tally`.
    beside : tuple of str
        The baselines whose packets are counted for the same publications.
    member_table : str
        The table in `kept_in_buckets` whose keys are (group, node) of all members; if it is empty,
        the system's publications are not measured.
    merged : bool
        True if routers duplicate packets: the routes of a publication's copies are merged.
    building : tuple of str
        The kinds of control messages that only runs count, since worlds build overlays anew in each
        round (O6).
    state : mapping of str to str
        The entries that nodes keep in a run: a name for users -> a table with a column ``key``,
        whose rows are counted by (group, node); or also with a column ``entries``, their numbers.
    is_silent : bool
        True if the programs of a run send no messages, so that one job plays them.
    recodes : tuple of str
        The commands, ``run`` and ``world``, in which nodes can recode parts of publications (W15).
    notes_failures : bool
        True if the system notes the failures that nodes notice (`applications.note_failures`).
    sources_join : bool
        True if in a run sources join the groups of their publications, if they are no members; they
        have no deliveries.
    """

    kept_in_buckets: ClassVar[Mapping[str, int]]
    kept: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[str, ...]] = ()
    shares: ClassVar[tuple[str, ...]] = ()
    beside: ClassVar[tuple[str, ...]] = ()
    member_table: ClassVar[str] = ""
    merged: ClassVar[bool] = False
    building: ClassVar[tuple[str, ...]] = ()
    state: ClassVar[Mapping[str, str]] = {}
    is_silent: ClassVar[bool] = False
    recodes: ClassVar[tuple[str, ...]] = ("run",)
    notes_failures: ClassVar[bool] = False
    sources_join: ClassVar[bool] = False

    @property
    def has_trees(self) -> bool:
        """False if the system's family is ``tree``, but nodes may get several copies."""
        return True

    @property
    def payload(self) -> tuple[str, ...]:
        """The kinds of messages that are copies of publications."""
        raise NotImplementedError

    @property
    def control(self) -> tuple[str, ...]:
        """The kinds of control messages; empty if control messages are not simulated."""
        raise NotImplementedError

    @property
    def needs_pastry(self) -> bool:
        """True if the system reads or shares tables of Pastry."""
        return bool(self.reads or self.shares)

    @property
    def rounds_before(self) -> int | None:
        """The number of own rounds of a run before the own round with its publications.

        Members join in the first own round.  After the publications, own rounds follow as long as
        the result of the last one says so (`SystemRound.goes_on`).  By default None: a run is one
        own round with all joins and publications.
        """
        return None

    # --- tables of a bucket

    def stays(self, name: str) -> bool:
        """Return True for a bucket's table (by its name) that stays until the next round."""
        return name in self.kept_in_buckets or name in self.kept or name.startswith(MEMORY)

    def members(self, tables: Mapping[str, Columns]) -> np.ndarray:
        """Return the keys (group, node) of the members among a bucket's nodes, ascending."""
        return keys_in(tables, self.member_table)

    def children(self, tables: Mapping[str, Columns], size: int) -> np.ndarray | None:
        """Return the keys (group, node) of all entries in the children tables of the bucket.

        The result is None if nodes keep no children tables; then the copies that nodes send are
        counted instead.  `size` is K, the number of nodes.
        """
        return None

    def trees_of(self, number: int, group: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return the number of the tree down which each publication of a round goes: int64, (p,).

        By default, a source has one tree in each of its groups, 0.

        Parameters
        ----------
        number : int
            The number of the round of the world; 0 in a run.
        group, source : ndarray of int64, shape (p,)
            The index of the group and the position of the source of each publication, in the order
            of `LivingRound.publish`.
        """
        return np.zeros(len(group), dtype=np.int64)

    # --- rounds

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        """Play an own round.

        Parameters
        ----------
        player : SystemPlayer
            The player of the system's programs.
        kept : Tables
            The tables that the orchestrator keeps between rounds; they have no rows of nodes.
        now : LivingRound
            The round.
        """
        raise NotImplementedError

    def play_on(
        self,
        player: SystemPlayer,
        now: LivingRound,
        measure: Callable[[SystemRound], None] | None = None,
    ) -> SystemRound:
        """Play the own rounds that begin in a round of the world; return one result for all.

        ``measure(result)`` is called while buckets still have :data:`DELIVERED`, :data:`CARRIED`.
        """
        kept = Tables.of(player.take(*self.kept))
        done = play_own_rounds(partial(self.play_round, player, kept), now)
        if measure is not None:
            measure(done)
        if now.applications is not None:
            of_round = now.applications, now.number, now.group
            player.play(TellApplication(player.bounds, player.facts, *of_round))
        player.forget(lambda name: not (self.stays(name) or name.startswith(f"{TRAFFIC} ")))
        player.free_shared()
        if self.kept:
            player.play(_PutTables(player.bounds, {name: kept[name] for name in self.kept}))
        return done


def count_messages(player: SystemPlayer, now: LivingRound) -> None:
    """Add the messages that observers have counted in buckets to the tally of a world's round."""
    if now.in_run:
        return
    now.tally.take(player.take(MESSAGES))
