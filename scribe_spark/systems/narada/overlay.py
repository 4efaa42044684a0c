"""Narada as a system in rounds: its periods, and the trees of its sources.

A member takes the data of a source from its next hop to the source, as DVMRP routers do.  The next
hop knows this, since the member's vector tells it (rule D13).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scribe_spark.core.arrays import expand
from scribe_spark.engine import Columns
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period, entry_tables
from scribe_spark.systems.narada import VECTOR_BYTES
from scribe_spark.systems.narada.meshes import LINKS, TABLES, Meshes
from scribe_spark.systems.narada.period import NaradaPeriod
from scribe_spark.underlay.protocol import node_delays

if TYPE_CHECKING:  # not on executors
    from scribe_spark.systems.narada.config import NaradaConfig


@dataclass(frozen=True)
class Narada(GrownOverlays):
    """Narada by rules D1 to D14; `rules` is the section ``narada`` of the config."""

    rules: NaradaConfig
    notes_failures: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = TABLES
    structure: ClassVar[tuple[str, ...]] = (LINKS, "group", "node", "peer")
    counted: ClassVar[tuple[str, ...]] = (VECTOR_BYTES,)
    state: ClassVar[Mapping[str, str]] = entry_tables("neighbours", "members")

    @property
    def control(self) -> tuple[str, ...]:
        """The kinds of messages of the mesh."""
        return ("vector", "probe", "answer", "link", "unlink")

    @property
    def rounds_before(self) -> int:
        """The number of periods of a run before its publications."""
        return self.rules.periods

    def play_period(self, state: dict[str, Columns], period: Period) -> Mapping[str, Columns]:
        """Play one period of the groups of a builder (rules D2 to D12)."""
        return NaradaPeriod(self.rules, state, period).play()

    def sums(self, state: Mapping[str, Columns]) -> dict[str, float]:
        """Return sums over members: of their links, and of the members that they know."""
        meshes = Meshes.of(state)
        sums = {"members": meshes.is_in, "links": meshes.degree, "known": meshes.known}
        return {name: float(one[meshes.is_in].sum()) for name, one in sums.items()}

    def entries(self, state: Mapping[str, Columns], network: Network) -> dict[str, Columns]:
        """Return how many neighbours and members nodes keep."""
        of = Meshes.of(state, len(network.ring))
        ends = {"group": of.group[of.is_in], "node": of.node[of.is_in]}
        return self.by_kind(ends, of.degree[of.is_in], of.known[of.is_in])

    def edges(self, overlays: Overlays, network: Network) -> Columns:
        """Return the edges of the sources' trees: publication, node, peer (rule D13)."""
        meshes = Meshes.of(overlays.state, len(network.ring))
        root = _roots(meshes, overlays, network)
        served = np.flatnonzero(root >= 0)
        root, source = root[served], overlays.source[served]
        guest = np.flatnonzero(meshes.node[root] != source)
        asked = served[guest], source[guest], meshes.node[root[guest]]
        of, e = expand(meshes.top[root], meshes.top[root] + meshes.width[root])
        way = meshes.cells["next"][meshes.cell(e, root[of])]
        above = meshes.find(meshes.group[e], way)
        linked = meshes.is_in[above] & (meshes.find_links(above, e) >= 0)
        down = served[of[linked]], way[linked], meshes.node[e[linked]]
        names = "publication", "node", "peer"
        return {name: np.r_[up, on] for name, up, on in zip(names, asked, down, strict=True)}


def _roots(meshes: Meshes, overlays: Overlays, network: Network) -> np.ndarray:
    """Return the entry of `meshes` at which each publication starts, or NONE.

    It is the entry of the source, or of the member nearest to a source that is no member.
    """
    root = meshes.find(overlays.of, overlays.source)
    root[root >= 0] = np.where(meshes.is_in[root[root >= 0]], root[root >= 0], -1)
    guest, member = np.flatnonzero(root < 0), np.flatnonzero(meshes.is_in)
    sides = [
        np.searchsorted(meshes.group[member], overlays.of[guest], x) for x in ("left", "right")
    ]
    of, place = expand(*sides)
    router, member = network.ring.router, member[place]
    ends = router[overlays.source[guest[of]]], router[meshes.node[member]]
    order = np.lexsort((node_delays(network.kernel, network.lan_us, *ends), of))
    which, first = np.unique(of[order], return_index=True)
    root[guest[which]] = member[order[first]]
    return root
