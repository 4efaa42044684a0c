"""The measures of a round's multicasts against the oracle, on random worlds."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from arriving import Kernel
from coverage_questions import asked_of, questions_of
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.measures import (
    coverage_measures,
    delay_measures,
    link_stress_measures,
    node_stress_measures,
)
from oracle.scribe_living.measures import tables as oracle_tables
from overlay_state import OverlayState
from poisoned import PoisonedPlayer
from pyspark.sql.pandas.types import to_arrow_schema
from split_states import split_state, tables_of
from test_link_stress import network, on_routers

from scribe_spark.engine.buckets import Names
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.packing import take
from scribe_spark.measures.coverage import is_of_coverage
from scribe_spark.measures.multicasts import (
    BASELINES,
    MULTICASTS_MEASURED,
    MeasureMulticasts,
    MulticastMeasures,
    SystemTables,
    multicast_units,
)
from scribe_spark.schemas import WRITTEN
from scribe_spark.systems.scribe.end_of_round import OUTCOMES
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.systems.scribe.sources import SentPublications
from scribe_spark.worlds.views import delivery_columns, edge_columns

LAN_US = 700
#: Worlds in which some multicast does not reach all.
LOSSY = (2, 3, 8)
CASES = [
    *[(8, "root", True), (3, "direct", False)],
    *[
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            *((0, "root", True), (1, "root", False), (2, "root", False), (5, "root", False)),
            *((8, "direct", True), (3, "root", False), (5, "routed", False)),
            *((0, "routed", True), (1, "direct", False), (2, "routed", False)),
        )
    ],
]


def measured(
    world: World, measures: MulticastMeasures, overlay: OverlayState, kernel: Kernel
) -> dict[str, float]:
    """The measures of the last round, the same on some buckets, which cannot see each other."""
    one, *others = [_measured(world, measures, overlay, kernel, count) for count in (1, 2, 7)]
    assert all(other == one for other in others)
    return one


def _measured(
    world: World, measures: MulticastMeasures, overlay: OverlayState, kernel: Kernel, buckets: int
) -> dict[str, float]:
    ring, result = overlay.states.known, world.results[-1]
    player = PoisonedPlayer.of(overlay, world.config, kernel, buckets)
    for tables, (first, last) in zip(
        player.engine.tables, pairwise(player.environment.bounds), strict=True
    ):
        tables.update(tables_of(split_state(world.state, ring, first, last)))
        for name, column in ((DELIVERIES, "node"), (PAYLOADS, "sender")):
            if name in result.tables:
                node = result.tables[name][column]
                tables[name] = take(result.tables[name], (node >= first) & (node < last))
    of = tables_of_scribe(world)
    player.play(MeasureMulticasts(player.environment, measures, of))
    taken = player.take(*MULTICASTS_MEASURED)
    return measures.measures(taken, of, overlay.count_entered())


def tables_of_scribe(world: World) -> SystemTables:
    """Scribe's tables of the last round, for the measures."""
    scribe = LiveScribe(world.config.scribe, world.config.trees)
    taken = SentPublications.of_buckets(world.results[-1].tables.get(OUTCOMES, {})).taken()
    return SystemTables(
        "scribe", scribe, scribe.multicasts(taken, world.config.groups.source), beside=BASELINES
    )


def tables_of_round(world: World, measures: MulticastMeasures) -> dict[str, pa.Table]:
    """The tables of the multicasts of the last round."""
    ring, tables = world.overlay.states.known, world.results[-1].tables
    mine = {**tables, **tables_of(split_state(world.state, ring, 0, len(ring)))}
    kernel = world.pastry.kernel
    names = Names(RingInMemory(ring), kernel, world.groups.number)
    rows = tables_of_scribe(world).in_bucket(mine, len(ring))
    found = {
        "tree_edges": edge_columns(rows),
        "deliveries": delivery_columns(measures, rows, ring, kernel),
    }
    return {
        name: pa.Table.from_batches(
            names.batch({"system": system, **columns}, to_arrow_schema(WRITTEN[name]))
            for system, columns in systems.items()
        )
        for name, systems in found.items()
    }


