"""The clock with bandwidth in the rounds of worlds: sizes, rates and times; rules W10 and W11."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from clock_worlds import (
    RECODED,
    ROUNDS,
    SLOW,
    SPARSE,
    WHOLE,
    Queue,
    begin,
    case_of,
    links_of,
    often_useless,
)
from oracle import bandwidth as oracle
from world_states import Played

from scribe_spark.bandwidth.setting import INTERLEAVED, Parts
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.rounds.system import DELIVERED, SystemOnBuckets
from scribe_spark.systems.baselines import LiveIpMulticast
from scribe_spark.systems.flooding.flood import LiveFlooding
from scribe_spark.systems.gossipsub import round as gossipsub_round
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import CONNECTIONS, MESH
from scribe_spark.systems.gossipsub.publication import FANOUT
from scribe_spark.systems.gossipsub.round import live_gossipsub
from scribe_spark.worlds.world_state import SystemsInRound

SYSTEMS = ("scribe", "gossipsub", "sparse", "bayeux", "flooding", "can", "naive_unicast")


def without_bytes(measures: dict[str, float]) -> dict[str, float]:
    """The measures that rounds without sizes have, too."""
    return {name: value for name, value in measures.items() if "bytes." not in name}


#: Where multicasts begin, how they are delivered, the seed of the world, and if it loses copies.
SIZED = [
    ("direct", "best-effort", 5, True),
    ("routed", "reliable", 5, True),
]


@pytest.mark.parametrize(("source", "delivery", "seed", "loses"), SIZED)
def test_a_size_without_limits_changes_no_round(
    source: str, delivery: str, seed: int, loses: bool
) -> None:
    usual, sized = (
        begin(seed, source, delivery, links=links, loses=loses, scheduled=False).play(saves=False)
        for links in (None, {"size": 128_000})
    )
    assert usual == [(without_bytes(measures), *rest) for measures, *rest in sized]
    for system in (*SYSTEMS, "ip_multicast"):
        assert any(f"{system}.latency.p50" in measures for measures, *_ in usual), system


# --- IP multicast


#: Nodes that send and receive at rates of their own; a rate of 0 is no limit.
MIXED = NodeClasses(
    1, ("fast", "slow", "usual"), (0.3, 0.3, 0.4),
    {"up": (1_000_000_000, 5_000_000, -1), "down": (0, 7_000_000, -1),
     "validation": (-1, 9_000, -1), "degree": (-1,) * 3, "custody": (-1,) * 3},
)  # fmt: skip


def test_ip_multicast_is_an_event_queue_with_one_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routers duplicate packets: to each member a publication is the only one, with one copy."""
    tables: list[tuple] = []
    set_times = SystemsInRound._set_times

    def routing(self, player, given, begun, merged) -> None:
        set_times(self, player, given, begun, merged)
        if merged:
            tables.append((begun, player.gather(DELIVERED).get(DELIVERED, {})))

    monkeypatch.setattr(SystemsInRound, "_set_times", routing)
    links = SLOW | {"classes": MIXED}
    compared, held_by = 0, Counter()
    for seed in range(4):
        more = {"ip_multicast": LiveIpMulticast()}
        played = begin(seed, links=links, scheduled=False, more=more)
        rates = links_of(**links).rates(played.known.node, played.known.router)
        nodes = [
            oracle.Node(number, int(up), int(down), 5)
            for number, (up, down) in enumerate(zip(rates.up, rates.down, strict=True))
        ]
        for number in range(ROUNDS):
            tables.clear()
            measures = played.step(number).measures
            for begun, got in tables:
                names = ("group", "node", "delay_us")
                start = dict(zip(begun.group.tolist(), begun.source.tolist(), strict=True))
                for group, node, delay_us in zip(*(got.get(n, []) for n in names), strict=True):
                    ends = start[int(group)], int(node)
                    found = _alone(played, nodes, *ends)
                    assert delay_us == found.complete_us
                    held_by[found.last_us < found.complete_us] += 1
                    compared += 1
            for name in ("rad.median", "rad.max", "rmd.max", "rdp.mean"):
                assert measures.get(f"ip_multicast.{name}", 1) == 1, name
    assert compared > 100
    assert min(held_by[False], held_by[True]) > 10  # the uplink decides, and the downlink


