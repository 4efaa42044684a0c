"""GossipSub in worlds beside its oracle: state, messages, first copies, what became of all."""

import random
from collections import Counter
from dataclasses import replace

import keyed
import numpy as np
import pytest
from arriving import Kernel
from coverage_questions import asked_of, questions_of
from living_buckets import ring_of
from oracle.coverage import coverage_measures
from oracle.gossipsub.cases import LiveCase, random_live
from oracle.gossipsub.world import Snapshot, World, publications
from oracle.multicast_measures import delay_measures, duplicates, latencies, node_stress
from periods import SystemWorld
from withholding import Named

from scribe_spark.measures.multicasts import multicast_units
from scribe_spark.rounds.events import Lives
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.system import OwnRounds, SystemPlayer
from scribe_spark.schemas import PUBLICATION_COUNTS
from scribe_spark.systems.gossipsub import publication
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.gossip import Gossip
from scribe_spark.systems.gossipsub.round import LiveGossipSub, live_gossipsub

from .played import config_of

SEEDS = range(200)

#: Worlds with several heartbeats in a round, and losses: by the clock of time, and by that of hops.
BY_TIME, BY_HOPS = 0, 16


def check(
    seed: int,
    buckets: int = 1,
    blind: bool = False,
    cuts: tuple = (),
    measured: bool = True,
    graph: bool = False,
    questions: str = "",
) -> Counter:
    """Play a world, and compare every round; return the measures of multicasts that rounds had.

    Blind: the tables of a bucket can be read only while the bucket is played.  The state is cut
    into `cuts` buckets between rounds, one number after the other.  Measured multicasts change
    nothing else.
    """
    case = random_live(seed)
    if graph:
        settings = replace(case.settings, discovery="graph", dials_per_heartbeat=0)
        case = replace(case, settings=settings)

    def draw(purpose, *numbers):
        return keyed.bits(case.seed, purpose, *numbers) % 2**64

    if seed % 4 == 1:
        silent = random.Random(f"withheld {seed}").sample(range(case.count), case.count // 4)
        kind = {"withholds_announcements": seed % 8 == 1}
        settings = replace(case.settings, withholds=frozenset(silent), **kind)
        case = replace(case, settings=settings)
    oracle, ring, settings = case.begin(draw), ring_of(case.idents), case.settings
    size, numbers = case.count, np.array(sorted(case.keys), dtype=np.int64)
    at = {int(node): place for place, node in enumerate(ring.node)}
    plane = case.delay()
    between = np.array([[plane(a, b) for b in ring.node] for a in ring.node]) - 2000
    silent = Named.of(settings.withholds, settings.withholds_announcements)
    kernel = replace(Kernel(between, np.arange(size)), withheld=silent)
    system = LiveGossipSub(config_of(settings).filled(), settings.clock)
    own = OwnRounds(case.round_us, settings.heartbeat_us)
    asks = {"by_hops": settings.clock == "hops"}
    if questions:
        asks["asked"] = asked_of(size, kernel, 1000, questions == "plain")
    network = Network(ring, kernel, 1000, case.seed)
    given = system, network, numbers, buckets, own, case.rounds, blind, cuts
    world, outcomes, seen = SystemWorld(*given, **asks), Counter(), Counter()
    world.lives = Lives.of(size, np.array([at[node] for node in range(case.present)]))
    world.detection, world.deadline = settings.detection, settings.deadline
    for number in range(case.rounds):
        today = [event for event in case.events if event[0] == number]

        def nodes(kind, today=today):
            return [at[e[1]] for e in today if e[2] == kind]

        def pairs(kind, today=today):
            return [(int(np.searchsorted(numbers, e[3])), at[e[1]]) for e in today if e[2] == kind]

        result, sent, copies = world.play(
            *map(pairs, ("join", "quit", "publish")),
            *map(nodes, ("fail", "leave", "recover", "arrive")),
            measures=("delay", "node_stress") if measured else (),
        )
        wanted = oracle.step(number, case.events)
        compare(wanted, world.tables, sent, ring, numbers, number, oracle.dials)
        if measured:
            told, carried = multicasts(case, oracle, wanted, questions)
            assert world.multicasts == pytest.approx(told, rel=1e-8), number
            places = ((int(numbers[g]), *map(int, ring.node[list(ends)])) for g, *ends in copies)
            assert Counter(dict(zip(places, copies.values(), strict=True))) == carried, number
            seen.update(told)
        by_iwant = sum(one.by_iwant for heartbeat in wanted for one in heartbeat.values())
        assert result.counts == {"by_iwant": by_iwant}
        node = ring.node
        account = result.publications.by_group(numbers, number - case.settings.deadline)
        for r, g, *counts in zip(*(c.tolist() for c in account.values()), strict=True):
            assert (r, g) not in outcomes
            outcomes[r, g] = counts
        assert node is ring.node
    assert outcomes == accounts(oracle, case)
    return seen


def accounts(oracle: World, case: LiveCase) -> dict[tuple[int, int], list[int]]:
    """Return (round, topic) -> the sums over its publications, as in the table publications."""
    told: dict[tuple[int, int], Counter] = {}
    for topic, snapshots in oracle.seen.items():
        for one in publications(oracle.topics[topic], snapshots):
            counts = {name: getattr(one, name, 0) for name in PUBLICATION_COUNTS}
            if one.round + case.settings.deadline <= snapshots[-1].round:
                counts["due"] = one.expected
            told.setdefault((one.round, topic), Counter()).update(counts)
    return {at: [sums[name] for name in PUBLICATION_COUNTS] for at, sums in told.items()}


def multicasts(
    case: LiveCase, oracle: World, wanted: list[dict[int, Snapshot]], questions: str = ""
) -> tuple[dict[str, float], Counter]:
    """Return delay and node stress of a round's multicasts, and their copies.

    A multicast is the publication of the group whose source has the least nodeId.
    """
    settings, plane = case.settings, case.delay()
    names = {
        group: min(snapshot.published, key=lambda name: case.idents[name[2]])
        for group, snapshot in wanted[0].items()
        if snapshot.published
    }
    members = {group: snapshot.members for group, snapshot in wanted[-1].items()}
    reached: dict = {group: {} for group in names}
    carried: Counter = Counter()
    came: list[tuple[int, int]] = []
    for group, name in names.items():
        ways = {name[2]: 0}  # by the clock of hops
        for beat, snapshots in enumerate(wanted):
            first = {
                node: had for (of, node), had in snapshots[group].deliveries.items() if of == name
            }
            for node, (hops, at, sender) in sorted(first.items(), key=lambda one: one[1][0]):
                waits = settings.processing_us if sender != name[2] else 0
                ways[node] = ways[sender] + waits + plane(sender, node)
                by_time = settings.clock == "time"
                spent = at + beat * settings.heartbeat_us if by_time else ways[node]
                if node in members[group]:
                    reached[group][node] = hops, spent
            copies = [copy for of, copy in snapshots[group].copies if of == name]
            carried.update((group, copy.sender, copy.receiver) for copy in copies)
            came += [(group, copy.receiver) for copy in copies if not copy.lost]
    starts = {group: name[2] for group, name in names.items()}
    found = delay_measures(starts, members, reached, plane)
    if questions:
        found |= coverage_measures(
            starts, members, reached, questions_of(case.count, plane, questions == "plain")
        )
    found |= node_stress(((group, sender) for group, sender, _ in carried.elements()), oracle.live)
    found |= duplicates(came, starts, oracle.live)
    if settings.clock == "hops":
        found |= latencies(starts, members, reached, "hops")
    return found, carried


def compare(wanted, tables, sent, ring, numbers, number, dials) -> None:
    """Compare the state after a round, and the messages of all of its heartbeats."""
    after, size, node = wanted[-1], len(ring), ring.node

    def rows(name, *more):
        place, peer = np.divmod(tables[name]["key"], size)
        topic, own = np.divmod(place, size)
        columns = (numbers[topic], node[own], node[peer], *(tables[name][one] for one in more))
        return set(zip(*(c.tolist() for c in columns), strict=True))

    def all_of(what):
        return {(group, *row) for group, seen in after.items() for row in what(seen)}

    members = np.divmod(tables["members"]["key"], size)
    mine = set(zip(numbers[members[0]].tolist(), node[members[1]].tolist(), strict=True))
    assert mine == {(g, x) for g, seen in after.items() for x in seen.members}
    found = {(g, x, y, bool(way & 1)) for g, x, y, way in rows("connections", "way")}
    assert found == all_of(lambda seen: seen.connections), number
    to_dial = rows("to dial") if "to dial" in tables else set()
    assert to_dial == all_of(lambda seen: seen.to_dial), number
    assert rows("mesh") == all_of(lambda seen: seen.mesh), number
    assert rows("back-off", "until") == all_of(lambda seen: seen.backoffs), number
    all_seen = [seen for heartbeat in wanted for seen in heartbeat.values()]
    assert sent.messages == sum((seen.messages for seen in all_seen), dials), number
    assert sent.lost == sum((seen.lost for seen in all_seen), Counter()), number


@pytest.mark.parametrize("seed", [*range(40, 200, 40), 5, 9])
def test_worlds_equal_the_oracle(seed):
    """Some of the worlds; in the last two, nodes withhold copies, or announcements, too."""
    check(seed, (1, 2, 7)[seed // 20 % 3], measured=seed != 80)


@pytest.mark.parametrize("seed", [20, 80])
def test_coverage_of_worlds_equals_the_oracle(seed):
    seen = check(seed, (1, 2, 7)[seed // 20 % 3], questions="weights")
    assert {"within_300ms.weight.min", "quorum.never", "replies.never"} <= seen.keys()
    seen = check(seed, 2, questions="plain")
    assert {"within_300ms.min", "quorum.never"} <= seen.keys()


@pytest.mark.parametrize("seed", [10, 50])
def test_worlds_with_one_graph_for_all_topics_equal_the_oracle(seed):
    cuts = (2, 7, 1) if seed % 60 == 10 else ()
    check(seed, (1, 2, 7)[seed // 20 % 3], blind=not cuts, cuts=cuts, graph=True)


def test_multicasts_have_every_measure():
    """Of worlds with deliveries by IWANT in later heartbeats of a round."""
    units = multicast_units("gossipsub", by_hops=True)
    seen = {*check(BY_TIME, 2, blind=True), *check(BY_HOPS, 7)}
    others = ("link_stress", "messages", "parts")
    wanted = {name for name in units if name.split(".")[1] not in others}
    assert {f"gossipsub.{name}" for name in seen} == wanted


@pytest.mark.parametrize(("seed", "buckets"), [(11, 1), (20, 2)])
def test_copies_that_wait_are_offered_later(seed, buckets, monkeypatch):
    """The earlier half is offered first, however few there are."""
    monkeypatch.setattr(publication, "_OFFERED_AT_ONCE", 1)
    check(seed, buckets, blind=True)


@pytest.mark.parametrize(("seed", "buckets"), [(7, 2), (96, 7)])
def test_nodes_read_nothing_of_other_buckets(seed, buckets):
    check(seed, buckets, blind=True)


@pytest.mark.parametrize("seed", [31, 12])  # in the second, dials are spread over heartbeats
def test_a_world_goes_on_in_other_buckets(seed):
    """The rows that a system keeps are cut by their nodes."""
    check(seed, cuts=(2, 7, 1, 3))


@pytest.mark.parametrize(("loss", "is_sent"), [(0.0, False), (0.8, True)])
def test_ihaves_are_sent_only_to_nodes_that_lack_a_publication(loss, is_sent, monkeypatch):
    """All are counted; without a loss nobody lacks anything, and no superstep sends one."""
    size, programs, play = 40, Counter(), SystemPlayer.play

    def count(player, program, first=None):
        messages = play(player, program, first)
        programs[type(program)] += messages
        return messages

    monkeypatch.setattr(SystemPlayer, "play", count)
    system, ring = live_gossipsub(GossipSubConfig(loss=loss)), ring_of({n: n for n in range(size)})
    kernel = Kernel(np.full((size, size), 5000), np.arange(size))
    own = OwnRounds(4_000_000, 1_000_000)
    world = SystemWorld(system, Network(ring, kernel, 1000, 1), [0], 2, own, 1)
    _, sent, _ = world.play([(0, node) for node in range(size)], publish=[(0, 0)])
    assert Counter(kind for *_, kind in sent.messages.elements())["IHAVE"] > 3 * size
    assert (programs[Gossip] > 0) == is_sent


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_all_worlds_equal_the_oracle(seed):
    """All worlds, however many buckets there are."""
    check(seed, (1, 2, 7)[seed % 3], blind=seed % 2 > 0)
