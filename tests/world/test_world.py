"""A world on Spark is what the kernels make of it; it goes on after any round that was saved."""

import json
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from in_memory import InMemory
from living_worlds import measured_round
from oracle.ring import digit, shared_digits
from overlay_state import OverlayState, perfect_start
from pyspark.sql import functions as F
from small_network import NETWORK
from stopping import Stops

from scribe_spark import experiments
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.engine.facts import Ring
from scribe_spark.experiments import run_world
from scribe_spark.rounds.event_rows import event_codes
from scribe_spark.rounds.events import Events
from scribe_spark.worlds.round_measures import cell_delays, cells_with_nodes, right_leaf_sets

CONFIG = WorldConfig(
    **NETWORK, nodes=90, leaf_set=8, initial=70, generator="churn", lifetime=8.0,
    replacement="recover", rounds=6, lookups=40,
)  # fmt: skip


def ring_of(simulation) -> Ring:
    rows = simulation.nodes.toPandas()
    index = simulation.underlay.kernel.index(rows["router"].to_numpy()).astype(np.int64)
    halves = (rows[name].to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
    return Ring(*halves, rows["node"].to_numpy(), index).in_order()


def count_by_kind(world):
    nodes = {row["node"] for row in world.state.select("node").collect()}
    ends = world.messages.select(F.explode(F.array("sender", "receiver")).alias("node"))
    assert {row["node"] for row in ends.collect()} <= nodes
    return world.messages.groupBy("kind").count()


def tables_of(world) -> tuple[set, set]:
    """Leaf sets and routing tables, as rows of Spark's."""
    return set(map(tuple, world.leaf_sets.collect())), set(
        map(tuple, world.routing_table.collect())
    )


def rows_of_tables(node: int, leaves: list[int], cells: dict[int, int]) -> tuple[set, set]:
    """The rows of a node's leaf set, and of its cells by their places."""
    half = len(leaves) // 2
    places = [*range(1, half + 1), *range(-1, -half - 1, -1)]
    of_leaves = zip(leaves, places, strict=True)
    rows = {(node, leaf, place) for leaf, place in of_leaves if leaf >= 0}
    return rows, {(node, *divmod(place, 16), entry) for place, entry in cells.items()}


def typed_tables(state: OverlayState) -> tuple[set, set]:
    """The same of the arrays, one by one."""
    number, found = np.append(state.states.known.node, -1), (set(), set())
    for at in range(len(number) - 1):
        cells = dict(enumerate(number[state.states.cells[at]].ravel().tolist()))
        cells = {place: entry for place, entry in cells.items() if entry >= 0}
        leaves = number[state.states.leaves[at]].tolist()
        for mine, rows in zip(found, rows_of_tables(int(number[at]), leaves, cells), strict=True):
            mine |= rows
    return found


def bytes_of_tables(state: pa.Table) -> tuple[set, set]:
    """The same, of the bytes in `World.state`."""
    found = set(), set()
    for row in state.select(["node", "leaves", "cells", "entries"]).to_pylist():
        node = row.pop("node")
        leaves, cells, entries = (np.frombuffer(one, "<i4").tolist() for one in row.values())
        cells = dict(zip(cells, entries, strict=True))
        for mine, rows in zip(found, rows_of_tables(node, leaves, cells), strict=True):
            mine |= rows
    return found


def test_rounds_are_what_the_kernels_make_of_them(simulation, begin):
    kernel, rules = simulation.underlay.kernel, CONFIG.overlay
    known = ring_of(simulation)
    live = np.flatnonzero(known.node < 70)
    state = perfect_start(known, live, rules.leaf_set, rules.b, kernel)
    world = begin(CONFIG)
    events = world._events.toPandas()
    assert len(events) > 40
    for number in range(CONFIG.world.rounds):
        now = events[events["round"] == number]
        happening = Events.of(known, now["node"].to_numpy(), event_codes(now["event"].to_numpy()))
        player = InMemory.of(state, CONFIG, kernel, 3)
        lookups = CONFIG.world.lookups
        result, measured = measured_round(player, number, happening, lookups)
        assert world.step(messages=number == 2) == measured
        changed = {row["node"] for row in world.new_leafs.collect()}
        assert changed == set(known.node[result.new_leafs].tolist())
        right = world.lookups.where(F.col("right")).count()
        assert right == int(result.lookups.right.sum())
        if number not in (2, 5):
            continue
        if number == 2:
            kinds = {row["kind"]: row["count"] for row in count_by_kind(world).collect()}
            assert kinds == {kind: n for kind, n in result.messages.items() if "lost" not in kind}
        assert tables_of(world) == typed_tables(state)
        found = world.state.toArrow().sort_by("node").take(known.node)
        assert (found["alive"].to_numpy() == state.alive).all()
        assert (found["died"].to_numpy() == state.died).all()
        assert bytes_of_tables(found) == typed_tables(state)


def test_messages_are_routed_by_what_nodes_know_now(begin):
    """The last round's lookups again: no dead entry is left that they would meet."""
    world = begin(CONFIG)
    for _ in range(4):
        world.step()
    again = world.lookups.withColumnRenamed("source", "node").where("lost = 0")
    asked = again.select("node", "key_hi", "key_lo")
    assert asked.count() > 20
    before = world.state.select("node", "entries").collect()
    found = world.route(asked).collect()
    assert sorted(found) == sorted(world.lookups.where("lost = 0").collect())
    assert world.state.select("node", "entries").collect() == before
    # from a dead node nothing goes
    alive = {row["node"]: row["alive"] for row in world.state.collect()}
    assert not all(alive.values())
    for row in world.route(
        world.state.selectExpr("node", "id_hi key_hi", "id_lo key_lo")
    ).collect():
        assert row["delivered"] == row["right"] == alive[row["source"]]
        assert (row["at"], row["hops"]) == (row["source"], 0)


def test_the_live_nodes_are_an_overlay_of_their_own(begin):
    """It has the cells of live nodes, without dead entries."""
    world = begin(CONFIG)
    for _ in range(3):
        world.step()
    overlay, alive = world.overlay(), {row["node"] for row in world.nodes.collect()}
    _, cells = tables_of(world)
    of_live = {cell for cell in cells if {cell[0], cell[-1]} <= alive}
    assert set(map(tuple, overlay.routing_table().collect())) == of_live < cells
    overlay.release()


def test_delay_of_cells_beside_the_nearest_nodes(simulation):
    """Of an overlay of arrivals, with dead nodes; every node's cells are looked at."""
    kernel, known = simulation.underlay.kernel, ring_of(simulation)
    rng = np.random.default_rng(5)
    live = np.sort(rng.permutation(90)[:80])
    state = perfect_start(known, live, 8, 2, kernel)
    kept, nearest = cell_delays(state.states, state.is_alive, live, live, kernel)
    assert (kept == nearest).all()
    assert len(kept) == (state.states.cells[live] >= 0).sum()
    # other entries than the nearest, and some nodes are dead
    for node in live:
        for row, column in zip(*np.nonzero(state.states.cells[node] >= 0), strict=True):
            fits = candidates(known, node, live, row, column)
            state.states.cells[node, row, column] = rng.choice(fits)
    state.alive[live[::7]] = False
    nodes = state.live()[::3]
    now = state.live()
    found = cell_delays(state.states, state.is_alive, now, nodes, kernel)
    kept, nearest = (part.tolist() for part in found)
    wanted = []
    for node in nodes:
        for row, column in zip(*np.nonzero(state.states.cells[node] >= 0), strict=True):
            entry = state.states.cells[node, row, column]
            if state.alive[entry]:
                fits = candidates(known, node, state.live(), row, column)
                far = [delay(kernel, known, node, other) for other in (entry, *fits)]
                wanted.append((far[0], min(far)))
    assert sorted(zip(kept, nearest, strict=True)) == sorted(wanted)
    assert sum(kept) > sum(nearest)


def candidates(known: Ring, node: int, among: np.ndarray, row: int, column: int) -> list[int]:
    """Nodes that could be in a cell, with digits of two bits."""
    ident = [int(hi) << 64 | int(lo) for hi, lo in zip(known.hi, known.lo, strict=True)]
    fits = [other for other in among if shared_digits(ident[node], ident[other], 2) == row]
    return [other for other in fits if digit(ident[other], int(row), 2) == column]


def delay(kernel, known: Ring, one: int, other: int) -> int:
    return int(kernel.delays(known.router[[one]], known.router[[other]])[0])


def test_measures_by_looking_at_all(simulation):
    kernel, known = simulation.underlay.kernel, ring_of(simulation)
    for count, b in ((90, 4), (40, 2), (7, 4), (2, 1), (1, 4)):
        live = np.sort(np.random.default_rng(count).permutation(90)[:count])
        state = perfect_start(known, live, 8, b, kernel)
        assert right_leaf_sets(state.states, live, live) == count
        there = known.take(live)
        ident = [int(hi) << 64 | int(lo) for hi, lo in zip(there.hi, there.lo, strict=True)]
        cells = set()
        for one, other in permutations(range(count), 2):
            row = shared_digits(ident[one], ident[other], b)
            cells.add((one, row, digit(ident[other], row, b)))
        assert cells_with_nodes(there, b) == len(cells) == int((state.states.cells >= 0).sum())
        if count > 8:
            state.states.leaves[live[3], 0] = live[0]
            assert right_leaf_sets(state.states, live, live) == count - 1


# --- runs of worlds


def tables(out: Path) -> dict[str, str]:
    recorded = json.loads((out / "manifest.json").read_text())["world"]["tables"]
    return {name: record["digest"] for name, record in recorded.items()}


def play(spark, out, progress=None, config=CONFIG, **how) -> str:
    execution = Execution(**{"out": str(out), "master": "local[2]"} | how)
    experiments.check_world_run(config, execution)
    return run_world(spark, config, execution, progress)


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("world") / "out"
    play(spark, out)
    return out


def test_what_a_world_leaves(spark, finished):
    rounds = spark.read.parquet(str(finished / "tables" / "rounds"))
    assert [f.simpleString() for f in rounds.schema.fields] == [
        "round:bigint", "system:string", "measure:string", "value:double",
    ]  # fmt: skip
    live = rounds.where("measure = 'nodes.live'").orderBy("round").collect()
    assert [row["value"] for row in live] == [70.0] * 6
    events = spark.read.parquet(str(finished / "tables" / "events"))
    assert events.columns == ["round", "node", "event", "group"]
    assert events.count() > 40
    manifest = json.loads((finished / "manifest.json").read_text())
    assert manifest["world"]["engine"] == {"name": "tasks", "why": "all nodes are in one bucket"}
    page = (finished / "report.html").read_text()
    for heading in ("Live nodes", "Lookups", "Hops of delivered lookups", "Messages"):
        assert heading in page
    assert len(list((finished / "figures").glob("round-*.svg"))) == 8


def test_going_on_gives_the_same_world(spark, finished, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
    out = tmp_path / "out"
    for after in ("round 1:", "round 4:"):
        with pytest.raises(KeyboardInterrupt):
            play(spark, out, Stops(after), resume=True)
    told = Stops()
    play(spark, out, told, resume=True, partitions=3)
    assert "continues with round 4" in told.lines
    assert tables(out) == tables(finished)
    slots = {path.name for path in (out / "tables").glob("state_*")}
    assert slots == {"state_even", "state_odd"}  # a save does not replace the last one
    told = Stops()
    play(spark, out, told, resume=True)  # complete: only the page is drawn again
    assert not any("live nodes" in line for line in told.lines)
    assert tables(out) == tables(finished)
    # what was saved is damaged: from the beginning, to the same end
    last = json.loads((out / "manifest.json").read_text())["world"]["saved"]
    (part,) = (out / "tables" / f"state_{last['slot']}").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    told = Stops()
    play(spark, out, told, resume=True)
    assert any("begins again" in line for line in told.lines)
    assert tables(out) == tables(finished)
