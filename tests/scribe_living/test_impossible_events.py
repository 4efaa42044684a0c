"""Events of groups that cannot be are refused before anything is played, on any buckets."""

import pytest
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.world import PARTS, differences

from scribe_spark.rounds.events import ImpossibleRound

#: A world with joins, quits, and members that the list does not permit.
CASE, ROUNDS = random_world(2), 6

DEAD = r"is not alive since round \d; let it arrive or recover before"


def of_round(number: int) -> list:
    return [event for event in CASE.events if event[0] == number]


def played(buckets: int) -> World:
    world = world_of(CASE).in_buckets(buckets)
    for number in range(ROUNDS):
        world.step(number, of_round(number))
    return world


def impossible(world: World) -> dict[str, tuple[tuple, str]]:
    """What -> an event, and why it is impossible, with a remedy."""
    scribe = world.run.scribe
    live, group = sorted(scribe.overlay.live), min(CASE.groups)
    members = [node for node in live[1:] if (one := scribe.entry(group, node)) and one.member]
    others = [
        node for node in live[1:] if node not in members and (group, node) not in scribe.strangers
    ]
    dead = next(node for node in range(CASE.count) if node not in live)
    return {
        "join of a member": ((members[0], "join"), "is a member; let it quit before"),
        "quit of another": ((others[0], "quit"), "is no member; let it join before"),
        "join of the dead": ((dead, "join"), DEAD),
        "publication of the dead": ((dead, "publish"), DEAD),
        "create of one that fails": (
            (live[0], "create"),
            f"is not alive since its fail in round {ROUNDS}; let it arrive or recover before",
        ),
    }


def test_the_world_stays_as_it_was() -> None:
    world, number = played(2), ROUNDS
    live = sorted(world.run.scribe.overlay.live)
    group, possible = min(CASE.groups), (number, live[0], "fail")
    before = all_arrays(world)
    for (node, kind), said in impossible(world).values():
        row = rf"row round={number}, node={node}, event='{kind}', group={group} is impossible"
        with pytest.raises(ImpossibleRound, match=rf"^round {number}: {row}: the node {said}$"):
            world.play(number, [possible, (number, node, kind, group)])
        assert all_arrays(world) == before
    ours, theirs = world.step(number, of_round(number))
    assert differences(ours, theirs, PARTS) == []


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("join", "join"), "has the event join twice; keep one"),
        (("join", "quit"), "has two events, join and quit; only one is possible in a round"),
    ],
)
def test_two_events_of_a_node_in_a_group(kinds: tuple[str, str], said: str) -> None:
    world, group = played(2), min(CASE.groups)
    (node, _), _ = impossible(world)["quit of another"]
    with pytest.raises(ImpossibleRound, match=rf"node={node}, group={group} {said}"):
        world.play(ROUNDS, [(ROUNDS, node, kind, group) for kind in kinds])


def all_arrays(world: World) -> dict[str, bytes]:
    """All that nodes know, and who is alive."""
    overlay = world.overlay
    arrays = {name: getattr(overlay, name) for name in ("alive", "died", "wait", "entered")}
    arrays |= {"leaves": overlay.states.leaves, "cells": overlay.states.cells}
    for bucket, tables in enumerate(world.buckets.tables):
        for name in tables:
            arrays |= {f"{bucket} {name} {of}": one for of, one in tables[name].items()}
    return {name: array.tobytes() for name, array in arrays.items()}