def _alone(played: Played, nodes: list[oracle.Node], source: int, node: int) -> oracle.Copy:
    """The copy of the only publication, along the only link."""
    queue = Queue(played)
    queue.link((0, source), (0, node))
    places = {number: name[-1] for name, number in queue.places.items()}
    network = oracle.Network(dict(enumerate(nodes)), places, [*queue.links.values()])
    published = [oracle.Publication(queue.place(0, source), 0, SLOW["size"])]
    (copy,) = oracle.play(network, published, oracle.Rules(INTERLEAVED)).copies
    return copy


# --- systems that play the clock themselves, and those that are played again


@dataclass(frozen=True)
class Replayed(LiveFlooding):
    """Flooding that plays no clock: its copies are timed after the round."""

    def play_round(self, player, kept, now):
        done = super().play_round(player, kept, replace(now, links=None))
        return replace(done, begun=None)


def test_copies_are_timed_after_a_round_as_in_it() -> None:
    """Each publication has links of its own: a user's system names the first of each group."""
    compared = 0
    for seed in range(2):
        overlay = case_of(seed).config.overlay
        more = {
            "flooding": LiveFlooding(overlay.b, overlay.leaf_set),
            "replayed": Replayed(overlay.b, overlay.leaf_set),
        }
        played = begin(seed, links=SLOW | {"shared": False}, scheduled=False, more=more)
        for number in range(ROUNDS):
            measures = played.step(number).measures
            for name, value in measures.items():
                if name.startswith(("flooding.latency", "flooding.time_to", "flooding.rad")):
                    assert measures[name.replace("flooding", "replayed")] == value
                    compared += 1
    assert compared > 50


def test_nodes_send_and_receive_the_bytes_of_all_messages() -> None:
    size, seen = SLOW["size"], Counter()
    for seed in (3, 5, 8):
        for measures, *_ in begin(seed, scheduled=False).play(saves=False):
            live = measures["nodes.live"]
            for system, kinds in PAYLOADS_OF.items():
                of = f"{system}." if system != "scribe" else ""
                sent, lost = (
                    sum(measures.get(f"{of}messages.{what}{kind}", 0) for kind in kinds)
                    for what in ("", "lost ")
                )
                for way, messages in (("up", sent), ("down", sent - lost)):
                    mean = measures[f"{system}.bytes.{way}.mean"]
                    assert mean * live == pytest.approx(size * messages), (system, way)
                seen[system] += int(lost)
    assert all(seen[system] for system in ("scribe", "sparse", "naive_unicast"))


PAYLOADS_OF = {
    "scribe": ("MULTICAST", "payload", "retransmission"),
    **dict.fromkeys(("gossipsub", "sparse", "flooding", "can", "naive_unicast"), ("payload",)),
}


def compare_gossipsub(
    monkeypatch: pytest.MonkeyPatch, worlds: Iterable[tuple[Played, bool]], parts: Parts
) -> tuple[int, int, int]:
    """Compare first copies of the system `sparse` with an event queue, in worlds that may flood.

    Return the numbers of copies, of links to dead nodes, and of copies by sources that are guests.
    """
    told: list[tuple] = []
    tables: list[dict] = []
    publish, set_times = gossipsub_round.publish_with_bandwidth, SystemsInRound._set_times

    def publishing(player, copies, new, now) -> None:
        messages = copies.messages
        fanout = player.gather(FANOUT).get(FANOUT, {"message": new[:0], "peer": new[:0]})
        told.append((new, messages.topic[new], messages.source[new], now.publish, fanout))
        publish(player, copies, new, now)

    def replaying(self, player, *of_publications) -> None:
        if getattr(player, "_prefix", "") == "sparse/":
            tables.append(player.gather(DELIVERED, MESH, CONNECTIONS))
        set_times(self, player, *of_publications)

    monkeypatch.setattr(gossipsub_round, "publish_with_bandwidth", publishing)
    monkeypatch.setattr(SystemsInRound, "_set_times", replaying)
    compared = dead = guests = 0
    for played, flood in worlds:
        for number in range(ROUNDS):
            told.clear(), tables.clear()
            played.step(number)
            if not told:
                continue
            (new, *of, fanout), found = told[-1], tables[-1]
            expected, at_dead = _gossip(played, new, *of, fanout, found, flood, parts)
            got = found.get(DELIVERED, {})
            if not got:
                continue
            names = ("publication", "node", "hops", "delay_us")
            rows = [row for row in zip(*(got[name].tolist() for name in names), strict=True)]
            rows = [row for row in rows if row[0] in new]
            assert {row[:2]: row[2:] for row in rows}.items() <= expected.items()
            compared += len(rows)
            dead += at_dead
            guests += len(fanout["message"])
    return compared, dead, guests


