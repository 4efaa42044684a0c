"""A system in rounds in one process, without routers and Spark: all nodes are of one group."""

from typing import Any

import numpy as np

from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import Tables
from scribe_spark.rounds.events import Events, KnowsLives
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import LivingRound, Publishing, SystemPlayer


def ring_of(nodes: int, router: np.ndarray | None = None) -> Ring:
    """Return nodes whose positions are their numbers; by default each is its own router."""
    number = np.arange(nodes)
    no_bits = np.zeros(nodes, dtype=np.uint64)
    return Ring(number.astype(np.uint64), no_bits, number, number if router is None else router)


def player_of(ring: Ring, tables: Tables | None = None, kind: Any = SystemPlayer) -> Any:
    """Return a player of a kind that has all nodes in one bucket, perhaps with tables."""
    engine = InTask([Tables.of({}) if tables is None else tables])
    return kind(engine, RingInMemory(ring), np.array([0, len(ring)]), "")


def round_of(
    number: int,
    rounds: int,
    ring: Ring,
    lives: KnowsLives,
    events: Events,
    join: np.ndarray,
    publish: Publishing,
    kernel: Any,
    seed: int,
    tally: Tally,
    **more: Any,
) -> LivingRound:
    """Return a round of the group 1, which the nodes `join` join; see `LivingRound`."""
    group, nobody = np.ones(1, dtype=np.int64), whole_numbers()
    return LivingRound(
        number,
        rounds,
        ring,
        lives,
        events,
        group=group,
        key_hi=group,
        key_lo=group,
        join=(np.zeros_like(join), join),
        quit=(nobody, nobody),
        publish=publish,
        kernel=kernel,
        lan_us=0,
        seed=seed,
        deadline=1,
        tally=tally,
        incarnation=nobody,
        **more,
    )
