"""Systems that keep an overlay, in this process: period by period, and in rounds on buckets."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from living_buckets import RecordingTally, SystemBuckets

from scribe_spark.engine.packing import Columns, concatenate, count_rows, take
from scribe_spark.rounds.events import NEVER, Events, Lives
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period, add_up
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    OwnRounds,
    Publishing,
    SystemOnBuckets,
    SystemRound,
)

#: Pairs (group, node), or others; groups are indices, nodes are positions.
Rows = Iterable[tuple[int, int]]


def pairs_of(some: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs as two columns, ascending."""
    first, second = np.array(sorted(some), dtype=np.int64).reshape(-1, 2).T
    return first, second


def nodes_of(some: Iterable[int]) -> np.ndarray:
    """Return nodes, ascending."""
    return np.array(sorted(some), dtype=np.int64)


class PlayedPeriods:
    """The groups of a system in one builder, from period to period."""

    #: True if a table of the state goes when it has no rows, as in builders.
    drops_empty: ClassVar[bool] = True

    def __init__(
        self, system: GrownOverlays, network: Network, numbers: Iterable[int] = (0,)
    ) -> None:
        self.system, self.network, self.numbers = system, network, np.array(numbers)
        self.alive = np.ones(len(network.ring), dtype=bool)
        self.number = 0  # of the period
        self.state: dict[str, Columns] = {}
        self.counts: dict[str, int] = {}
        self.sent: dict[str, Columns] = {}
        self.failures: list[tuple[int, ...]] = []  # who has given up whom: group, node, neighbour

    def play(
        self,
        join: Rows = (),
        quit: Rows = (),
        died: Iterable[int] = (),
        back: Iterable[int] = (),
        measure: bool = True,
    ) -> Self:
        """Play a period; with `measure`, the last one of a round of the world."""
        died = nodes_of(died)
        self.alive = self.alive.copy()
        self.alive[died] = False
        self.alive[nodes_of(back)] = True
        period = Period(
            *(self.number, 0, True, measure, self.numbers, None, None),
            *(pairs_of(join), pairs_of(quit), died, self.alive, self.network),
        )
        self.sent = dict(self.system.play_period(self.state, period))
        if self.drops_empty:
            self.state = {name: rows for name, rows in self.state.items() if count_rows(rows)}
        self.counts, self.number = period.counts, self.number + 1
        rows = (zip(*(end.tolist() for end in ends), strict=True) for ends in period.failures)
        self.failures = sorted(row for some in rows for row in some)
        return self

    def edges(self, sources: Rows) -> Columns:
        """Return the edges of publications, one of each group and source."""
        of = pairs_of(sources)
        overlays = Overlays(self.numbers, *of, *of, state=self.state)
        return self.system.edges(overlays, self.network)

    def copies(self, group: int, source: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return senders, receivers and the rank of the copies of a publication in a group (index).

        A living node forwards once.  No node gets two copies, or this fails.
        """
        state = {}
        for name, rows in self.state.items():
            mine = take(rows, rows["group"] == group)
            state[name] = {**mine, "group": 0 * mine["group"]}
        everybody, of = np.arange(len(self.alive)), (np.array([0]), np.array([source]))
        number = self.numbers[[group]]
        overlays = Overlays(number, 0 * everybody, everybody, *of, state=state)
        edges = self.system.edges(overlays, self.network)
        reached, found = {source}, [take(edges, np.arange(0))]
        first = {"node": of[1], **dict.fromkeys(self.system.carried, np.array([-1]))}
        while len(first["node"]):
            first = take(first, self.alive[first["node"]])
            of_first, edge = np.nonzero(first["node"][:, None] == edges["node"])
            mine = take(edges, edge)
            mine = take(mine, self.system.forwards(take(first, of_first), mine))
            found.append(mine)
            # a silent node that publishes as a guest is still sent its copy
            first = take({**mine, "node": mine["peer"]}, mine["peer"] != source)
            got = first["node"].tolist()
            assert len(set(got)) == len(got)
            assert not reached & set(got)
            reached |= set(got)
        rank = np.repeat(np.arange(len(found)), [count_rows(one) for one in found])
        every = concatenate(found)
        return every["node"], every["peer"], rank

    def measures(self) -> dict[str, float]:
        """Return the measures of the last period."""
        return self.system.measures_of(add_up(self.system.sums(self.state)))


class SystemWorld:
    """A world of one system on buckets; those that are blind can be read only in their turn.

    Between rounds, the state is cut into `cuts` buckets, one number after the other.  `asks` has
    further arguments of `SystemBuckets.measure`.
    """

    detection = 1  # rounds until a failure is noticed
    deadline = 1

    def __init__(
        self,
        system: SystemOnBuckets,
        network: Network,
        numbers: Iterable[int],
        buckets: int,
        own: OwnRounds,
        rounds: int,
        blind: bool = True,
        cuts: Sequence[int] = (),
        **asks: Any,
    ) -> None:
        self.asks = asks
        self.system, self.network, self.own, self.rounds = system, network, own, rounds
        self.numbers, self.number, self.cuts = np.array(numbers), 0, cuts
        self.buckets = SystemBuckets.empty(network.ring, buckets, blind)
        self.lives = Lives.of(len(network.ring), np.arange(len(network.ring)))
        # of the last round: the tables of publications, and their measures
        self.rows: dict[str, Columns] = {}
        self.multicasts: dict[str, float] = {}
        self.tables: dict[str, Columns] = {}  # all that the system keeps between rounds

    def tally_of_round(self) -> Tally:
        """Return the counts of a round's messages."""
        kinds = (*self.system.payload, *self.system.control)
        return RecordingTally(kinds, self.network.ring.node, self.lives.alive.copy())

    def play(
        self,
        join: Rows = (),
        quit: Rows = (),
        publish: Rows | Publishing = (),
        fail: Iterable[int] = (),
        leave: Iterable[int] = (),
        back: Iterable[int] = (),
        arrive: Iterable[int] = (),
        **more: Any,
    ) -> tuple[SystemRound, Any, Counter]:
        """Play a round; return its results, its messages, and the copies of its publications.

        `more` has further fields of `LivingRound`.
        """
        if not isinstance(publish, Publishing):
            publish = Publishing.at_begin(pairs_of(publish))
        events = Events(*map(nodes_of, (fail, leave, back, arrive)))
        self.lives.exit(events.fail, self.number, self.detection)
        self.lives.exit(events.leave, self.number, 0)
        self.lives.enter(events.entering)
        system, ring, kernel = self.system, self.network.ring, self.network.kernel
        tally = self.tally_of_round()
        now = LivingRound(
            *(self.number, self.rounds, ring, self.lives, events),
            *(self.numbers, None, None, pairs_of(join), pairs_of(quit)),
            *(publish, kernel, self.network.lan_us, self.network.seed, self.deadline, tally),
            *(np.full(len(ring), NEVER), self.own),
            **{"measures": ("delay", "node_stress"), **more},
        )
        copies: Counter[Any] = Counter()
        self.published, self.multicasts = publish, {}
        player = self.buckets.player(system)

        def measure(done: SystemRound) -> None:
            self.rows = player.gather(DELIVERED, CARRIED)
            if done.multicasts is not None and now.measures:
                given = system, done, kernel, self.lives, now.measures
                self.multicasts, found = self.buckets.measure(*given, **self.asks)
                copies.update(found)

        done = system.play_on(player, now, measure)
        self.tables = self.buckets.tables_of(system)
        if self.cuts:
            self.buckets = self.buckets.cut_again(system, self.cuts[self.number % len(self.cuts)])
        self.number += 1
        return done, tally, copies
