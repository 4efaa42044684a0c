"""Random small overlays of arriving nodes, for the oracle in `oracle.living` and for the kernels.

The oracle asks for every draw; here it gets those of `scribe_spark`.
"""

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from identifiers import parts
from oracle.living.draws import Matrix
from oracle.living.overlay import Overlay, Rules
from oracle.living.world import Snapshot, snapshot

from scribe_spark.config import OverlayConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.pastry.overlay import play_waves
from scribe_spark.pastry.repair import row_bits
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, Kind, States
from scribe_spark.pastry.waves import Wave, WavePlan, planned_contacts, wave_size
from scribe_spark.rounds.player import MESSAGES, Environment, Observer, counted
from scribe_spark.underlay import protocol
from scribe_spark.underlay.matrices import nearest, pendant_exits

MOST_ROWS = 128


@dataclass(frozen=True)
class Kernel(protocol.Kernel):
    """Delays between routers from a matrix (`underlay.protocol.Kernel`)."""

    delay_us: np.ndarray
    routers: np.ndarray
    withheld: Any = field(default=None, kw_only=True)
    all_pairs_limit: ClassVar[int] = 48

    def index(self, routers: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.routers, routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        return self.routers[index]

    def nearest(self, queries, candidates, starts) -> np.ndarray:
        exits = pendant_exits(len(self.delay_us), [])
        return nearest(self.delay_us, exits, queries, candidates, starts)

    def losses(self, a: np.ndarray, b: np.ndarray) -> None:
        """No packet is lost."""

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.delay_us[a, b].astype(np.int64)


@dataclass(frozen=True)
class Arrivals:
    """A random case: nodes, routers, rules, and the wave that each node arrives in."""

    seed: int
    rules: OverlayConfig
    idents: dict[int, int]
    router: np.ndarray
    kernel: Kernel
    wave: np.ndarray  # by node number
    rank: np.ndarray  # place in the order of arrival, by node number

    @functools.cached_property
    def known(self) -> Ring:
        """All nodes in the order of their nodeIds."""
        ident = [self.idents[node] for node in range(len(self.idents))]
        hi, lo = parts(ident)
        return Ring(hi, lo, np.arange(len(ident)), self.router).in_order()

    def arriving(self, number: int) -> list[int]:
        """The nodes of a wave, in the order of arrival."""
        order = np.argsort(self.rank)
        return order[self.wave[order] == number].tolist()

    def drawn_contact(self, node: int) -> int:
        """Random bits of a node's contact."""
        return int(self.contact_bits[node])

    @functools.cached_property
    def contact_bits(self) -> np.ndarray:
        """Random bits of each node's contact: uint64."""
        return np.random.default_rng(self.seed).integers(
            0, 2**63, len(self.idents), dtype=np.uint64
        )

    def oracle(self) -> Overlay:
        """The oracle's overlay with nobody in it."""
        rules = self.rules
        return Overlay(
            self.idents,
            Matrix(self.kernel.delay_us, self.router),
            self._draw,
            Rules(
                b=rules.b,
                l=rules.leaf_set,
                contact=rules.contact,
                introduce=rules.introduce,
                maintenance=rules.maintenance,
            ),
        )

    def _draw(self, purpose: str, *key, among: int | None = None) -> int:
        if purpose == "contact":
            value = self.drawn_contact(key[1])
        else:
            assert purpose == "wave maintenance"
            wave, time, node, row = key
            value = int(_bits(self.seed, wave, time, len(self.idents))[node, row])
        return value if among is None else value % among


@functools.lru_cache(maxsize=8)
def _bits(seed: int, wave: int, time: int, nodes: int) -> np.ndarray:
    purpose, numbers = f"wave maintenance {time}", np.arange(nodes)
    rows = [row_bits(seed, purpose, wave, row, numbers) for row in range(MOST_ROWS)]
    return np.stack(rows, axis=1)


def arrivals(seed: int, most: int = 60, **given) -> Arrivals:
    """A random case; `given` fixes rules."""
    case = random.Random(seed)
    pick = case.choice
    rules = {
        "b": pick([1, 2, 4]),
        "leaf_set": pick([2, 4, 8, 16]),
        "growth": pick([1.0001, 1.1, 1.25, 1.5, 2, 4]),
        "contact": pick(["nearest", "latest", "random", "discovered"]),
        "maintenance": pick([0, 0, 1, 2]),
    } | given
    count = case.randint(1, most)
    places = count // 2 + 1
    points = np.random.default_rng(seed).uniform(0, 100_000, (places, 2))
    between = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2)).astype(np.int32)
    # nodeIds that share many digits, too
    bits = pick([128, 128, 40])
    idents = {node: _ident(case, bits) for node in range(count)}
    order = case.sample(range(count), count)
    wave, done, number = np.zeros(count, dtype=np.int64), 0, 0
    while done < count:
        size = wave_size(done, rules["growth"])
        wave[order[done : done + size]] = number
        done, number = done + size, number + 1
    rank = np.argsort(order)
    router = np.array([case.randrange(places) for _ in range(count)])
    kernel = Kernel(between, np.arange(places))
    return Arrivals(seed, OverlayConfig(**rules), idents, router, kernel, wave, rank)


