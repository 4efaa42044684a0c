"""Worlds that go through flat rows between rounds, and how worlds begin."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from arriving import arrivals, grow
from living_worlds import PARTS, as_snapshot, played_round, state_of, world
from oracle.living.compare import differences
from oracle.living.draws import Matrix, keyed_draw
from oracle.living.overlay import Overlay, Rules
from oracle.living.perfect import enter_perfect
from oracle.living.world import snapshot

from scribe_spark.pastry.events import Events
from scribe_spark.pastry.node_rows import NodeRows, from_rows, to_rows
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.perfect_start import perfect_start
from scribe_spark.pastry.player import InProcess
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.worlds import state_table

STATE = ("live", "sides", "cells")


def shuffled(rows: NodeRows, seed: int) -> NodeRows:
    """The rows in another order."""
    order = np.random.default_rng(seed).permutation(len(rows.node))
    return NodeRows.join(*[one_row(rows, at) for at in order])


def one_row(rows: NodeRows, at: int) -> NodeRows:
    start, end = rows.offsets[at : at + 2]
    columns = {f.name: getattr(rows, f.name)[at : at + 1] for f in fields(rows)}
    entries = {"cell": rows.cell[start:end], "entry": rows.entry[start:end]}
    return NodeRows(**columns | entries | {"offsets": np.array([0, end - start])})


@pytest.mark.parametrize("seed", range(20))
def test_a_world_that_is_written_and_read_after_each_round_is_the_same(seed: int) -> None:
    case, again = world(seed, rounds=5), world(seed, rounds=5)
    state, copy = state_of(case), state_of(again)
    for number in range(5):
        result = case.play(InProcess.of(state, case.rules, case.kernel), number)
        ours = as_snapshot(copy, again.play(InProcess.of(copy, case.rules, case.kernel), number))
        assert differences(ours, as_snapshot(state, result), PARTS) == []
        copy = from_rows(shuffled(to_rows(copy.states, copy), seed), case.rules.b)
        rows = to_rows(state.states, state), to_rows(copy.states, copy)
        for one in fields(NodeRows):
            np.testing.assert_array_equal(*[getattr(part, one.name) for part in rows])


@pytest.mark.parametrize("chunk", [1, 7, 100, 2**28])
def test_a_table_of_the_state_has_as_many_chunks_as_its_offsets_take(chunk, monkeypatch) -> None:
    """Offsets of bytes have 32 bits: six million nodes in a bucket have more bytes than that."""
    monkeypatch.setattr(state_table, "_CHUNK", chunk)
    case = world(3, rounds=1)
    state = state_of(case)
    rows = to_rows(state.states, state)
    table = state_table.state_table(rows, case.kernel)
    most = max(case.rules.leaf_set, int(np.diff(rows.offsets).max()))
    lengths = [sum(map(len, one.to_pylist())) // 4 for one in table.column("leaves").chunks]
    assert max(lengths) < chunk + most
    read = state_table.read_state(table, case.rules.leaf_set, case.kernel)
    for one in fields(NodeRows):
        np.testing.assert_array_equal(getattr(read, one.name), getattr(rows, one.name))


@pytest.mark.parametrize("seed", range(5))
def test_nodes_may_join_the_rows_later(seed: int) -> None:
    """The nodes that are known before they arrive make no difference."""
    case = world(seed, rounds=1, growth=1.5)
    before = state_of(case)
    rows = to_rows(before.states, before)
    absent = ~rows.alive
    kept = [one_row(rows, at) for at in np.flatnonzero(~absent)]
    new = NodeRows.of_new(case.known.take(absent), case.rules.leaf_set)
    state, other = state_of(case), from_rows(NodeRows.join(*kept, new), case.rules.b)
    events = Events(arrive=np.flatnonzero(absent))
    players = [InProcess.of(one, case.rules, case.kernel) for one in (state, other)]
    results = [played_round(player, 0, events, 9) for player in players]
    both = [as_snapshot(one, result) for one, result in zip((state, other), results, strict=True)]
    assert differences(*both, PARTS) == []
    assert len(both[0].live) == len(case.known)


@pytest.mark.parametrize("seed", range(30))
def test_perfect_tables_are_the_oracles(seed: int) -> None:
    case = arrivals(seed, most=120)
    rules = Rules(b=case.rules.b, l=case.rules.leaf_set)
    chosen = np.random.default_rng(seed).random(len(case.known)) < 0.8
    live = np.flatnonzero(chosen if chosen.any() else ~chosen)
    delay = Matrix(case.kernel.delay_us, case.router)
    overlay = Overlay(case.idents, delay, keyed_draw(seed), rules)
    enter_perfect(overlay, [int(node) for node in case.known.node[live]])
    state = perfect_start(case.known, live, rules.l, rules.b, case.kernel)
    player = InProcess.of(state, WorldRules(rules.b, rules.l), case.kernel)
    quiet = played_round(player, 0, Events(), 0)
    assert differences(as_snapshot(state, quiet), snapshot(overlay), STATE) == []


def test_a_world_begins_with_the_overlay_of_arrivals() -> None:
    case = arrivals(7, most=60)
    *_, done = grow(case)
    state = OverlayState.of(done.states, done.live)
    rules = WorldRules(case.rules.b, case.rules.leaf_set)
    result = played_round(InProcess.of(state, rules, case.kernel), 0, Events(), 200)
    assert result.lookups.right.all()
    assert set(result.messages) == {"keep-alive", "lookup"}
    assert len(result.new_leafs) == 0
