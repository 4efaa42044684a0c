"""GossipSub in runs and alive: worlds worked by hand, and what holds of every topic and world.

Heartbeats worked by hand are in tests/gossipsub/test_by_hand.py, copies that are held back in
tests/bandwidth/test_kernel.py, for the oracle and the kernels.
"""

from collections import Counter
from dataclasses import replace

import pytest
from keyed import draw_of
from seeds import seeds

from ..publications import PublicationResult
from .cases import random_gossip, random_live
from .run import play
from .topic import Draw, Settings
from .world import LiveTopic, Snapshot, World, publications

IDS = {node: node for node in range(30)}


# --- What holds of every topic ------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(range(200), 4))
def test_meshes_are_symmetric_and_everybody_who_can_is_reached(seed: int) -> None:
    drawn = random_gossip(seed)
    settings, draw = drawn.settings, draw_of(seed)
    graph = drawn.graph(draw)
    for group in drawn.case.keys:
        played = drawn.play(group, draw, graph)
        topic, publication = played.topic, played.publication
        for mesh in (snapshot.mesh for snapshot in played.seen):
            assert mesh == {(y, x) for x, y in mesh}
        assert all(y in topic.peers(x) for x, y in topic.mesh_links())
        if settings.loss == 0 and not drawn.dead:
            reached = component(topic.mesh, drawn.sources[group])
            if settings.flood_publish:
                for peer in topic.peers(drawn.sources[group]):
                    reached |= component(topic.mesh, peer)
            eager = {x for x, had in publication.had.items() if had.heartbeat == 0}
            assert eager == reached
            if reached == topic.joined:
                assert played.lazy_heartbeats == 0
        assert not publication.had.keys() & drawn.dead
        counts = Counter((c.sender, c.receiver, c.heartbeat) for c in publication.copies)
        assert set(counts.values()) <= {1}


def component(mesh: dict[int, set[int]], start: int) -> set[int]:
    """Who is reached over mesh links."""
    found, edge = {start}, [start]
    while edge:
        new = mesh.get(edge.pop(), set()) - found
        found |= new
        edge += new
    return found


def test_dials_are_spread_over_heartbeats() -> None:
    """Of 12 that each of 30 nodes draws, 5 are dialled before each of three heartbeats."""
    drawn = play(1, range(30), 0, replace(Settings(), dials=12), draw_of(1), IDS, lambda a, b: 10)
    for heartbeats in (0, 1, 2, 3, 4):
        settings = Settings(dials=12, dials_per_heartbeat=5, heartbeats=heartbeats)
        played = play(1, range(30), 0, settings, draw_of(1), IDS, lambda a, b: 10)
        topic, sent = played.topic, played.joining_messages()
        by_node = Counter(sender for sender, _, kind in sent if kind == "dial")
        assert max(by_node.values()) == min(5 * max(heartbeats, 1), 12)
        ends = {frozenset(link[:2]) for link in topic.connections()}
        wanted = {frozenset(link[:2]) for link in drawn.topic.connections()}
        assert ends <= wanted
        assert (ends == wanted) == (heartbeats >= 3)


# --- worlds ---------------------------------------------------------------------------------------


TEN = {node: node for node in range(10)}
CALM = Settings(d=2, d_low=1, d_high=3, d_out=0, dials=3, d_lazy=9, detection=2, idontwant=False)


def world(settings: Settings = CALM, draw: Draw | None = None, round_us: int = 1_000_000) -> World:
    """One topic, ten nodes alive, 10 us from each other; equal draws; a heartbeat is a second."""
    topic = LiveTopic(1, settings, draw or (lambda *_: 0), TEN, lambda a, b: 10)
    return World({1: topic}, set(TEN), round_us, settings.heartbeat_us)


def step(run: World, number: int, events: list[tuple]) -> Snapshot:
    """Play a round of the one topic; what the last of its heartbeats has left."""
    return run.step(number, events)[-1][1]


def joins(*nodes: int, at: int = 0) -> list[tuple]:
    """Events."""
    return [(at, node, "join", 1) for node in nodes]