def _ident(case: random.Random, bits: int) -> int:
    """A nodeId; of few bits, these are the first, and the last 64."""
    if bits == 128:
        return case.getrandbits(128)
    return case.getrandbits(4) << 124 | case.getrandbits(8) << 100 | case.getrandbits(64)


@dataclass(frozen=True)
class Grown:
    """The overlay after a wave: its states, its live nodes, and the messages of all waves so far.

    The messages are counted by `Kind`.
    """

    number: int
    states: States
    live: np.ndarray
    messages: np.ndarray


def grow(case: Arrivals, buckets: int = 1) -> Iterator[Grown]:
    """Yield the overlay after each wave of a case, by the engine in process."""
    # bounds that are not those of prefixes: arrivals take any
    size = len(case.known)
    bounds = np.linspace(0, size, buckets + 1).astype(np.int64)
    facts, observer = RingInMemory(case.known), Observer(tuple(Kind))
    environment = Environment(facts, bounds, case.rules, case.kernel, observer, seed=case.seed)
    player = InTask([Tables.of({}) for _ in range(buckets)])
    waves = plan_of(case).waves(player.share)
    done = list[Grown]()

    def after_each() -> Iterator[Wave]:
        for number, wave in enumerate(waves):
            yield wave
            done.append(grown(number, wave))

    def grown(number: int, wave: Wave) -> Grown:
        found = player.gather(LEAVES, CELLS, MESSAGES)
        tables = found[LEAVES]["leaves"].copy(), found[CELLS]["cells"].copy()
        states = States(case.known, np.arange(size), *tables)
        sent = found.get(MESSAGES, {"messages": np.zeros(len(Kind)), "lost": np.zeros(len(Kind))})
        return Grown(number, states, wave.arrived(size), counted(sent, len(Kind))[0])

    play_waves(player, environment, after_each())
    yield from done


def plan_of(case: Arrivals) -> WavePlan:
    """When each node of a case arrives, and whom it asks, in the order of nodeIds."""
    wave, rank, drawn = (of[case.known.node] for of in (case.wave, case.rank, case.contact_bits))
    contact = planned_contacts(case.rules.contact, case.known, wave, rank, drawn, case.kernel)
    return WavePlan(wave, rank, contact)


def snapshot_parts(states: States, live: np.ndarray) -> tuple[list, list, list, list]:
    """Live nodes, leaf sets, their sides and cells of states, as the oracle writes its own."""
    number, half = states.known.node, states.half
    nodes = sorted((int(number[states.own[at]]), at) for at in live)

    def side(at: int, columns: slice) -> list[int]:
        row = states.leaves[at, columns]
        filled = row[row != NONE]
        assert (row[: len(filled)] == filled).all(), "sides have no gaps"
        return number[filled].tolist()

    sides = [(n, side(at, slice(half, None)), side(at, slice(half))) for n, at in nodes]
    cells = [
        (n, int(row), int(column), int(number[states.cells[at, row, column]]))
        for n, at in nodes
        for row, column in zip(*np.nonzero(states.cells[at] >= 0), strict=True)
    ]
    leaf_sets = [(n, sorted({*smaller, *larger})) for n, smaller, larger in sides]
    return [n for n, _ in nodes], leaf_sets, sides, cells


def as_snapshot(states: States, live: np.ndarray, messages: np.ndarray) -> Snapshot:
    """The kernels' states and messages as the oracle writes its own."""
    counts = {kind.value: int(sent) for kind, sent in zip(Kind, messages, strict=True)}
    kept = {kind: count for kind, count in sorted(counts.items()) if count}
    return Snapshot(0, *snapshot_parts(states, live), kept)


def oracle_snapshot(overlay: Overlay) -> Snapshot:
    """The oracle's state, counts that are 0 left out."""
    counts = {kind: count for kind, count in overlay.counts.items() if count}
    return snapshot(overlay, counts)
