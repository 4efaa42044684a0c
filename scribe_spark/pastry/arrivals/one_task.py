"""Waves of arrivals that are played in one task, while the overlay is small.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.engine import Program
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.arrival import asking, entering, maintenance
from scribe_spark.pastry.arrivals.wave import Wave, WaveInMemory, states_in_buckets
from scribe_spark.pastry.arrivals.waves import Plan
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.states import States
from scribe_spark.rounds.environment import Environment
from scribe_spark.rounds.observer import MESSAGES, Observer
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig


@dataclass(frozen=True)
class Grown:
    """The overlay after a wave: states (the next wave changes them), live nodes, and all messages.

    The messages are counted by `Kind`, over all waves so far.
    """

    number: int
    states: States
    live: np.ndarray
    messages: np.ndarray


def grow(
    known: Ring,
    plan: Plan,
    rules: OverlayConfig,
    seed: int,
    kernel: Kernel,
    bounds: np.ndarray,
) -> Iterator[Grown]:
    """Yield the overlay after each wave, beginning with the first node.

    Nodes with wave -1 in the plan do not arrive.  Each bucket is played in a thread
    (`in_process.thread_bounds`).
    """
    states = States.empty(known, np.arange(len(known)), rules.leaf_set, rules.b)
    tables = states_in_buckets(states, bounds)
    given = Environment(
        RingInMemory(known), bounds, rules, kernel, Observer(tuple(Kind)), seed=seed
    )
    wave = plan.wave
    for number in range(int(wave.max(initial=-1)) + 1):
        arriving = np.flatnonzero(wave == number)
        live = np.flatnonzero((wave >= 0) & (wave <= number))
        now = WaveInMemory(arriving, plan.rank[arriving], plan.contact[arriving], live)
        for program in programs(given, now, number):
            play(program, tables, threads=len(tables))
        messages = sum(
            (own[MESSAGES]["messages"] for own in tables if MESSAGES in own),
            start=np.zeros(len(Kind), dtype=np.int64),
        )
        yield Grown(number, states, live, messages)


def programs(given: Environment, wave: Wave, number: int) -> Iterator[Program]:
    """Yield the programs of a wave; in wave 0 there is no node to ask."""
    if number:
        yield from asking(given, wave)
        yield from entering(given, wave)
    for time in range(given.rules.maintenance):
        yield from maintenance(given, wave, f"wave maintenance {time}", number)
