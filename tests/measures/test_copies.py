"""Duplicates, control messages and state of systems that hand them over, against plain counts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pandas as pd
import pytest
from oracle import latency, measures
from oracle.random_cases import Case, random_case
from worlds import LAN_US, link_frame

from scribe_spark import schemas
from scribe_spark.measures.copies import (
    CONTROL,
    DUPLICATES,
    STATE,
    control_messages,
    payload_copies,
)
from scribe_spark.measures.distributions import distributions, read_histograms
from scribe_spark.measures.measure import Found, RunTables, Size
from scribe_spark.measures.stress import count_stress, link_stress, node_stress
from scribe_spark.rounds.declaration import MESH, TREE, System
from scribe_spark.systems.registry import register_system, unregister_system
from scribe_spark.underlay.matrices import MatrixUnderlay, compute_routes

SYSTEMS = ("mesh", "other")


@dataclass(frozen=True)
class Rows:
    """What two systems hand over, drawn over the nodes of a case."""

    case: Case
    copies: list[tuple]  # system, group, sender, receiver, kind, first
    control: list[tuple]  # system, group, sender, receiver, kind, messages
    state: list[tuple]  # system, node, group, kind, entries

    @classmethod
    def drawn(cls, seed: int) -> Rows:
        rng = random.Random(f"copies {seed}")
        case = next(c for c in map(random_case, range(seed, 999)) if len(c.ids) > 3)
        nodes = list(case.ids)

        def pair() -> list[int]:
            return rng.sample(nodes, 2)

        copies = [
            (s, rng.randint(1, 3), *pair(), kind, kind == "payload" and rng.random() < 0.6)
            for s in SYSTEMS
            for kind in rng.choices(["payload", "ihave"], [3, 1], k=90)
        ]
        had: set[tuple] = set()
        for at, (s, group, sender, receiver, kind, first) in enumerate(copies):
            is_first = first and (s, group, receiver) not in had
            had |= {(s, group, receiver)} if is_first else set()
            copies[at] = (s, group, sender, receiver, kind, is_first)
        return cls(
            case,
            copies,
            [
                ("mesh", rng.choice([None, 1, 2]), *pair(), rng.choice("ab"), rng.randint(1, 9))
                for _ in range(40)
            ],
            [
                (s, rng.choice(nodes), rng.choice([None, 1, 2]), "view", rng.randint(1, 7))
                for s in SYSTEMS
                for _ in range(30)
            ],
        )


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows.drawn(1)


@pytest.fixture(scope="module")
def run(spark, rows):
    for name, family in zip(SYSTEMS, (MESH, TREE), strict=True):
        register_system(System(name, name, family, lambda config: None, control=True))
    case, router = rows.case, rows.case.router
    routers = sorted(case.routers)
    routes = compute_routes(spark, pd.Series(routers).to_numpy(), link_frame(case), "delay", 1)
    underlay = MatrixUnderlay.of(spark, routes, len(case.links), LAN_US)

    def table(name: str, found: list[dict]) -> object:
        schema = schemas.WRITTEN[name]
        return schemas.local_table(
            spark, pd.DataFrame(found, columns=schema.names).astype(object), schema
        )

    def ends(sender: int, receiver: int) -> dict[str, int]:
        return {
            "sender": sender, "receiver": receiver,
            "sender_router": router[sender], "receiver_router": router[receiver],
        }  # fmt: skip

    tables = {
        "copies": table("copies", [
            {"system": s, "group": g, **ends(a, b), "kind": kind, "hop": 1, "first": first}
            for s, g, a, b, kind, first in rows.copies
        ]),
        "control": table("control", [
            {"system": s, "group": g, **ends(a, b), "kind": kind, "messages": n}
            for s, g, a, b, kind, n in rows.control
        ]),
        "system_state": table("system_state", [
            dict(zip(("system", "node", "group", "kind", "entries"), row, strict=True))
            for row in rows.state
        ]),
        "tree_edges": table("tree_edges", []),
    }  # fmt: skip
    mine = tuple(System(name, name, MESH, lambda config: None) for name in SYSTEMS)
    yield RunTables(tables, mine, len(case.ids), 4, underlay, buckets=3)
    underlay.release()
    for name in SYSTEMS:
        unregister_system(name)


def links(case: Case, sent: list[tuple[int, int]]) -> dict[measures.StressLink, int]:
    """What messages between nodes put on links."""
    routes, total = case.routes(), Counter[measures.StressLink]()
    for a, b in sent:
        total.update(measures.links_between(a, b, case.router, routes))
    return dict(total)


def told(stress) -> dict[str, dict[measures.StressLink, int]]:
    found: dict[str, dict] = {}
    for row in stress.frame.collect():
        found.setdefault(row["system"], {})[row["kind"], row["src"], row["dst"]] = row["packets"]
    return found


def test_links_carry_payload_and_control_apart(run, rows):
    names = list(SYSTEMS)
    spark = run["copies"].sparkSession
    nodes = spark.createDataFrame([(node,) for node in rows.case.ids], "node bigint")
    counted = count_stress(payload_copies(run), run.underlay, 3, nodes, names)
    payload = told(link_stress(counted))
    control = told(link_stress(count_stress(control_messages(run), run.underlay, 3)))
    for system in SYSTEMS:
        sent = [(a, b) for s, _, a, b, kind, _ in rows.copies if s == system and kind == "payload"]
        assert payload[system] == links(rows.case, sent)
        other = [(a, b) for s, _, a, b, kind, _ in rows.copies if s == system and kind == "ihave"]
        other += [(a, b) for s, _, a, b, _, n in rows.control if s == system for _ in range(n)]
        assert control[system] == links(rows.case, other)
    # the load of a node: groups that it sends to, and copies that it sends
    loads = {(r["system"], r["node"]): tuple(r)[2:] for r in node_stress(counted).frame.collect()}
    for system in SYSTEMS:
        for node in rows.case.ids:
            mine = [
                g
                for s, g, a, _, kind, _ in rows.copies
                if (s, a, kind) == (system, node, "payload")
            ]
            assert loads[system, node] == (len(set(mine)), len(mine))


def test_numbers_of_duplicates_state_and_messages(run, rows):
    own = (DUPLICATES, STATE, CONTROL)
    spread = distributions(run, own, lambda figure, measure, system: figure)
    collected = {"duplicates": DUPLICATES.collect(run)}
    found = Found(Size(run.nodes, 5, 9), 4, read_histograms(spread), collected)
    values = {
        (system, metric.name): metric.value(found, system)
        for one in own
        for metric in one.metrics
        for system in SYSTEMS
    }
    for system in SYSTEMS:
        payload = [first for s, *_, kind, first in rows.copies if (s, kind) == (system, "payload")]
        assert values[system, "duplicates"] == len(payload) - sum(payload)
        assert values[system, "duplicates.mean"] == (len(payload) - sum(payload)) / sum(payload)
        came = [
            (g, to, f) for s, g, _, to, kind, f in rows.copies if (s, kind) == (system, "payload")
        ]
        of_receipts = latency.duplicates(came)
        assert values[system, "duplicates.p95"] == latency.percentile(of_receipts, 95)
        assert values[system, "duplicates.max"] == max(of_receipts) > 0
        kept: Counter = Counter()
        for s, node, _, _, entries in rows.state:
            kept[node] += entries * (s == system)
        assert values[system, "state.max"] == max(kept.values())
        assert values[system, "state.mean"] == sum(kept.values()) / run.nodes
    taken: Counter = Counter()
    for _, _, _, receiver, _, messages in rows.control:
        taken[receiver] += messages
    assert values["mesh", "join_messages.max"] == max(taken.values())
    assert values["mesh", "join_messages.mean"] == sum(taken.values()) / run.nodes
    assert values["other", "join_messages.max"] is None
    zeros = spread[(spread["system"] == "mesh") & (spread["measure"] == "join_messages")]
    assert zeros["count"].sum() == run.nodes


def test_of_trees_they_are_read_off_their_edges():
    """Each edge is a JOIN, and a node keeps its children."""
    counted = pd.DataFrame(
        [
            *(("scribe", "children_entries", value, n) for value, n in ((0.0, 7), (4.0, 3))),
            *(("naive_unicast", "children_entries", value, n) for value, n in ((0.0, 9), (5.0, 1))),
            *(("scribe", "link_stress", value, n) for value, n in ((1.0, 6), (3.0, 2))),
        ],
        columns=["system", "measure", "value", "count"],
    )
    found = Found(Size(10, 5, 9), 4, read_histograms(counted), {})
    numbers = {m.name: m.value(found, "scribe") for m in (*STATE.metrics, *CONTROL.metrics)}
    assert (numbers["state.mean"], numbers["state.max"]) == (1.2, 4)
    assert (numbers["join_messages.mean"], numbers["join_messages.max"]) == (1.2, 4)
    assert (numbers["control_stress.max"], numbers["control_packets"]) == (3, 12)
    (naive,) = (m.value(found, "naive_unicast") for m in STATE.metrics if m.name == "state.max")
    assert naive == 5
    (none,) = (
        m.value(found, "naive_unicast") for m in CONTROL.metrics if m.name == "join_messages.max"
    )
    assert none is None
