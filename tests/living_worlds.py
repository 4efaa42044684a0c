"""Random small worlds, for the oracle in `oracle.living` and for the kernels.

The oracle asks for every draw; here it gets those of `scribe_spark`.
"""

import functools
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from arriving import Kernel, snapshot_parts
from identifiers import parts
from oracle.living.arrival import arrive_all
from oracle.living.cases import small_events, small_rules
from oracle.living.draws import Matrix, keyed_draw, random_idents
from oracle.living.overlay import Overlay, Rules
from oracle.living.world import LookupResult, Snapshot, step
from overlay_state import OverlayState

from scribe_spark.config import WorldConfig
from scribe_spark.config.overlay import LEAST_GROWTH
from scribe_spark.core import draws
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.pastry.repair import row_bits
from scribe_spark.pastry.round import (
    NEW_LEAFS,
    LookupResults,
    Lookups,
    RoundResult,
    begin_round,
    end_round,
)
from scribe_spark.pastry.states import States
from scribe_spark.rounds.event_rows import EVENT_NAMES
from scribe_spark.rounds.events import Events, KnowsLives, check_events
from scribe_spark.rounds.player import RoundPlayer, Tally
from scribe_spark.worlds.round_measures import MEASURED, MeasureNodes, round_measures

PARTS = ("live", "leaf_sets", "sides", "cells", "counts", "lookups", "new_leafs")


@functools.lru_cache(maxsize=1024)
def _row_bits(seed: int, purpose: str, number: int, row: int, nodes: int) -> np.ndarray:
    return row_bits(seed, purpose, number, row, np.arange(nodes))


@dataclass
class World:
    """A random case: the oracle's overlay, in which some nodes are, and events.

    The `lookups` of odd rounds are special; `first_wave` is the oracle's number of the first wave
    of the round.
    """

    overlay: Overlay
    config: WorldConfig
    known: Ring
    kernel: Kernel
    events: list[tuple[int, int, str]]
    lookups: int
    first_wave: int = 0

    def draw(self, purpose: str, *key, among: int | None = None) -> int:
        """A draw that the oracle asks for."""
        value = self._bits(purpose, *key)
        return value if among is None else value % among

    def _bits(self, purpose: str, *key) -> int:
        seed, nodes = self.config.seed, len(self.known)
        if purpose in ("arrival order", "contact"):
            number, node = key
            return int(draws.stream_at(seed, purpose, number, np.array([node]))[0])
        if purpose == "wave maintenance":
            wave, time, node, row = key
            purpose = f"wave maintenance {time} of wave {wave - self.first_wave}"
            return int(_row_bits(seed, purpose, self.overlay.round, row, nodes)[node])
        if purpose == "round maintenance":
            number, node, row = key
            return int(_row_bits(seed, purpose, number, row, nodes)[node])
        if purpose in ("arrival", "shed", "randomised hop", "loss"):
            return int(draws.bits_np(seed, purpose, *key).view(np.int64))
        raise AssertionError(purpose)

    def play_oracle(self, number: int, lookups: list[tuple[int, int]]) -> Snapshot:
        """The oracle plays a round."""
        self.first_wave = self.overlay.waves
        return step(self.overlay, number, self.events, lookups)

    def play(self, player: RoundPlayer, number: int) -> RoundResult:
        """The kernels play a round."""
        mine = [(node, kind) for when, node, kind in self.events if when == number]
        node = np.array([node for node, _ in mine], dtype=np.int64)
        kind = np.array([EVENT_NAMES.index(kind) for _, kind in mine], dtype=np.int64)
        events = Events.of(self.known, node, kind)
        lookups: Lookups | int = self.lookups
        if number % 2:
            lookups = self.special_lookups(player.lives, number, events)
        return played_round(player, number, events, lookups)

    def special_lookups(self, lives: KnowsLives, number: int, events: Events) -> Lookups:
        """Lookups of nodeIds, also of dead nodes, and of keys in the middle between two nodes."""
        case = random.Random(f"{self.config.seed}/{number}")
        idents = list(self.overlay.idents.values())
        gone, new = np.r_[events.fail, events.leave], np.r_[events.recover, events.arrive]
        live = np.union1d(np.setdiff1d(lives.live(), gone), new)
        source, keys = [], []
        for _ in range(self.lookups):
            one, other = case.choice(idents), case.choice(idents)
            middle, far = (one + other) // 2, (one + other) // 2 + (1 << 127)
            keys.append(case.choice([one, middle, far]) % (1 << 128))
            source.append(case.choice(live.tolist()))
        hi, lo = parts(keys)
        return Lookups(np.array(source, dtype=np.int64), Keys(hi, lo))


def played_round(
    player: RoundPlayer, number: int, events: Events, lookups: Lookups | int
) -> RoundResult:
    """Play a round; what is seen of it."""
    check_events(player.lives, player.environment.facts.ring, number, events)
    begin_round(player, number, events)
    tally = Tally(player.environment.observer.kinds)
    return end_round(player, number, events, lookups, tally)[0]


def measured_round(
    player: RoundPlayer, number: int, events: Events, lookups: int
) -> tuple[RoundResult, dict[str, float]]:
    """Play a round of an overlay without groups; its result and measures."""
    begin_round(player, number, events)
    programs, tables = [MeasureNodes(player.environment, number)], (MEASURED, NEW_LEAFS)
    tally = Tally(player.environment.observer.kinds)
    result, taken = end_round(player, number, events, lookups, tally, programs, tables)
    return result, round_measures(len(player.lives.live()), result, taken[MEASURED])


