"""What nodes know as a table, and next hops from any of it, against a plain-Python oracle."""

import random
import sys
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from types import SimpleNamespace

import arriving
import identifiers
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import worlds
from oracle.knowledge import Known, keys_for, random_ids, random_known
from overlay_state import OverlayState, perfect_start
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.engine.facts import Ring
from scribe_spark.overlay import Application, Overlay, Step
from scribe_spark.pastry.knowledge import live_knowledge
from scribe_spark.pastry.overlay import PastryOverlay

CASES = 200

for module in (arriving, sys.modules[__name__]):  # a kernel and an application go to the workers
    cloudpickle.register_pickle_by_value(module)


class OneHop(Application):
    """Messages end before their first hop."""

    def forward(self, tables, messages):
        return Step(outcomes=messages)


def next_hops(overlay: Overlay, messages: DataFrame) -> DataFrame:
    """Where each message goes next (``next``), NULL at its root."""
    return overlay.route(OneHop(), messages).outcomes()


def known_node(identifier: int, number: int, name: str = "entry") -> dict:
    hi, lo = identifiers.halves(identifier)
    return {name: number, "id_hi": hi, "id_lo": lo, "router": number + 7}


def knowledge_rows(known: Iterable[Known], number: dict[int, int]) -> pa.RecordBatch:
    """`schemas.KNOWLEDGE`; `number` is nodeId -> node."""
    rows = [
        {
            **known_node(one.own, number[one.own], "node"),
            "smaller": len(one.smaller),
            "covers_ring": one.covers_ring,
            "leaf_set": [known_node(leaf, number[leaf]) for leaf in one.clockwise],
            "routing_table": [
                {"row": row, "col": col, **known_node(entry, number[entry])}
                for (row, col), entry in one.table.items()
            ],
        }
        for one in known
    ]
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schemas.KNOWLEDGE))


def test_next_hops_from_any_knowledge_equal_the_oracle(spark):
    """Ragged, empty, with missing entries, missing rows and dead nodes; all in one job."""
    batches: dict[int, list[pa.RecordBatch]] = {b: [] for b in worlds.BS}
    asked: list[tuple[Known, int, int, int]] = []
    name: dict[int, int] = {}
    for case in range(CASES):
        rng = random.Random(case)
        b = rng.choice(worlds.BS)
        ids = random_ids(rng, b)
        number = {identifier: 100 * case + place for place, identifier in enumerate(ids)}
        name |= {node: identifier for identifier, node in number.items()}
        dead = {one for one in ids if rng.random() < 0.2} if case % 2 else set()
        known = [random_known(rng, own, ids, b) for own in ids]
        left = [one.without(dead) for one in known]
        batches[b].append(knowledge_rows(left, number))
        for one, mine in zip(known, left, strict=True):
            asked += [(mine, key, number[one.own], b) for key in keys_for(rng, mine, ids)]
    hops = []
    routers = np.arange(100 * CASES + 100)
    kernel = arriving.Kernel(np.empty((0, 0)), routers)
    underlay = SimpleNamespace(kernel=kernel, routers=routers, lan_us=0)
    for b in worlds.BS:
        rows = pa.Table.from_batches(batches[b])
        overlay = PastryOverlay.of_knowledge(spark.createDataFrame(rows), underlay, b, leaf_set=2)
        mine = [(n, question) for n, question in enumerate(asked) if question[3] == b]
        halves = [identifiers.halves(question[1]) for _, question in mine]
        messages = {
            "node": [question[2] for _, question in mine],
            "key_hi": [hi for hi, _ in halves],
            "key_lo": [lo for _, lo in halves],
            "number": [n for n, _ in mine],
        }
        hops.append(next_hops(overlay, spark.createDataFrame(pa.table(messages))))
    found = reduce(lambda one, other: one.unionByName(other), hops).collect()
    assert len(found) == len(asked) > 10_000
    rules: Counter[str] = Counter()
    for row in found:
        known, key, _, b = asked[row["number"]]
        rule, following = known.next_hop(key)
        rules[rule] += 1
        at = None if row["next"] is None else name[row["next"]]
        assert at == following, (row["number"], b, rule, hex(key), known)
    assert set(rules) == {"leaf set", "entry", "gap", "leaf without entry", "nobody closer"}
    assert min(rules.values()) > 100, rules