def test_members_join_publish_and_quit() -> None:
    """Three members dial each other: all are connected both ways, and in each other's mesh."""
    run = world()
    seen = step(run, 0, [*joins(0, 1, 2), (0, 0, "publish", 1)])
    everybody = {(a, b) for a in range(3) for b in range(3) if a != b}
    assert seen.connections == {(a, b, True) for a, b in everybody}
    assert seen.mesh == everybody
    assert {node: got[:2] for (_, node), got in seen.deliveries.items()} == {1: (1, 10), 2: (1, 10)}
    assert seen.messages[0, 1, "payload"] == seen.messages[1, 0, "dial"] == 1
    assert seen.duplicates == {(0, 1, 0): 2}  # 1 and 2 send it to each other
    seen = step(run, 1, [(1, 2, "quit", 1)])
    assert seen.connections == {(0, 1, True), (1, 0, True)}
    assert seen.backoffs == {(a, b, 11) for a, b in ((2, 0), (2, 1), (0, 2), (1, 2))}
    assert {kind for _, _, kind in seen.messages} == {"PRUNE", "unsubscribe"}
    seen = step(run, 2, joins(2, at=2))
    assert (2, 0, True) in seen.connections
    assert seen.mesh == {(0, 1), (1, 0)}  # 2 is in back-off
    seen = [step(run, now, []) for now in range(3, 12)]
    assert seen[7].mesh == {(0, 1), (1, 0)}
    assert (2, 0) in seen[8].mesh  # round 11


def test_one_that_leaves_says_so_and_one_that_fails_is_found_after_detection() -> None:
    run = world()
    run.step(0, joins(0, 1, 2, 3))
    seen = step(run, 1, [(1, 3, "leave"), (1, 2, "fail")])
    assert seen.members == {0, 1}
    assert seen.connections == {(0, 1, True), (1, 0, True), (0, 2, True), (1, 2, True)}
    assert seen.messages == {(3, n, "goodbye"): 1 for n in range(3)}
    assert seen.lost == {(3, 2, "goodbye"): 1}
    seen = step(run, 2, [(2, 0, "publish", 1)])
    assert (0, 2) in seen.mesh
    assert seen.lost == {(0, 2, "payload"): 1, (1, 2, "payload"): 1}
    assert step(run, 3, []).connections == {(0, 1, True), (1, 0, True)}


def test_one_that_is_back_before_its_detection_is_a_new_one() -> None:
    run = world(replace(CALM, detection=9))
    run.step(0, joins(0, 1))
    run.step(1, [(1, 1, "fail")])
    seen = step(run, 2, [(2, 1, "recover")])
    assert (seen.connections, seen.mesh, seen.members) == (set(), set(), {0})


def test_who_joins_later_gets_what_the_others_still_hold() -> None:
    """A publication of round 0 is told of in rounds 1 to 3, outside of the mesh."""
    for at, got in ((3, True), (4, False)):
        run = world(replace(CALM, d=1, d_high=1, dials=9))
        run.step(0, [*joins(0, 1, 2), (0, 0, "publish", 1)])
        for now in range(1, at):
            run.step(now, [])
        seen = step(run, at, joins(5, at=at))
        assert (((0, 1, 0), 5) in seen.deliveries) == got
        kinds = Counter(kind for _, _, kind in seen.messages)
        assert kinds["IWANT"] == got
        if got:
            # 0 asks 20 us for IHAVE and IWANT; the answer takes 10, and is hop 1
            assert seen.deliveries[(0, 1, 0), 5] == (1, 30, 0)


