"""Deliveries: what upcalls change, and what reliable delivery makes up for."""

import random

import numpy as np
import pytest
from living_groups import LossyKernel
from oracle.living.draws import keyed_draw
from oracle.scribe_living.measures import publications
from oracle.scribe_living.reliable import Reliable
from oracle.scribe_living.world import Event
from small_worlds import COUNT, G, children_of, grown, inner_node, quiet


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_when_a_quarter_of_the_nodes_fails(seed: int) -> None:
    run = grown(seed, members=50, application=Reliable(32))
    dead = keyed_draw(seed)("dead", among=4)
    events: list[Event] = [(3, node, "fail") for node in range(COUNT) if node % 4 == dead]
    events += [(at, (dead + 1) % 4, "publish", G) for at in range(1, 9)]
    quiet(run, 9, tuple(events))
    results = publications(run)
    assert len(results) == 8
    assert sum(result.late for result in results) > 0
    assert sum(result.lost for result in results) == 0
    assert all(not seen.orphans for seen in run.seen[3 + 2 + 3 :])


def test_a_late_member_begins_with_what_comes_after_it() -> None:
    run = grown(application=Reliable(32))
    quiet(run, 3, ((1, 3, "publish", G), (2, 45, "join", G), (3, 3, "publish", G)))
    assert [(p[0], node) for p, node in run.seen[3].deliveries if node == 45] == [(3, 45)]
    assert not any(node == 45 for seen in run.seen[:3] for _, node in seen.deliveries)


def test_a_member_that_was_cut_off_gets_what_it_missed_in_order() -> None:
    run = grown(application=Reliable(32))
    node = inner_node(run)
    child = next(n for n in sorted(children_of(run, node)) if run.scribe.entries[G][n].member)
    source = next(n for n in range(30) if n not in (node, child))
    quiet(run, 6, ((2, node, "fail"), *((at, source, "publish", G) for at in range(1, 7))))
    got = [(seen.round, p[0]) for seen in run.seen for p, n in seen.ordered if n == child]
    assert got == [(1, 1), (4, 2), (4, 3), (4, 4), (5, 5), (6, 6)]


def test_what_nobody_keeps_any_more_is_given_up() -> None:
    run = grown(application=Reliable(2))
    node = inner_node(run)
    child = next(n for n in sorted(children_of(run, node)) if run.scribe.entries[G][n].member)
    sources = [n for n in range(30) if n not in (node, child)][:3]
    publish = tuple((at, source, "publish", G) for at in (1, 2, 3, 4) for source in sources)
    quiet(run, 5, ((2, node, "fail"), *publish))
    got = [(seen.round, p[0]) for seen in run.seen for p, n in seen.ordered if n == child]
    assert got == [(1, 1)] * 3 + [(4, 3)] * 2 + [(4, 4)] * 3


@pytest.mark.parametrize(
    ("lost", "got"),
    [
        ({2}, [(1, 1), (3, 2)]),
        # a retransmission is lost, too
        ({2, 3}, [(1, 1), (4, 2)]),
        ({1, 2, 3}, [(4, 1), (4, 2)]),
    ],
)
def test_a_lost_copy_comes_in_the_next_round(lost: set[int], got: list[tuple[int, int]]) -> None:
    """In these rounds an inner node gets no copy; nothing is published after round 2."""
    run = grown(application=Reliable(32))
    node = inner_node(run)
    beside = run.kernels.pastry
    run.scribe.is_lost = lambda publication, sender, to: to == node and run.scribe.round in lost
    for at in range(1, 6):
        to = np.full((COUNT, COUNT), np.arange(COUNT) == node) & (at in lost)
        beside.kernel = LossyKernel(beside.kernel.delay_us, np.arange(COUNT), to.astype(float))
        run.step(at, [(at, 3, "publish", G)] if at < 3 else [])
    below = [child for child in children_of(run, node) if run.scribe.entries[G][child].member]
    assert below
    for member in below:
        assert [(s.round, p[0]) for s in run.seen for p, n in s.ordered if n == member] == got
    asked = [(seen.round, of) for seen in run.seen for _, of, why in seen.joins if why == "ask"]
    assert asked == [(at, node) for at in sorted(lost)]


@pytest.mark.parametrize("seed", range(10))
def test_what_links_lose_once_comes_in_the_next_round(seed: int) -> None:
    run = grown(seed, members=50, application=Reliable(32), alone=True)
    draw = random.Random(seed)
    run.scribe.is_lost = lambda one, sender, to: one[0] == run.scribe.round and draw.random() < 0.2
    quiet(run, 8, tuple((at, node, "publish", G) for at in range(1, 8) for node in (3, 9)))
    results = publications(run)
    assert sum(result.late for result in results) > 20
    late = [(seen.round, p[0]) for seen in run.seen for p, _ in seen.ordered if p[0] < seen.round]
    assert {at - published for at, published in late} == {1}
    assert all(result.lost == 0 for result in results)