def test_an_unknown_cover_is_told_by_the_number_of_leaves(spark):
    """NULL in covers_ring: fewer than l leaves are all the other nodes there are."""
    ids = [10, 20, 30]
    known = [Known(10, 4, (30,), (20,)), Known(20, 4, (10,), (30,)), Known(30, 4, (20,), (10,))]
    rows = knowledge_rows(known, {one: number for number, one in enumerate(ids)})
    place = rows.schema.get_field_index("covers_ring")
    unknown = rows.set_column(place, rows.schema.field(place), pa.nulls(3, pa.bool_()))
    kernel = arriving.Kernel(np.empty((0, 0)), np.arange(10))
    underlay = SimpleNamespace(kernel=kernel, routers=np.arange(10), lan_us=0)
    for leaf_set, covers in ((2, False), (4, True)):
        frame = spark.createDataFrame(pa.Table.from_batches([unknown]))
        overlay = PastryOverlay.of_knowledge(frame, underlay, 4, leaf_set)
        found = overlay.knowledge.select("covers_ring").collect()
        assert [row["covers_ring"] for row in found] == [covers] * 3


def test_a_leaf_set_that_loses_the_dead_covers_what_it_covered():
    state, kernel = overlay_of(6, leaf_set=16)
    state.alive[[1, 4]] = False
    (left,) = live_knowledge(state.states, state.is_alive, kernel)
    assert left.column("covers_ring").to_pylist() == [True] * 4
    assert pc.list_value_length(left.column("leaf_set")).to_pylist() == [3] * 4


def overlay_of(nodes: int, leaf_set: int, seed: int = 8) -> tuple[OverlayState, arriving.Kernel]:
    """Nodes with perfect tables (b is 2), and their network."""
    rng = random.Random(seed)
    idents = sorted(rng.getrandbits(128) for _ in range(nodes))
    hi, lo = np.array([identifiers.halves(ident) for ident in idents]).T.view(np.uint64).copy()
    kernel = arriving.Kernel(np.ones((nodes, nodes), dtype=np.int64), np.arange(nodes))
    ring = Ring(hi, lo, np.arange(nodes), np.arange(nodes))
    return perfect_start(ring, np.arange(nodes), leaf_set, 2, kernel), kernel


def test_what_is_left_after_failures_survives_being_read_again(spark):
    """A side without leaves, or short of them, stays so: nobody routes as if the sides met."""
    rng, (state, kernel) = random.Random(9), overlay_of(20, leaf_set=4)
    underlay = SimpleNamespace(kernel=kernel, routers=np.arange(20), lan_us=0)
    state.alive[[2, 7, 8, 13, 14, 16, 17]] = False  # of 0 one leaf, of 6 a side, of 15 all
    rows = pa.Table.from_batches(live_knowledge(state.states, state.is_alive, kernel))

    def read(knowledge):
        return PastryOverlay.of_knowledge(spark.createDataFrame(knowledge), underlay, 2, 4)

    first = read(rows)
    kept = first.knowledge.toArrow().sort_by("node")
    assert kept.filter(kept.column("covers_ring")).column("node").to_pylist() == [15]
    assert kept.to_pylist() == rows.sort_by("node").to_pylist()
    again = read(kept)
    keys = np.array([identifiers.halves(rng.getrandbits(128)) for _ in range(300)])
    node = np.flatnonzero(state.alive)[np.arange(300) % 13]
    sent = spark.createDataFrame(
        pa.table(
            {"node": node, "key_hi": keys[:, 0], "key_lo": keys[:, 1], "number": np.arange(300)}
        )
    )
    hops = [set(map(tuple, next_hops(one, sent).collect())) for one in (first, again)]
    assert hops[0] == hops[1]
    assert len(hops[0]) == 300