@pytest.mark.parametrize(("seed", "source", "reliable"), CASES)
def test_measures_are_those_of_the_oracle(seed, source, reliable, monkeypatch) -> None:
    case = random_world(seed)
    case = replace(case, settings=replace(case.settings, source=source))
    world = world_of(case if reliable else replace(case, buffer=None))
    world.lan_us, node = LAN_US, world.overlay.states.known.node
    routes, kernel, core_links = network(seed + 20, monkeypatch)
    routers = len(routes.pred)
    drawn = np.random.default_rng(seed).integers(0, routers, len(node))
    router = dict(zip(node.tolist(), drawn.tolist(), strict=True))
    oracle = world.run.scribe.overlay
    of_router = np.empty(len(node), dtype=np.int64)
    of_router[node] = world.overlay.states.known.router
    names = ("delay", "node_stress"), ("link_stress",)
    network_of = core_links, routers, LAN_US, source
    by_delay, by_links = (MulticastMeasures(n, *network_of) for n in names)
    seen, least = Counter[str](), 1.0
    for number in range(case.rounds):
        world.step(number, [event for event in case.events if event[0] == number])
        found = measured(world, by_delay, world.overlay, world.pastry.kernel)
        expected = delay_measures(world.run, lambda a, b: oracle.delay(a, b) + 2 * LAN_US)
        expected |= node_stress_measures(world.run)
        assert found == pytest.approx(expected, rel=1e-8)
        tables = tables_of_round(world, by_delay)
        delivered = tables["deliveries"].to_pandas()
        delivered["delay_ms"] = (delivered["delay_ms"] * 1000).round().astype(int)
        edges = tables["tree_edges"].to_pandas()
        assert (edges["merged"] == (edges["system"] == "ip_multicast")).all()
        assert (edges["parent_router"] == of_router[edges["parent"]]).all()
        assert (edges["child_router"] == of_router[edges["child"]]).all()
        ends = edges[["system", "group", "parent", "child"]]
        rows = {
            "tree_edges": sorted(ends.itertuples(index=False, name=None)),
            "deliveries": sorted(delivered.itertuples(index=False, name=None)),
        }
        assert rows == oracle_tables(world.run, lambda a, b: oracle.delay(a, b) + 2 * LAN_US)
        assert set(delivered) == {"system", "group", "node", "hops", "delay_ms"}
        placed = on_routers(world.overlay, drawn)
        there = int(np.count_nonzero(placed.alive | (placed.died >= 0)))
        expected = link_stress_measures(
            world.run,
            lambda a, b: routes.path_links(router[a], router[b]),
            core_links + 2 * there,
            core_links + 200 * routers,
        )
        on_links = measured(world, by_links, placed, kernel)
        assert on_links == pytest.approx(expected, rel=1e-12)
        seen.update((found | on_links).keys())
        least = min(least, found.get("scribe.multicasts.reached", 1))
    assert (least < 1) is (seed in LOSSY)
    units = multicast_units("scribe", BASELINES)
    assert seen.keys() == {name for name in units if ".parts." not in name}
    assert seen["scribe.rdp.mean"] > 3
    assert seen["scribe.link_stress.max"] > 3


@pytest.mark.parametrize(("seed", "source", "reliable"), [(8, "root", True)])
def test_coverage_is_that_of_the_oracle(seed, source, reliable) -> None:
    case = random_world(seed)
    case = replace(case, settings=replace(case.settings, source=source))
    world = world_of(case if reliable else replace(case, buffer=None))
    world.lan_us, kernel = LAN_US, world.pastry.kernel
    nodes = 1 + int(world.overlay.states.known.node.max())
    oracle, seen = world.run.scribe.overlay, Counter[str]()
    measures = MulticastMeasures(("delay",), 0, 1, LAN_US, asked=asked_of(nodes, kernel, LAN_US))

    def delay(a, b):
        return oracle.delay(a, b) + 2 * LAN_US

    for number in range(case.rounds):
        world.step(number, [event for event in case.events if event[0] == number])
        found = measured(world, measures, world.overlay, kernel)
        wanted = coverage_measures(world.run, delay, questions_of(nodes, delay))
        assert {name: of for name, of in found.items() if is_of_coverage(name)} == wanted
        seen.update(wanted.keys())
    assert seen["scribe.within_50ms.weight.min"]
    assert seen["scribe.replies.median"]


def test_nothing_is_measured_unless_it_is_asked_for(monkeypatch) -> None:
    world = world_of(random_world(1))
    world.step(0, [event for event in world.case.events if event[0] == 0])
    of = world.overlay, world.pastry.kernel
    assert measured(world, MulticastMeasures(), *of) == {}
    assert PAYLOADS not in world.results[-1].tables
    found = measured(world, MulticastMeasures(("node_stress",)), *of)
    assert found["scribe.children_entries.max"] > 0
