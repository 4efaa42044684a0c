"""A run on Spark hands over what the kernels leave in one process."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scribe_spark import RunConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.experiments import Simulation
from scribe_spark.gossipsub.account import JOINING, JOINING_KINDS, KEPT, KEPT_KINDS, Account
from scribe_spark.gossipsub.mesh import Topics, building
from scribe_spark.gossipsub.publication import ANSWERS, ARRIVALS, COPIES, Messages, publish
from scribe_spark.gossipsub.subscribers import Directory
from scribe_spark.multicast import PAYLOAD
from scribe_spark.runtime.batches import Batches

CONFIG = {
    "nodes": 80, "overlay": "perfect", "groups": 3, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "systems": "gossipsub", "gossipsub_loss": 0.3,
    "gossipsub_dials": 3,
    "gossipsub_processing_ms": 20.0, "gossipsub_flood_publish": False,
    "gossipsub_d": 2, "gossipsub_d_low": 1, "gossipsub_d_out": 0, "gossipsub_heartbeats": 2,
}  # fmt: skip


def rows(table, *columns) -> Counter:
    """Count the rows of a table."""
    found = Batches.of(table).frame.select(*columns).toArrow().to_pydict()
    return Counter(zip(*found.values(), strict=True))


@pytest.fixture(scope="module")
def both(spark):
    """What is handed over; and topics, tables of one bucket, all numbers of nodes."""
    with Simulation(spark, RunConfig(**CONFIG)) as stages:
        (system,) = [one for one in stages.systems if one.system == "gossipsub"]
        names = {
            "deliveries": ("group", "node", "hops", "delay_us"),
            "copies": ("group", "sender", "receiver", "kind", "hop", "sent_us", "first"),
            "state": ("group", "node", "kind", "entries"),
            "control": ("group", "sender", "receiver", "kind", "messages"),
        }
        tables = {"deliveries": system.deliveries}
        tables |= {name: system.handed_over(name) for name in list(names)[1:]}
        handed = {name: rows(table, *names[name]) for name, table in tables.items()}
        groups = stages.multicast_groups.select("group", "source").toArrow().sort_by("group")
        members = Batches.of(stages.memberships).frame.select("group", "node").toArrow()
        ring, underlay = stages.overlay.ring.facts.ring, stages.underlay
        number, size = groups.column("group").to_numpy(), len(ring)
        source = ring.positions(groups.column("source").to_numpy())
        topic = np.searchsorted(number, members.column("group").to_numpy())
        place = topic * size + ring.positions(members.column("node").to_numpy())
        place = np.concatenate([place, np.arange(len(number)) * size + source])
        topics = Topics(
            np.array([0, size]),
            RingInMemory(ring),
            number,
            Directory.of(place, len(number), size),
            stages.config.gossipsub.filled(),
            underlay.kernel,
            underlay.lan_us,
            stages.config.seed,
        )
        mine = Tables.of({})
        for _, program in building(topics, stages.config.gossipsub):
            play(program, [mine])
        messages = Messages(np.arange(len(number)), source)
        lazy = publish(lambda program, name: play(program, [mine]), topics, messages)
        play(Account(topics, stages.config.gossipsub.heartbeats), [mine])
        assert lazy > 1
        yield handed, topics, mine


def test_deliveries(both):
    handed, topics, tables = both
    table, node = tables[ARRIVALS], topics.facts.ring.node
    topic, at = np.divmod(table["key"], len(node))
    columns = (topics.number[topic], node[at], table["hops"], table["at"])
    every = zip(*(column.tolist() for column in columns), strict=True)
    assert handed["deliveries"] == Counter(row for row in every if row[2] > 0)


def test_copies(both):
    handed, topics, tables = both
    node, found = topics.facts.ring.node, Counter()
    for name in tables:
        if name.split()[0] in (COPIES, ANSWERS):
            one = tables[name]
            columns = (
                *(topics.number[one["message"]], node[one["sender"]], node[one["node"]]),
                *(one["hops"], one["sent"], one["first"]),
            )
            found.update(zip(*(column.tolist() for column in columns), strict=True))
    payload = Counter(
        {(*row[:3], *row[4:]): n for row, n in handed["copies"].items() if row[3] == PAYLOAD}
    )
    assert payload == found
    kinds = {row[3] for row in handed["copies"]}
    assert kinds == {PAYLOAD, "IDONTWANT", "IHAVE", "IWANT"}


def test_state_and_control(both):
    handed, topics, tables = both
    node, kept, joining = topics.facts.ring.node, tables[KEPT], tables[JOINING]
    topic, at = np.divmod(kept["place"], len(node))
    state = zip(
        topics.number[topic].tolist(),
        node[at].tolist(),
        [KEPT_KINDS[kind] for kind in kept["kind"]],
        kept["entries"].tolist(),
        strict=True,
    )
    assert handed["state"] == Counter(state)
    topic, receiver, sender = topics.space.split(joining["key"])
    control = zip(
        topics.number[topic].tolist(),
        node[sender].tolist(),
        node[receiver].tolist(),
        [JOINING_KINDS[kind] for kind in joining["kind"]],
        joining["messages"].tolist(),
        strict=True,
    )
    assert handed["control"] == Counter(control)
