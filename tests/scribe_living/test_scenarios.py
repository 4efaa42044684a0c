"""Worlds of known outcome: static trees, and a cycle of parents; the kernels alone."""

import numpy as np
import pytest
import small_worlds
from oracle.living.draws import keyed_draw
from oracle.random_cases import random_case
from oracle.scribe import Scribe as StaticScribe
from oracle.scribe_living import in_run
from oracle.scribe_living.measures import attached
from oracle.scribe_living.state import Group, Scribe, Settings
from oracle.scribe_living.world import Event
from small_worlds import G, run_beside

ENTRY = {"refreshed": 8, "got_payload": False}
STATIC = [seed for seed in range(60) if (case := random_case(seed)).keys and len(case.ids) > 1]


@pytest.mark.parametrize("seed", STATIC[::9])
def test_with_no_events_after_the_joins_trees_and_deliveries_are_the_static_ones(seed: int) -> None:
    """The kernels play the world too, where nodes are numbered from 0."""
    case = random_case(seed)
    routed = case.overlay(case.routes())
    static = StaticScribe(routed, case.keys)
    static.join_all(case.joins())
    overlay = in_run.perfect_overlay(case, routed.proximity, keyed_draw(case.seed))
    groups = {group: Group(key) for group, key in case.keys.items()}
    alone = sorted(case.ids) != list(range(len(case.ids)))
    run = run_beside(Scribe(overlay, groups, Settings(replicas=1)), seed, alone)
    source = max(case.ids)
    events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
    run.step(0, events + [(0, member, "join", group) for group, member in case.joins()])
    quiet = run.step(1, [])
    seen = run.step(2, [(2, source, "publish", group) for group in case.keys])
    assert {(group, node, child) for group, node, child, *_ in seen.children} == static.edges()
    assert quiet.joins == seen.joins == []
    for group in case.keys:
        expected = set(static.multicast(group, "routed", source)) | ({source} & case.members[group])
        assert {node for (_, at, _), node in seen.deliveries if at == group} == expected


def test_who_finds_itself_on_the_path_of_a_heartbeat_leaves_its_parent() -> None:
    """No world has ever made a cycle: here it is made by hand."""
    world = small_worlds.grown().kernels
    assert world is not None
    for number in range(1, 8):  # paths are told from the root downwards
        world.play(number, [])
    state, size = world.state, world.state.size
    entries, children = state.entries, state.children
    inner = np.unique(children.key // size)
    row = entries.find(inner)
    row = row[~entries.root[row] & ~entries.root[entries.find(entries.parent[row])]]
    bottom, top = row[:1], entries.find(entries.parent[row[:1]])
    path = state.paths.of(entries.path[bottom])
    assert entries.key[top] in path[0] + entries.key[top] // size * size
    low = entries.key[bottom] % size
    entries.parent[top], entries.moved[top] = low, True
    entries.path[top] = state.paths.add(np.column_stack([low, path]).astype(np.int32))
    children.put(entries.key[bottom] * size + entries.key[top] % size, number=0, **ENTRY)
    seen = world.play(8, [])
    assert [cause for *_, cause in seen.entries if cause] == ["cycle"]
    seen = world.play(9, [])
    assert attached(seen) == {(G, node) for _, node, *_ in seen.entries}
