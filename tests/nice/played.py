"""NICE's kernel in this process, without a seam: periods of groups, copies of publications."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from arriving import Kernel
from identifiers import parts
from periods import PlayedPeriods

from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.nice.config import NiceConfig
from scribe_spark.systems.nice.overlay import Nice

LAN_US = 1000
NO_RULES: Mapping[str, Any] = {}


def drawn_network(nodes: int, seed: int, rows: int = 0, in_run: bool = False) -> Network:
    """Nodes of points in a square, a router each; delays are rounded to `rows` values, if given."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 100_000, (nodes, 2))
    delay = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    if rows:
        delay = np.ceil(delay / 140_000 * rows) * 10_000
    ring = Ring(*parts(range(nodes)), rng.permutation(nodes), np.arange(nodes))
    kernel = Kernel(delay.astype(np.int32), np.arange(nodes))
    return Network(ring, kernel, LAN_US, seed, in_run=in_run)


class Played(PlayedPeriods):
    """Groups of NICE, from period to period."""

    def __init__(
        self, network: Network, rules: Mapping[str, Any] = NO_RULES, numbers: Iterable[int] = (0,)
    ) -> None:
        super().__init__(Nice(NiceConfig(**rules).for_tasks()), network, numbers)

    @property
    def quiet(self) -> bool:
        """True if no cluster changed in the last period."""
        names = "joined", "moves", "splits", "merges", "new_leaders"
        waits = len(self.state.get("waiting", {"group": ()})["group"])
        return not waits and not sum(self.counts.get(name, 0) for name in names)

    def rows(self, name: str) -> list[tuple[int, ...]]:
        """The rows of a table of the state."""
        columns = self.state.get(name, {})
        return list(zip(*(column.tolist() for column in columns.values()), strict=True))

    def clusters(self) -> dict[tuple[int, int, int], set[int]]:
        """(group, layer, leader) -> members."""
        found: dict[tuple[int, int, int], set[int]] = {}
        for group, layer, leader, node in self.rows("clusters"):
            found.setdefault((group, layer, leader), set()).add(node)
        return found

    def messages(self) -> dict[str, Counter]:
        """The messages of the last period, by kind: (group, sender, receiver) -> how many."""
        names = "group", "sender", "to"
        return {
            kind: Counter(zip(*(rows[name].tolist() for name in names), strict=True))
            for kind, rows in self.sent.items()
        }
