"""Trees of one oracle case, played by the engine in process."""

from dataclasses import dataclass

import numpy as np
import worlds
from identifiers import parts
from poisoned import PoisonedTask

from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.program import AT
from scribe_spark.pastry.overlay import PastryNextHop
from scribe_spark.rounds.group_events import GroupEvents
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.systems.scribe.multicast import DELIVERIES
from scribe_spark.systems.scribe.root import MADE
from scribe_spark.systems.scribe.scribe import RoundOfGroups
from scribe_spark.systems.scribe.trees import (
    CHILDREN,
    grow_trees,
    publish,
    settled_environment,
    settled_round,
)


@dataclass
class Played:
    """The trees of a settled round, on a player in process."""

    one: worlds.World
    player: RoundPlayer
    round: RoundOfGroups

    def _rows(self, name: str) -> dict[str, np.ndarray]:
        """The columns of a table of all buckets."""
        return self.player.gather(name).get(name, {})

    def edges(self) -> list[tuple[int, int, int]]:
        """(group, parent, child), sorted."""
        size, node = len(self.one.ring), self.one.ring.node - self.one.base
        place, child = np.divmod(self._rows(CHILDREN).get("key", np.empty(0, np.int64)), size)
        group, parent = np.divmod(place, size)
        rows = zip(self.round.groups.number[group], node[parent], node[child], strict=True)
        return sorted(tuple(map(int, row)) for row in rows)

    def roots(self) -> dict[int, int]:
        """group -> root."""
        made, node = self._rows(MADE), self.one.ring.node - self.one.base
        rows = zip(made.get("group", ()), made.get(AT, ()), strict=True)
        return {int(self.round.groups.number[group]): int(node[at]) for group, at in rows}

    def multicast(self) -> list[tuple[int, int, int, int]]:
        """(group, node, hops, delay_us) of a message that each root sends."""
        made = self._rows(MADE)
        publish(self.player, self.round, made["group"], made[AT])
        got, node = self._rows(DELIVERIES), self.one.ring.node - self.one.base
        if not got:
            return []
        rows = zip(got["group"], got["node"], got["hops"], got["delay_us"], strict=True)
        number = self.round.groups.number
        return [(int(number[g]), int(node[at]), int(hops), int(us)) for g, at, hops, us in rows]


def halves(keys: dict[int, int], numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The first and last 64 bits of the keys of some groups."""
    return parts(keys[number] for number in numbers)


def trees(one: worlds.World, buckets: int) -> Played:
    """CREATE and JOIN of a case over a number of buckets, which cannot see each other."""
    bounds, facts = bucket_bounds(one.ring, buckets, one.case.b), RingInMemory(one.ring)
    engine = PoisonedTask([Tables.of(known) for known in one.make_tables(bounds)])
    numbers = np.array(sorted(one.case.keys), dtype=np.int64)
    keys = halves(one.case.keys, numbers.tolist())
    rule = PastryNextHop(facts)
    round = settled_round(numbers, *keys, len(one.ring), rule, worlds.LAN_US)
    player = RoundPlayer(engine, settled_environment(facts, bounds, one.kernel))
    # the creator of each group is any node
    creator = np.arange(len(numbers)) % len(one.ring)
    joins = np.array(sorted(set(one.case.joins())), dtype=np.int64).reshape(-1, 2)
    group, at = np.searchsorted(numbers, joins[:, 0]), one.ring.positions(joins[:, 1] + one.base)
    order = np.lexsort((at, group))
    grow_trees(player, round, creator, GroupEvents(join=(group[order], at[order])))
    return Played(one, player, round)
