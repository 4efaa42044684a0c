"""Bayeux alive: cases worked by hand, and what holds of every world."""

from __future__ import annotations

from collections import Counter

import pytest
from seeds import seeds

from ..living.draws import keyed_draw
from ..living.measures import enter_perfect
from ..living.overlay import Overlay, Rules
from ..living.world import step
from .cases import random_live
from .test_bayeux import FIRST
from .world import Bayeux, PublicationResult, Settings, publications


def small(settings: Settings) -> Bayeux:
    """The six nodes of the static example: 1 (00), 2 (01), 3 (12), 4 (13), 5 (30), 6 (32)."""
    idents = {node: bits << 124 for node, bits in FIRST.items()}

    def delay(a: int, b: int) -> int:
        return 0 if a == b else 1000 * abs(a - b) + 2000

    overlay = Overlay(idents, delay, keyed_draw(1), Rules(b=2, l=2, table_repair="none"))
    enter_perfect(overlay, FIRST)
    return Bayeux(overlay, {7: 0}, settings)


def play(run: Bayeux, now: int, *events: tuple) -> object:
    """Play a round; an event is (node, kind), those of the group have no more."""
    overlay_events = [(now, node, kind) for node, kind in events if kind in ("fail", "recover")]
    step(run.overlay, now, overlay_events)
    return run.step(
        now,
        [
            (now, node, kind) if kind in ("fail", "recover") else (now, node, kind, 7)
            for node, kind in events
        ],
    )


def test_lists_copies_and_leaves_by_hand() -> None:
    run = small(Settings())
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
    """3 fails: the copy to it is lost; the root's TREE to 4 goes by 5, and brings it.

    Without 3 the closest to 4 that 1 knows is 5 (30), which has 4 as a leaf.
    """
    run = small(Settings())
    play(run, 0, (1, "join"), (2, "join"), (4, "join"), (6, "join"))
    seen = play(run, 1, (3, "fail"), (1, "publish"))
    assert seen.lost[1, 3, "payload"] == 1
    assert seen.lost[1, 3, "TREE"] >= 1
    assert seen.had == {(1, 7, 1): {1, 2, 4, 5, 6}}
    assert {row[3:] for row in seen.lists if row[1:3] == (1, 4)} == {(5, 0, 1)}
    assert {row[3:] for row in seen.lists if row[1:3] == (5, 4)} == {(4, 0, 1)}
    assert publications(run) == [PublicationResult((1, 7, 1), 4, 4, 0, 0, 4, 0)]


def test_a_member_that_fails_is_taken_out_by_who_sends_to_it() -> None:
    """4's copy is lost at 3, which drops it and tells the root; that drops it, and prunes 3."""
    run = small(Settings())
    play(run, 0, (2, "join"), (4, "join"))
    seen = play(run, 1, (4, "fail"), (2, "publish"))
    assert seen.lost == {(3, 4, "payload"): 1}
    assert {row[:4] for row in seen.lists} == {(7, 1, 2, 2)}
    assert seen.messages[1, 3, "PRUNE"] == 1
    assert (3, 4, "PRUNE") not in seen.messages
    assert sum(n for (*_, kind), n in seen.messages.items() if kind == "LEAVE") >= 1


def test_a_session_is_lost_with_its_root_and_created_again() -> None:
    run = small(Settings(recreate=2))
    play(run, 0, (2, "join"), (4, "join"))
    seen = play(run, 3, (1, "fail"), (2, "publish"))
    assert (seen.sessions, seen.had) == ({(7, 1, True)}, {(3, 7, 2): set()})
    seen = play(run, 4, (1, "recover"), (2, "publish"))
    assert (seen.sessions, seen.had) == ({(7, 1, True)}, {(4, 7, 2): set()})
    seen = play(run, 5, (2, "publish"))
    assert seen.sessions == {(7, 1, False)}
    assert {row[4] for row in seen.lists} == {5}
    assert seen.had[5, 7, 2] >= {1, 2, 4}


@pytest.mark.parametrize("seed", seeds(range(100), 15))
def test_what_holds_of_every_world(seed: int) -> None:
    case = random_live(seed)
    run = case.begin()
    for now in range(case.rounds):
        seen = case.step(run, now)
        live = run.overlay.live
        assert all(x in live and written <= now for _, x, _, _, _, written in seen.lists)
        assert all(x != m for _, x, m, *_ in seen.lists)
        assert all(node in live for _, node, _, _ in seen.members)
        assert all(receiver in live or lost for (_, receiver, _), lost in seen.lost.items())
        dead = {key: n for key, n in seen.messages.items() if key[1] not in live}
        assert all(seen.lost[key] == n for key, n in dead.items())
        assert all(seen.lost[key] <= n for key, n in seen.messages.items())
        root_lost = {group: lost for group, _, lost in seen.sessions}
        assert not any(had and root_lost[name[1]] for name, had in seen.had.items())
    for one in publications(run):
        assert one.expected == one.in_time + one.lost + one.open


@pytest.mark.parametrize("seed", range(12))
def test_where_nobody_comes_or_goes_all_members_get_everything(seed: int) -> None:
    """The first round of a world with perfect tables or right arrivals, without its events."""
    case = random_live(seed)
    run = case.begin()
    joins = [event for event in case.events if event[0] == 0 and event[2] in ("join", "publish")]
    step(run.overlay, 0)
    seen = run.step(0, joins)
    assert not any(waits for *_, waits in seen.members)
    members = {(group, node) for group, node, *_ in seen.members}
    for (_, group, _), had in seen.had.items():
        assert {node for of, node in members if of == group} <= had


def test_the_worlds_have_what_can_happen() -> None:
    seen: Counter[str] = Counter()
    for seed in (*range(25), 38):
        case = random_live(seed)
        run = case.begin()
        for now in range(case.rounds):
            one = case.step(run, now)
            seen.update(kind for _, _, kind in one.messages)
            seen.update(f"lost {kind}" for _, _, kind in one.lost)
            seen["lost sessions"] += any(lost for *_, lost in one.sessions)
            seen["waiting"] += any(waits for *_, waits in one.members)
            seen["duplicates"] += one.duplicates.total() > 0
            seen["repaired"] += any(e[5] == now and e[4] < now for e in one.lists)
            seen["back"] += any(
                to in run.overlay.live and kind == "payload" for _, to, kind in one.lost
            )
        seen["lost publications"] += sum(result.lost > 0 for result in publications(run))
    kinds = ("JOIN", "TREE", "LEAVE", "PRUNE", "MULTICAST", "payload")
    assert all(seen[kind] > 20 for kind in kinds)
    assert all(seen[f"lost {kind}"] > 2 for kind in kinds)
    assert all(seen[one] > 5 for one in ("lost sessions", "waiting", "repaired"))
    assert seen["lost publications"] > 5
    assert seen["duplicates"] > 0
    assert seen["back"] > 0