def test_a_round_has_the_heartbeats_that_begin_in_it() -> None:
    """Of 1.5 s: heartbeats at 0 and 1 s, then at 2, then at 3 and 4; only the first has events."""
    run = world(replace(CALM, d=1, d_high=1, dials=9), round_us=1_500_000)
    rounds = [run.step(0, [*joins(0, 1), (0, 0, "publish", 1)])]
    rounds.append(run.step(1, joins(2, at=1)))
    rounds.append(run.step(2, [(2, 1, "fail")]))
    assert [[one[1].heartbeat for one in some] for some in rounds] == [[0, 1], [2], [3, 4]]
    assert [[len(one[1].published) for one in some] for some in rounds] == [[1, 0], [0], [0, 0]]
    assert [one[1].round for some in rounds for one in some] == [0, 0, 1, 2, 2]
    # 2 is told of it in heartbeat 2, in the round after its publication
    assert ((0, 1, 0), 2) in rounds[1][0][1].deliveries
    # a death is known two rounds after it, which is in heartbeat 6
    seen = [one[1] for number in (3, 4) for one in run.step(number, [])]
    assert {one.heartbeat: 1 in {y for _, y, _ in one.connections} for one in seen} == {
        5: True,
        6: False,
        7: False,
    }
    (result,) = publications(run.topics[1], run.seen[1])
    assert (result.round, result.expected, result.in_time) == (0, 1, 1)


@pytest.mark.parametrize(("round_us", "in_time"), [(1_000_000, 2), (2_000_000, 3)])
def test_what_comes_in_a_later_heartbeat_of_the_round_is_in_time(
    round_us: int, in_time: int
) -> None:
    """Node 0 publishes to its mesh, node 1; node 2 is outside of it and hears in heartbeat 1."""
    run = world(replace(CALM, d=1, d_high=1, dials=9, flood_publish=False), round_us=round_us)
    run.step(0, joins(0, 1, 2))
    for number in range(1, 4):
        run.step(number, [(number, 0, "publish", 1)] * (number == 3))
    run.step(4, [])
    (found,) = publications(run.topics[1], run.seen[1])
    assert (found.round, found.expected, found.in_time, found.late) == (3, 3, in_time, 3 - in_time)
    (got,) = [one for one in run.seen[1] if any(node == 2 for _, node in one.deliveries)]
    assert got.heartbeat == found.publication[0] + 1


def test_a_source_that_is_no_member_dials_some() -> None:
    """Nodes 0 to 3 are members; the sample of equal draws is 0, then 2, then 3."""
    run = world(replace(CALM, flood_publish=False, processing_ms=1))
    run.step(0, joins(0, 1, 2, 3))
    seen = step(run, 1, [(1, 7, "publish", 1)])
    assert {y for x, y, kind in seen.messages if kind == "dial"} == {0, 2, 3}
    assert {c.receiver for _, c in seen.copies if c.sender == 7} == {0, 2}
    assert all(7 not in row for row in seen.connections)
    results = publications(run.topics[1], run.seen[1])
    counts = 4, 4, 0, 0, 0, 4, results[0].duplicates
    assert results == [PublicationResult((1, 1, 7), *counts, 1)]


@pytest.mark.parametrize("seed", seeds(range(100), 2))
def test_what_holds_of_every_world(seed: int) -> None:
    case = random_live(seed)
    run = case.begin(draw_of(seed))
    for now in range(case.rounds):
        live = run.live
        for seen in (one for some in run.step(now, case.events) for one in some.values()):
            assert seen.members <= live
            assert all(x in live for x, _ in seen.mesh)
            assert all(x in seen.members and x != y for x, y, _ in seen.connections)
            among = {(x, y) for x, y in seen.mesh if y in live}
            assert among == {(y, x) for x, y in among}
            linked = {(x, y) for x, y, _ in seen.connections}
            assert seen.mesh <= linked
            alive = {(x, y) for x, y in linked if y in live}
            assert alive == {(y, x) for x, y in alive}
            assert all(y in seen.members for _, y in alive)
            if case.settings.detection == 0:
                assert linked == alive
            assert seen.lost.total() <= seen.messages.total()
            lossless = case.settings.loss == 0
            assert not lossless or all(y not in live for _, y, _ in seen.lost)
            assert all(node in live for _, node in seen.deliveries)
    for number, topic in run.topics.items():
        for one in publications(topic, run.seen[number]):
            assert one.expected == one.in_time + one.late + one.lost + one.open
        firsts = Counter(
            (name, node) for seen in run.seen[number] for name, node in seen.deliveries
        )
        died = {node for _, node, kind, *_ in case.events if kind in ("fail", "leave")}
        assert all(count == 1 or node in died for (_, node), count in firsts.items())
