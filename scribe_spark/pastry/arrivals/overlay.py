"""An overlay whose tables come from nodes that arrive in waves.

On Spark, tasks that keep their buckets play the first waves, because a superstep as a job costs the
same however few nodes it has.  Later waves are jobs, by the same programs.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from scribe_spark import schemas
from scribe_spark.core.progress import Progress
from scribe_spark.engine import Tables
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.on_spark import BucketTables, OnSpark
from scribe_spark.engine.player import Player
from scribe_spark.engine.program import SilentProgram
from scribe_spark.pastry.arrivals.waves import Wave, WavePlan
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.round import arrive
from scribe_spark.pastry.states import Kind, NodeProgram, States
from scribe_spark.rounds.player import MESSAGES, Environment, Observer, RoundPlayer, counted
from scribe_spark.runtime.batches import Table
from scribe_spark.underlay.protocol import Kernel, Underlay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig

#: Tasks keep their buckets up to this number of nodes, and below the other one, a single task plays
#: all buckets, as messages between tasks would cost more.  The results do not depend on these.
_KEPT, _FEW = 2**17, 2**14


def arrivals(
    nodes: Table,
    underlay: Underlay,
    config: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
    in_tasks: bool = False,
) -> PastryOverlay:
    """Return the overlay after arrivals; `in_tasks`, they wait for a job that needs the tables."""
    rules = config.for_tasks()
    overlay = _Arrived(nodes, underlay, rules.b, rules.leaf_set)
    ring = overlay.ring
    if in_tasks:
        environment = _environment(ring, rules, underlay.kernel, seed)
        sharing = OnSpark(BucketTables(ring.layout, ring.starts()))
        waves = _waves(environment, len(ring), sharing)
        overlay.own(sharing.release)
        overlay.unfilled = partial(play_waves, environment=environment, waves=waves)
    else:
        tables = play_arrivals(ring, len(ring), underlay.kernel, rules, seed, progress)
        overlay.filled_in(tables)
    return overlay


class _Arrived(PastryOverlay):
    """A Pastry network whose nodes arrive by the protocol."""

    def arrival_messages(self) -> pa.Table:
        """Return the messages that nodes sent to arrive: ``kind, messages``."""
        _ = self.known
        assert self.filled is not None
        sums = sum(
            (counted(columns, len(Kind))[0] for *_, columns in self.filled.read(MESSAGES)),
            start=np.zeros(len(Kind), dtype=np.int64),
        )
        by_kind = [(kind.value, int(sent)) for kind, sent in zip(Kind, sums, strict=True)]
        return schemas.arrow_table(by_kind, schemas.ARRIVAL_MESSAGES)


def play_arrivals(
    ring: BucketRing,
    initial: int,
    kernel: Kernel,
    rules: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
) -> BucketTables:
    """Return the tables `LEAVES`, `CELLS` and `MESSAGES` after `initial` nodes have arrived."""
    environment = _environment(ring, rules, kernel, seed)
    tables = BucketTables(ring.layout, ring.starts())
    sharing = OnSpark(tables)
    kept = waves = _waves(environment, initial, sharing)
    if ring.layout.buckets > 1:  # a single task plays all waves anyway
        kept = [wave for wave in waves if wave.last <= _KEPT] or waves[:1]
    first = partial(play_waves, environment=environment, waves=kept)
    if initial < _FEW:
        sharing.play_in_tasks(first, "arrivals", alone=True)
    else:
        sharing.keep(first, "arrivals")
    for number, wave in enumerate(waves[len(kept) :], len(kept)):
        player = OnSpark(tables, f"wave {number}, ", progress)
        arrive(RoundPlayer(player, environment), wave, number)
        tables = player.tables
    sharing.free(waves[0].arrays)
    return tables


def play_waves(player: Player, environment: Environment, waves: Iterable[Wave]) -> None:
    """Let nodes arrive in waves, from the first node on."""
    player.play(Begin(environment))
    for number, wave in enumerate(waves):
        arrive(RoundPlayer(player, environment), wave, number)


@dataclass(frozen=True)
class Begin(SilentProgram, NodeProgram):
    """Give all nodes empty tables."""

    def change(self, bucket: int, tables: Tables) -> None:
        ring, rules = self.environment.facts.ring, self.environment.rules
        nodes = np.arange(*self.bounds[bucket : bucket + 2])
        tables.update(States.empty(ring, nodes, rules.leaf_set, rules.b).tables())


def _environment(ring: BucketRing, rules: OverlayConfig, kernel: Kernel, seed: int) -> Environment:
    return Environment(ring.facts, ring.bounds, rules, kernel, Observer(tuple(Kind)), seed=seed)


def _waves(environment: Environment, initial: int, sharing: OnSpark) -> list[Wave]:
    of = environment.facts.ring, environment.rules, environment.seed, environment.kernel
    return WavePlan.of(*of, initial).waves(sharing.share)