def world(
    seed: int,
    rounds: int,
    most: int = 40,
    busy: float | None = None,
    lookups: int | None = None,
    **given,
) -> World:
    """A random case; `given` fixes the oracle's rules."""
    case = random.Random(seed)
    rules = replace(small_rules(case), **given)
    count = case.randint(2, most)
    idents = random_idents(count, seed)
    if case.random() < 0.3:  # nodeIds that share many digits
        idents = {
            node: case.getrandbits(4) << 124 | case.getrandbits(8) << 100 | ident % 2**64
            for node, ident in idents.items()
        }
    places = count // 2 + 1
    points = np.random.default_rng(seed).uniform(0, 100_000, (places, 2))
    between = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2)).astype(np.int32)
    router = np.array([case.randrange(places) for _ in range(count)])
    # 1. who is there first
    overlay = Overlay(idents, Matrix(between, router), keyed_draw(seed), rules)
    arrive_all(overlay, range(max(1, 2 * count // 3)))
    # 2. events, among them failures of neighbours
    busy = case.choice([0.03, 0.08, 0.2]) if busy is None else busy
    events = small_events(overlay, seed, range(rounds), busy)
    if case.random() < 0.5:
        events = with_adjacent_failures(overlay, events, case, rounds)
    hi, lo = parts(idents[node] for node in range(count))
    known = Ring(hi, lo, np.arange(count), router).in_order()
    kernel = Kernel(between, np.arange(places))
    sent = case.choice([0, 5, 20]) if lookups is None else lookups
    made = World(overlay, config_of(rules, seed), known, kernel, events, sent)
    overlay.draw = made.draw
    return made


def config_of(rules: Rules, seed: int, **more: Any) -> WorldConfig:
    """The oracle's rules as a config, in whose waves of the least growth one node arrives."""
    return WorldConfig(
        b=rules.b,
        leaf_set=rules.l,
        growth=LEAST_GROWTH if rules.growth is None else rules.growth,
        contact=rules.contact,
        introduce=rules.introduce,
        maintenance=rules.maintenance,
        seed=seed,
        detection=rules.detection,
        repair=rules.table_repair,
        maintenance_period=rules.maintenance_period,
        **more,
    )


def with_adjacent_failures(
    overlay: Overlay, events: list[tuple[int, int, str]], case: random.Random, rounds: int
) -> list[tuple[int, int, str]]:
    """The events, and in one round l/2 - 1 to l neighbours that fail; some recover.

    The events of these nodes from that round on are others.
    """
    ring = overlay.live_in_ring_order()
    half = overlay.rules.l // 2
    size = min(case.choice([half - 1, half, half + 1, 2 * half]), len(ring) - 2)
    if size < 1:
        return events
    at, start, back = case.randrange(rounds), case.randrange(len(ring)), case.randint(1, 4)
    failing = [ring[(start + place) % len(ring)] for place in range(size)]
    with_events = {node for _, node, _ in events}
    quiet = [node for node in ring if node not in with_events]
    chosen = [node for node in failing if node in quiet][: len(quiet) - 1]  # one node stays alive
    more = [(at, node, "fail") for node in chosen]
    more += [(at + back, node, "recover") for node in chosen[::2] if at + back < rounds]
    return events + more


def state_of(case: World) -> OverlayState:
    """The oracle's overlay as arrays; nobody of it has died."""
    known, overlay = case.known, case.overlay
    rules = case.config.overlay
    states = States.empty(known, np.arange(len(known)), rules.leaf_set, rules.b)
    place, half = {int(node): at for at, node in enumerate(known.node)}, states.half
    for node, one in overlay.states.items():
        at = place[node]
        states.leaves[at, : len(one.larger)] = [place[leaf] for leaf in one.larger]
        states.leaves[at, half : half + len(one.smaller)] = [place[leaf] for leaf in one.smaller]
        for row, column, entry in one.cells():
            states.cells[at, row, column] = place[entry]
    live = list(overlay.live)
    entered = np.array([overlay.entered[node] for node in live])
    return OverlayState.of(states, np.array([place[node] for node in live]), entered)


def as_snapshot(state: OverlayState, result: RoundResult) -> Snapshot:
    """The kernels' state as the oracle writes its own."""
    number = state.states.known.node
    return Snapshot(
        result.number,
        *snapshot_parts(state.states, state.live()),
        result.messages,
        _lookups(number, result.lookups),
        sorted(number[result.new_leafs].tolist()),
    )


def _lookups(number: np.ndarray, results: LookupResults) -> list[LookupResult]:
    return [
        LookupResult(
            int(number[results.source[i]]),
            int(results.keys.hi[i]) << 64 | int(results.keys.lo[i]),
            "delivered" if results.delivered[i] else "undeliverable",
            int(number[results.at[i]]),
            bool(results.right[i]),
            int(results.hops[i]),
            int(results.lost[i]),
        )
        for i in range(len(results.source))
    ]


def sent(case: World, result: RoundResult) -> list[tuple[int, int]]:
    """The lookups of a round, for the oracle."""
    return [(one.source, one.key) for one in _lookups(case.known.node, result.lookups)]
