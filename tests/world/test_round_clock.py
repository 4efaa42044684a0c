"""The clock with bandwidth in the rounds of worlds: sizes, rates and times; rules W10 and W11."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from in_tasks import Jobs
from in_threads import play_in_threads
from living_groups import World, world_of
from oracle import bandwidth as oracle
from oracle.scribe_living.cases import random_world
from world_states import Played, flooders

from scribe_spark.bandwidth.rounds import RoundLinks
from scribe_spark.bandwidth.setting import INTERLEAVED, SERIAL, Parts
from scribe_spark.config import RunConfig
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.measures.multicasts import MulticastMeasures
from scribe_spark.rounds.system import DELIVERED, SystemOnBuckets
from scribe_spark.systems.baselines import LiveIpMulticast
from scribe_spark.systems.flooding.flood import LiveFlooding
from scribe_spark.systems.gossipsub import round as gossipsub_round
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import CONNECTIONS, MESH
from scribe_spark.systems.gossipsub.publication import FANOUT
from scribe_spark.systems.gossipsub.round import live_gossipsub
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.systems.scribe.sources import SentPublications
from scribe_spark.topology.graph import NO_HOSTS
from scribe_spark.worlds.live_systems import SystemsInRound

ROUNDS, LAN_US = 4, 1_000
SYSTEMS = ("scribe", "gossipsub", "sparse", "bayeux", "flooding", "can", "naive_unicast")


def links_of(size: int, **given) -> RoundLinks:
    """Sizes, rates and times; without limits where nothing is given."""
    usual = {"up": 0, "down": 0, "validation_us": 0, "uplink": INTERLEAVED, "shared": True}
    classes = NodeClasses.of(RunConfig())
    of_all = {"control": 64, "idontwant": 1, "lan_us": LAN_US, "seed": 1}
    return RoundLinks(size=size, classes=classes, hosts=NO_HOSTS, **of_all, **usual | given)


SLOW = {"size": 128_000, "up": 50_000_000, "down": 30_000_000, "validation_us": 700}


def case_of(seed: int, source: str = "routed", delivery: str = "best-effort") -> World:
    """A world before round 0."""
    case = random_world(seed, most=30, rounds=ROUNDS)
    case = replace(case, buffer=16 if delivery == "reliable" else None)
    return world_of(replace(case, settings=replace(case.settings, source=source)))


def begin(
    seed: int, links: RoundLinks | None, source: str = "routed", delivery: str = "best-effort",
    buckets: int = 1, loses: bool = False, **given,
) -> Played:  # fmt: skip
    """A world whose multicasts are measured; its network may lose copies."""
    names = ("bytes", "delay", "node_stress")
    measures = MulticastMeasures(names, lan_us=LAN_US, source=source, links=links)
    world = case_of(seed, source, delivery)
    if loses:
        world.with_losses()
    given = {"more": systems_of(world), **given}
    return Played(world, buckets, measures=measures, **given)


SPARSE = {"d": 3, "d_low": 2, "d_high": 4, "d_out": 1, "dials": 3}


def systems_of(world: World) -> dict[str, SystemOnBuckets]:
    """All systems; the meshes of GossipSub are sparse, and its sources do not flood."""
    sparse = live_gossipsub(GossipSubConfig(**SPARSE, flood_publish=False))
    return {**flooders(world), "sparse": sparse}


def without_bytes(measures: dict[str, float]) -> dict[str, float]:
    """The measures that rounds without sizes have, too."""
    return {name: value for name, value in measures.items() if "bytes." not in name}


#: Where multicasts begin, how they are delivered, the seed of the world, and if it loses copies.
SIZED = [
    ("root", "best-effort", 3, False),
    ("direct", "best-effort", 5, True),
    ("routed", "reliable", 5, True),
]


@pytest.mark.parametrize(
    ("source", "delivery", "seed", "loses"),
    [
        *SIZED,
        *(
            pytest.param(source, delivery, *of, marks=pytest.mark.slow)
            for source in ("root", "routed", "direct")
            for delivery in ("best-effort", "reliable")
            for of in ((3, False), (5, True))
            if (source, delivery, *of) not in SIZED
        ),
    ],
)
def test_a_size_without_limits_changes_no_round(
    source: str, delivery: str, seed: int, loses: bool
) -> None:
    usual, sized = (
        begin(seed, links, source, delivery, loses=loses).play(saves=False)
        for links in (None, links_of(128_000))
    )
    assert usual == [(without_bytes(measures), *rest) for measures, *rest in sized]
    for system in (*SYSTEMS, "ip_multicast"):
        assert any(f"{system}.latency.p50" in measures for measures, *_ in usual), system


@pytest.mark.parametrize("loses", [False, True])
def test_rounds_with_bandwidth_are_alike_on_all_engines_and_buckets(loses: bool) -> None:
    links = links_of(**SLOW)

    def play(exchange=None, **given) -> list:
        return begin(5, links, exchange=exchange, loses=loses, **given).play(saves=False, rounds=2)

    one, usual = play(), begin(5, None, loses=loses).play(saves=False, rounds=2)
    for system in SYSTEMS:
        name = f"{system}.latency.p99"
        assert any(a[0].get(name) != b[0].get(name) for a, b in zip(one, usual, strict=True)), name
    if loses:
        assert play(buckets=2, engine=Jobs) == one
    else:
        assert play(buckets=7) == one
        first, other = play_in_threads(2, lambda exchange: play(exchange, buckets=2))
        assert first == other == one


@pytest.mark.parametrize(
    ("uplink", "shared", "source"),
    [
        (INTERLEAVED, True, "root"),
        (SERIAL, False, "routed"),
        pytest.param(INTERLEAVED, False, "routed", marks=pytest.mark.slow),
        pytest.param(SERIAL, True, "root", marks=pytest.mark.slow),
    ],
)
def test_deliveries_of_rounds_are_those_of_an_event_queue(
    uplink: str, shared: bool, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = lost = 0
    accepted: list[SentPublications] = []
    begun = LiveScribe._begun
    monkeypatch.setattr(
        LiveScribe, "_begun", lambda self, sent, to: accepted.append(sent) or begun(self, sent, to)
    )
    for seed in range(4):
        played = begin(seed, links_of(**SLOW, uplink=uplink, shared=shared), source, more={})
        for number in range(ROUNDS):
            played.step(number)
            names = [f"scribe/{name}" for name in (DELIVERIES, PAYLOADS)]
            got, copies = map(played.engine.gather(*names).get, names)
            if got is None:
                continue
            of_scribe = accepted[-1], copies, uplink, shared, source == "root"
            expected = _by_event_queue(played, *of_scribe)
            names = ("group", "publication", "node", "hops", "delay_us")
            rows = zip(*(got[name].tolist() for name in names), strict=True)
            found = {row[:3]: row[3:] for row in rows}
            assert found == {key: expected[key] for key in found}
            compared += len(found)
            lost += copies is not None and int(
                (~played.state.player.lives.alive[copies["to"]]).sum()
            )
    assert compared > 100
    assert lost  # copies to dead nodes, which take the uplink


class Queue:
    """The oracle's network: places, which have names and are at nodes, and links between them."""

    def __init__(self, played: Played) -> None:
        self.kernel, self.router = played.world.pastry.kernel, played.known.router
        self.places: dict[tuple, int] = {}
        self.links: dict[tuple[int, int], oracle.Link] = {}

    def place(self, *name: int) -> int:
        """The place of a name, whose last part is its node."""
        return self.places.setdefault(name, len(self.places))

    def link(self, one: tuple, other: tuple, delay_us: int | None = None, *mesh: bool) -> None:
        """Link two places, unless they are linked, by default with the delay between nodes."""
        if delay_us is None:
            ends = np.array([self.router[one[-1]]]), np.array([self.router[other[-1]]])
            delay_us = int(self.kernel.delays(*ends)[0]) + 2 * LAN_US
        ends = self.place(*one), self.place(*other)
        self.links.setdefault(ends, oracle.Link(*ends, delay_us, *mesh))

    def play(self, published: list[oracle.Publication], rules: oracle.Rules) -> dict:
        """(publication, place) -> the first copy there."""
        node = oracle.Node(0, SLOW["up"], SLOW["down"], SLOW["validation_us"])
        nodes = {one: replace(node, ident=one) for one in range(len(self.router))}
        places = {number: name[-1] for name, number in self.places.items()}
        network = oracle.Network(nodes, places, [*self.links.values()])
        return oracle.play(network, published, rules).first


