"""Bayeux in runs and alive: cases worked by hand."""

from collections import Counter

from ..living import overlay as living
from ..living.draws import keyed_draw
from ..living.measures import enter_perfect
from ..living.world import step
from ..pastry import Overlay
from ..publications import PublicationResult
from .session import (
    PASTRY,
    SURROGATE,
    Options,
    Session,
    publish,
    root_of,
    roots,
    surrogate_hop,
)
from .world import Bayeux, Settings, publications

#: b = 2: nodeIds that begin with the digits 00, 01, 12, 13, 30, 32; distances grow with numbers.
FIRST = {1: 0b0000, 2: 0b0001, 3: 0b0110, 4: 0b0111, 5: 0b1100, 6: 0b1110}


def small() -> Overlay:
    """Six nodes, node i on router i, |i - j| ms apart."""
    ids = {node: bits << 124 for node, bits in FIRST.items()}
    delay = {a: {b: 1000 * abs(a - b) for b in ids} for a in ids}
    return Overlay(ids, {node: node for node in ids}, delay, b=2, leaf_set_size=2)


def test_the_surrogate_root_has_the_next_digit_upwards_row_by_row() -> None:
    """20...: no digit 2, so 3; of 30 and 32 the 0 fits. 03...: of 00 and 01 the 3 goes on to 0."""
    overlay = small()
    assert root_of(overlay, 0b1000 << 124, SURROGATE) == 5
    assert root_of(overlay, 0b0011 << 124, SURROGATE) == 1
    assert root_of(overlay, 0b0011 << 124, PASTRY) == 2
    assert surrogate_hop(overlay, 1, 0b1000 << 124) == 5
    assert surrogate_hop(overlay, 6, 0b1000 << 124) == 5
    assert surrogate_hop(overlay, 5, 0b1000 << 124) is None


def test_of_partitions_with_one_root_the_first_exists() -> None:
    """The keys begin with 31, 01, 11, 21; the last has the root of the first, 32."""
    assert roots(small(), 0b1101 << 124, 4, SURROGATE) == {0: 6, 1: 2, 2: 3}


def test_lists_of_a_session_by_hand() -> None:
    """Root 1 (00). It knows 2 (01), 3 of the 1s and 5 of the 3s; 4 is behind 3, 6 behind 5."""
    session = Session(small(), 0, Options())
    for member in (1, 2, 4, 6):
        session.join(member)
    assert session.roots == {0: 1}
    assert session.lists == {(0, 1): {2: 2, 4: 3, 6: 5}, (0, 3): {4: 4}, (0, 5): {6: 6}}
    assert session.state() == {1: 3, 3: 1, 5: 1}
    joins = [(2, 1), (4, 2), (2, 1), (6, 1)]
    trees = [(1, 2), (1, 3), (3, 4), (1, 5), (5, 6)]
    sent = [(*ends, "JOIN") for ends in joins] + [(*ends, "TREE") for ends in trees]
    assert session.messages == Counter(sent)
    published = publish(session, 1)
    assert published.deliveries == {2: (1, 3000, 1), 4: (2, 7000, 3), 6: (2, 9000, 5)}
    assert published.duplicates == 0
    assert {(c.sender, c.receiver, c.hop, c.sent) for c in published.copies} == {
        (1, 2, 1, 0),
        (1, 3, 1, 0),
        (1, 5, 1, 0),
        (3, 4, 2, 4000),
        (5, 6, 2, 6000),
    }


def test_a_publication_of_another_node_comes_to_the_root_first() -> None:
    session = Session(small(), 0, Options())
    for member in (1, 2, 4):
        session.join(member)
    assert publish(session, 4, "direct").deliveries == {1: (1, 5000, 4), 2: (2, 8000, 1)}
    assert publish(session, 4, "routed").deliveries == {1: (2, 7000, 4), 2: (3, 10000, 1)}


def test_members_join_the_nearest_partition_and_each_gets_its_copy_from_the_first_root() -> None:
    session = Session(small(), 0, Options(partitions=2))
    assert session.roots == {0: 1, 1: 4}
    for member in range(1, 7):
        session.join(member)
    assert session.joined == {1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 1}
    published = publish(session, 1)
    assert published.deliveries[4] == (1, 5000, 1)
    assert published.deliveries[3] == (2, 8000, 4)


# --- worlds ---------------------------------------------------------------------------------------


