"""Parts of publications: by hand, against the event queue, and in runs of all systems."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from oracle import bandwidth as oracle
from oracle.bandwidth import Link, Network, Node, Publication, Rules
from oracle.bandwidth_cases import BYTE, random_case
from seeds import seeds

from scribe_spark import InputError, RunConfig, experiments
from scribe_spark.bandwidth.schedule import Schedule
from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import Execution

from .played import case_of
from .test_kernel import compare


def enough(first: dict[tuple[int, int], tuple], parts: Parts) -> dict[tuple[int, int], tuple]:
    """Return what completes each publication at each place, from the first copies of messages."""
    found: dict[tuple[int, int], list] = {}
    for (message, place), (at_us, hops, *_) in first.items():
        found.setdefault((message // parts.sent, place), []).append((at_us, message, hops))
    return {
        of: (times[parts.needed - 1][0], times[parts.needed - 1][2])
        for of, times in ((of, sorted(times)) for of, times in found.items())
        if len(times) >= parts.needed
    }


def messages_of(publications: list[Publication], parts: Parts) -> list[Publication]:
    """Return the parts of publications, one after the other."""
    return [
        one._replace(size=-(-one.size // parts.needed))
        for one in publications
        for _ in range(parts.sent)
    ]


def by_kernel(network, publications, rules, parts, bounds) -> dict[tuple[int, int], tuple]:
    """Return what completes each publication, by the clock and `Parts`."""
    messages = messages_of(publications, parts)
    case = case_of(network, messages, rules)
    first, _ = case.played(bounds)
    rows = [(m, place, hops, at) for (m, place), (at, hops, _) in first.items()]
    names = "publication", "node", "hops", "delay_us"
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    made = parts.complete(dict(zip(names, columns, strict=True)), 1 + max(network.places))
    found = zip(*(made[name].tolist() for name in ("publication", *names[1:])), strict=True)
    return {(p // parts.sent, place): (at, hops) for p, place, hops, at in found}


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [(4, Parts(1, 1)), (4, Parts(3, 3)), (5, Parts(8, 8)), (6, Parts(4, 7)), (8, Parts(16, 16))],
    ids=str,
)
def test_a_chain_is_a_pipeline(nodes, parts):
    """The last node has k parts after all delays and k + depth - 1 times of a part."""
    delay, part = 70, 100
    links = [Link(at, at + 1, delay) for at in range(nodes - 1)]
    network = Network(
        {n: Node(n, up=BYTE) for n in range(nodes)}, {n: n for n in range(nodes)}, links
    )
    publication = [Publication(0, 0, part * parts.needed)]
    found = by_kernel(network, publication, Rules(), parts, [0, nodes])
    for depth in range(1, nodes):
        wanted = depth * delay + (parts.needed + depth - 1) * part
        assert found[0, depth] == (wanted, depth)


def test_two_ways_share_the_parts_of_a_coded_publication():
    """A member below two chains needs any two of three parts; a copy in both ways counts once.

    The source sends part by part on its two links, each in 20 us (two copies share the uplink).
    """
    network = Network(
        {n: Node(n, up=BYTE) for n in range(4)}, {n: n for n in range(4)},
        [Link(0, 1, 5), Link(0, 2, 5), Link(1, 3, 5), Link(2, 3, 90)],
    )  # fmt: skip
    found = by_kernel(network, [Publication(0, 0, 20)], Rules(), Parts(2, 3), [0, 2, 4])
    # parts reach node 1 at 25, 45 and 65, and node 3 by node 1 after 10 + 5 more
    assert found[0, 3] == (60, 2)
    assert found[0, 1] == found[0, 2] == (45, 1)


@pytest.mark.parametrize("part", seeds(range(10), in_each_run=1))
def test_random_cases_are_the_event_queue(part):
    for seed in range(part * 24, part * 24 + 24):
        network, publications, rules = random_case(seed)
        rng = random.Random(f"parts {seed}")
        needed = rng.choice([1, 2, 3, 5])
        parts = Parts(needed, needed + rng.choice([0, 0, 1, 4]))
        wanted = enough(oracle.play(network, messages_of(publications, parts), rules).first, parts)
        size = len(network.nodes)
        for bounds in (
            [0, size],
            [0, size // 2, size],
            sorted([0, size, *rng.choices(range(size + 1), k=6)]),
        ):
            assert by_kernel(network, publications, rules, parts, bounds) == wanted, (seed, bounds)


@pytest.mark.parametrize("part", seeds(range(10), in_each_run=1))
def test_recoded_parts_are_the_event_queue(part):
    """All copies and parts of nodes that recode; a tenth of the copies is not useful."""
    compared = 0
    for seed in range(part * 24, part * 24 + 24):
        network, publications, rules = random_case(seed)
        needed = random.Random(f"recoded {seed}").choice([1, 2, 3, 6])
        parts = Parts(needed, needed, recoded=True)

        def useful(message: int, sender: int, receiver: int, seed=seed) -> bool:
            return random.Random(f"{seed} {message} {sender} {receiver}").random() > 0.1

        rules = replace(rules, recoded=needed, useful=useful)
        messages = messages_of(publications, parts)
        wanted, first, _ = compare(network, messages, rules, seed)
        mine = by_kernel(network, publications, rules, parts, [0, len(network.nodes)])
        assert mine == enough(wanted.first, parts)
        compared += len(first)
    assert compared > 300


def test_messages_of_a_schedule_follow_each_other():
    rows = np.array([[0, 1, 9, 100], [0, 1, 9, 101], [0, 2, 3, 7], [5, 1, 2, 1]]).T
    made = Parts(3, 4).split(Schedule.of(*rows))
    assert made.size.tolist() == [34] * 4 + [34] * 4 + [3] * 4 + [1] * 4
    assert made.at_us.tolist() == [0] * 12 + [5] * 4
    assert Parts(3, 4).publication(np.arange(9)).tolist() == [0] * 4 + [4] * 4 + [8]


# --- runs; `test_scheduled_runs` has one with coded parts


#: The runs are small, as in `test_scheduled_runs`.
GIVEN = {
    "nodes": 60, "overlay": "perfect", "groups": 2, "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "source": "direct", "lan_delay_ms": 0.5, "seed": 4,
    "gossipsub_flood_publish": False, "gossipsub_d": 4, "gossipsub_heartbeats": 3, "parts": 3,
    "uplink": "10Mbit/s", "downlink": "16Mbit/s", "validation": "3ms", "message_size": "20KB",
}  # fmt: skip


def test_one_message_announces_the_parts_of_a_publication(spark, tmp_path):
    """With bitmaps, the messages of a heartbeat that differ by their part only are one.

    A node announces a part only in the heartbeat after its first copy.
    """
    more = {"systems": "gossipsub", "parts": 10}
    losses = {"gossipsub_loss": 0.8, "gossipsub_mcache_gossip": 1, "gossipsub_heartbeat_ms": 9e3}
    config, tables = RunConfig(**GIVEN | more | losses), {}
    for announce, buckets in (("part", 1), ("publication", 2)):
        execution = Execution(out=str(tmp_path / announce), engine="tasks", buckets=buckets)
        given = config.replace(gossipsub_announce=announce)
        with experiments.run(spark, given, execution, experiments.PHASES[:-1]) as found:
            tables[announce] = {
                name: found.table(name).toPandas() for name in ("copies", "bytes", "deliveries")
            }
    pd.testing.assert_frame_equal(*(one["deliveries"] for one in tables.values()))
    names = ["publication", "sender", "receiver", "kind", "sent_ms", "first"]
    rows = {
        announce: [*one["copies"].query("system == 'gossipsub'")[names].itertuples(False, None)]
        for announce, one in tables.items()
    }
    got = {(p, y): int(sent_ms // 9e3) for p, _, y, kind, sent_ms, first in rows["part"] if first}
    expected, whole = Counter(), set()
    for p, x, y, kind, *_ in rows["part"]:
        if kind in ("IHAVE", "IWANT"):
            holder = x if kind == "IHAVE" else y
            whole.add((p - p % 10, x, y, kind, got.get((p, holder), 0)))
        else:
            expected[p, x, y, kind] += 1
    expected.update(one[:4] for one in whole)
    assert Counter(row[:4] for row in rows["publication"]) == expected
    # an IHAVE has 61 bytes, an IWANT 27; a bitmap of 10 parts has two more
    up, down = Counter(), Counter()
    for announce, size in (("part", {"IHAVE": -61, "IWANT": -27}),
                           ("publication", {"IHAVE": 63, "IWANT": 29})):  # fmt: skip
        for _, x, y, kind, *_ in rows[announce]:
            up[x] += size.get(kind, 0)
            down[y] += size.get(kind, 0)
    before, after = (one["bytes"].set_index(["system", "node"]) for one in tables.values())
    change = (after - before).loc["gossipsub"]
    for name, counted in (("control_up", up), ("control_down", down)):
        assert change[name].to_dict() == {node: counted[node] for node in change.index}
    assert (change[["payload_up", "payload_down"]] == 0).all(axis=None)
    asked = [sum(row[3] == "IWANT" for row in one) for one in rows.values()]
    assert 100 < asked[1] < asked[0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parts": 0}, "parts"),
        ({"parts": 65_537}, "parts"),
        ({"code": "reed-solomon:2"}, "sends fewer parts than the 3"),
        ({"code": "reed-solomon:65537"}, "from 1 to 65,536"),
        ({"code": "raptor:9"}, "must be rlnc, or reed-solomon:N"),
        ({"code": "reed-solomon:"}, "must be rlnc, or reed-solomon:N"),
        ({"parts": None}, "needs parts"),
        ({"code": "rlnc", "systems": "splitstream"}, "splitstream, whose nodes do not recode"),
        ({"message_size": None, "publications": 2}, "divides the size of publications"),
        ({"message_size": "1KB", "groups": 1500, "nodes": 10**6, "parts": 16384,
          "code": None}, "parts"),
    ],
)  # fmt: skip
def test_impossible_parts_are_refused(changed, message):
    given = GIVEN | {"systems": "scribe", "code": "reed-solomon:5"}
    with pytest.raises(InputError, match=message):
        experiments.check(RunConfig(**given | changed), Execution(out="out"))