def _by_event_queue(
    played: Played, sent: SentPublications, copies, uplink: str, shared: bool, from_root: bool
) -> dict[tuple[int, int, int], tuple[int, int]]:
    """(group, publication, node) -> hops and delay of the first copy, from the root."""
    queue, published, way = Queue(played), [], []
    names = list(zip(sent.group.tolist(), sent.publication.tolist(), strict=True))
    children = defaultdict(list)
    if copies is not None:
        columns = (copies[name].tolist() for name in ("group", "publication", "sender", "to"))
        for group, publication, sender, to in zip(*columns, strict=True):
            children[group, publication].append((sender, to))
    for row, name in enumerate(names):
        source, root = int(sent.source[row]), int(sent.root[row])
        delay_us = int(sent.delay_us[row])
        relayed = source != root and not from_root
        start = (row, 1, source) if relayed else (row, 0, root)
        published.append(oracle.Publication(queue.place(*start), 0, SLOW["size"]))
        if relayed:
            queue.link(start, (row, 0, root), delay_us)
        way.append((int(relayed), delay_us if relayed else 0))
        for sender, to in sorted(children[name], key=lambda ends: ends[1]):
            queue.link((row, 0, sender), (row, 0, to))
    first = queue.play(published, oracle.Rules(uplink, shared))
    return {
        (*names[row], one): (
            first[row, number].hops - way[row][0],
            first[row, number].at_us - way[row][1],
        )
        for (row, is_way, one), number in queue.places.items()
        if not is_way and (row, number) in first
    }


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
    links = replace(links_of(**SLOW), classes=MIXED)
    compared, held_by = 0, Counter()
    for seed in range(4):
        played = begin(seed, links, more={"ip_multicast": LiveIpMulticast()})
        rates = links.rates(played.known.node, played.known.router)
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
        played = begin(seed, links_of(**SLOW, shared=False), more=more)
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
        for measures, *_ in begin(seed, links_of(**SLOW)).play(saves=False):
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


def test_gossipsub_in_rounds_is_an_event_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies to dead peers take the uplink; a source that does not subscribe sends to its peers."""
    links = links_of(**SLOW, uplink=INTERLEAVED)
    worlds = ((begin(seed, links, more=sparse(seed)), bool(seed % 2)) for seed in range(4))
    compared, dead, guests = compare_gossipsub(monkeypatch, worlds, Parts())
    assert compared > 100
    assert dead
    assert guests


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