def small_world(settings: Settings) -> Bayeux:
    """The six nodes of the static example: 1 (00), 2 (01), 3 (12), 4 (13), 5 (30), 6 (32)."""
    idents = {node: bits << 124 for node, bits in FIRST.items()}

    def delay(a: int, b: int) -> int:
        return 0 if a == b else 1000 * abs(a - b) + 2000

    overlay = living.Overlay(
        idents, delay, keyed_draw(1), living.Rules(b=2, l=2, table_repair="none")
    )
    enter_perfect(overlay, FIRST)
    return Bayeux(overlay, {7: 0}, settings)


def play(run: Bayeux, now: int, *events: tuple) -> object:
    """Play a round; an event is (node, kind), those of the group have no more."""
    of_nodes = [(now, node, kind) for node, kind in events if kind in ("fail", "recover")]
    of_group = [(now, node, kind, 7) for node, kind in events if kind not in ("fail", "recover")]
    step(run.overlay, now, of_nodes)
    return run.step(now, of_nodes + of_group)


def test_lists_copies_and_leaves_by_hand() -> None:
    run = small_world(Settings())
    seen = play(run, 0, (1, "join"), (2, "join"), (4, "join"), (6, "join"), (1, "publish"))
    assert seen.sessions == {(7, 1, False)}
    assert seen.lists == {
        (7, 1, 2, 2, 0, 0),
        (7, 1, 4, 3, 0, 0),
        (7, 3, 4, 4, 0, 0),
        (7, 1, 6, 5, 0, 0),
        (7, 5, 6, 6, 0, 0),
    }
    assert seen.had == {(0, 7, 1): {1, 2, 3, 4, 5, 6}}
    kinds = Counter({k: n for (_, _, k), n in seen.messages.items()})
    assert (kinds["payload"], seen.messages.total()) == (1, 5 + 5 + 4)
    seen = play(run, 1, (4, "quit"))
    assert seen.messages == {
        (4, 2, "LEAVE"): 1,
        (2, 1, "LEAVE"): 1,
        (1, 3, "PRUNE"): 1,
        (3, 4, "PRUNE"): 1,
    }
    assert {row[2] for row in seen.lists} == {2, 6}


def test_a_sender_finds_another_way_around_a_dead_next_hop() -> None:
    """3 fails: the copy to it is lost; the root's TREE to 4 goes by 5, and brings it."""
    run = small_world(Settings())
    play(run, 0, (1, "join"), (2, "join"), (4, "join"), (6, "join"))
    seen = play(run, 1, (3, "fail"), (1, "publish"))
    assert seen.lost[1, 3, "payload"] == 1
    assert seen.lost[1, 3, "TREE"] >= 1
    assert seen.had == {(1, 7, 1): {1, 2, 4, 5, 6}}
    assert {row[3:] for row in seen.lists if row[1:3] == (1, 4)} == {(5, 0, 1)}
    assert {row[3:] for row in seen.lists if row[1:3] == (5, 4)} == {(4, 0, 1)}
    assert publications(run) == [PublicationResult((1, 7, 1), 4, 4, 0, 0, 0, 4, 0, 1)]


def test_a_member_that_fails_is_taken_out_by_who_sends_to_it() -> None:
    """4's copy is lost at 3, which drops it and tells the root; that drops it, and prunes 3."""
    run = small_world(Settings())
    play(run, 0, (2, "join"), (4, "join"))
    seen = play(run, 1, (4, "fail"), (2, "publish"))
    assert seen.lost == {(3, 4, "payload"): 1}
    assert {row[:4] for row in seen.lists} == {(7, 1, 2, 2)}
    assert seen.messages[1, 3, "PRUNE"] == 1
    assert (3, 4, "PRUNE") not in seen.messages
    assert sum(n for (*_, kind), n in seen.messages.items() if kind == "LEAVE") >= 1


def test_a_session_is_lost_with_its_root_and_created_again() -> None:
    run = small_world(Settings(recreate=2))
    play(run, 0, (2, "join"), (4, "join"))
    seen = play(run, 3, (1, "fail"), (2, "publish"))
    assert (seen.sessions, seen.had) == ({(7, 1, True)}, {(3, 7, 2): set()})
    seen = play(run, 4, (1, "recover"), (2, "publish"))
    assert (seen.sessions, seen.had) == ({(7, 1, True)}, {(4, 7, 2): set()})
    seen = play(run, 5, (2, "publish"))
    assert seen.sessions == {(7, 1, False)}
    assert {row[4] for row in seen.lists} == {5}
    assert seen.had[5, 7, 2] >= {1, 2, 4}