def sparse(seed: int) -> dict[str, SystemOnBuckets]:
    """GossipSub with sparse meshes; in odd worlds, sources flood."""
    rules = GossipSubConfig(**SPARSE, flood_publish=bool(seed % 2))
    return {"sparse": live_gossipsub(rules)}


@pytest.mark.parametrize(
    ("parts", "buckets"),
    [(WHOLE, 1), (RECODED, 1), *(pytest.param(RECODED, n, marks=pytest.mark.slow) for n in (2, 7))],
)
def test_gossipsub_in_rounds_is_an_event_queue(
    parts: Parts, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies to dead peers take the uplink; a source that does not subscribe sends to its peers.

    Nodes also recode useful parts, while other nodes fail and arrive.
    """
    monkeypatch.setattr(Parts, "useful", often_useless)
    seeds, given = range(2 if parts.recoded else 4), {"parts": parts, "buckets": buckets}
    worlds = ((begin(seed, **given, more=sparse(seed)), bool(seed % 2)) for seed in seeds)
    compared, dead, guests = compare_gossipsub(monkeypatch, worlds, parts)
    assert compared > 100
    assert dead
    assert guests or parts.recoded


def _gossip(
    played: Played, new, topic, source, publish, fanout, tables, flood: bool, parts: Parts
) -> tuple[dict, int]:
    """(message, node) -> hops and delay of first copies, and how many links lead to dead nodes."""
    queue, alive = Queue(played), played.state.player.lives.alive
    size = len(queue.router)
    sources = set(zip(topic.tolist(), source.tolist(), strict=True))
    for name, mesh in ((MESH, True), (CONNECTIONS, False)):
        for key in tables.get(name, {"key": new[:0]})["key"].tolist():
            of, sender, to = key // size**2, key // size % size, key % size
            if mesh or (flood and (of, sender) in sources):
                queue.link((of, sender), (of, to), None, mesh)
    ends = zip(topic.tolist(), source.tolist(), strict=True)
    by_message = dict(zip(new.tolist(), ends, strict=True))
    guests = set(fanout["message"].tolist())
    for message, to in zip(fanout["message"].tolist(), fanout["peer"].tolist(), strict=True):
        queue.link(by_message[message], (by_message[message][0], to), None, False)
    at_us, size = publish.at_us.tolist(), publish.size.tolist()
    published = [
        oracle.Publication(queue.place(*by_message[m]), at_us[p], size[p], flood or m in guests)
        for p, m in enumerate(new.tolist())
    ]
    ident = played.known.node

    def useful(p: int, y: int, x: int) -> bool:
        return bool(parts.useful(1, np.array([p]), ident[[y]], ident[[x]])[0])

    rules = oracle.Rules(INTERLEAVED, idontwant=1, recoded=parts.needed * parts.recoded)
    first = queue.play(published, replace(rules, useful=useful))
    of_place = {number: name for name, number in queue.places.items()}
    found = {
        (int(new[p]), of_place[number][1]): (one.hops, one.at_us - at_us[p])
        for (p, number), one in first.items()
    }
    return found, sum(not alive[of_place[to][1]] for _, to in queue.links)
