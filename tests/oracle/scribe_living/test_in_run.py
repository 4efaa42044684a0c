"""The variants of a run, as the oracle plays them: examples by hand."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import pytest

from ..living.draws import Draw, keyed_draw, random_idents
from ..living.measures import enter_perfect
from ..living.overlay import Delay, Overlay, Rules
from . import in_run, lazy
from .bottleneck import overloaded
from .in_run import Edge, RemovalInRun
from .phase import DELIVERED, Message, Phase
from .state import Join, Scribe


def chosen(removals: list[RemovalInRun]) -> list[tuple[int, int, int, int, int]]:
    """Return (group, who dropped, child, sibling, probes) of all rounds."""
    return [one for removal in removals for one in removal.chosen()]


def routed(removals: list[RemovalInRun]) -> list[tuple[int, list[int], bool]]:
    """Return (group, path of the randomised route, accepted) of all rounds."""
    return [
        (join.group, path, accepted)
        for removal in removals
        for join, path, accepted in removal.routed
    ]


def on_a_plane(*places: tuple[int, int]) -> Delay:
    """Return a delay: nodes 0, 1, ... stand at ``places``, and go along x, then along y."""

    def delay(a: int, b: int) -> int:
        return sum(abs(p - q) for p, q in zip(places[a], places[b], strict=True))

    return delay


def star(root: int, children: Iterable[int], group: int = 1) -> set[Edge]:
    """Return the edges of a root with children."""
    return {(group, root, child) for child in children}


def given(
    edges: Collection[Edge],
    count: int,
    roots: Mapping[int, int],
    members: Mapping[int, Iterable[int]],
    delay: Delay = lambda a, b: int(a != b),
    draw: Draw | None = None,
    **settings,
) -> Scribe:
    """Return groups with trees on nodes 0 to count - 1."""
    overlay = Overlay(random_idents(count, 0), delay, draw or keyed_draw(0), Rules())
    enter_perfect(overlay, range(count))
    return in_run.plant(overlay, dict.fromkeys(roots, 0), roots, members, edges, **settings)


def by_hand(
    edges: Collection[Edge],
    delay: Delay,
    limits: dict[int, int],
    routes: Mapping[tuple[int, int, int], list[int]] | None = None,
    shed: tuple[str, str, str] = ("largest", "farthest", "remaining"),
    draw: Draw | None = None,
) -> tuple[Scribe, list[RemovalInRun]]:
    """Let the remover act; `routes`: (group, child, attempt) -> the nodes after the child."""

    class Given(RemovalInRun):
        def route(self, join: Join, attempt: int) -> list[int]:
            path = [join.source]
            for node in (routes or {})[join.group, join.source, attempt]:
                path.append(node)
                if self.scribe.entry(join.group, node) is not None:
                    break
            return path

    below = {(group, child) for group, _, child in edges}
    roots = {group: parent for group, parent, _ in edges if (group, parent) not in below}
    scribe = given(edges, len(limits), roots, {}, delay, draw, limits=limits, shed=shed)
    return scribe, in_run.remove_bottlenecks(scribe, Given)


WHOLE = ("largest", "farthest", "whole")


def test_children_go_down_one_after_the_other():
    delay = on_a_plane((0, 0), (1, 0), (-2, 0), (5, 0), (9, 0))
    limits = {0: 2, 1: 1, 2: 1, 3: 1, 4: 1}
    scribe, removals = by_hand(star(0, [1, 2, 3, 4]), delay, limits)
    assert [removal.chosen() for removal in removals] == [
        [(1, 0, 4, 1, 3), (1, 0, 3, 1, 2)],  # 8 + 1, as far by 3, 4 + 5; 4 + 1, by 2 it is 7 + 2
        [(1, 1, 4, 3, 1)],  # its new parent has too many
    ]
    assert in_run.edges_of(scribe) == {(1, 0, 1), (1, 0, 2), (1, 1, 3), (1, 3, 4)}
    assert (overloaded(scribe), routed(removals)) == ([], [])


def test_groups_take_turns_and_a_limit_that_cannot_be_met_is_told():
    delay = on_a_plane((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0))
    edges = star(0, [1, 2], group=1) | star(0, [3, 4], group=2) | star(0, [5], group=3)
    scribe, removals = by_hand(edges, delay, dict.fromkeys(range(6), 1))
    assert chosen(removals) == [(1, 0, 2, 1, 1), (2, 0, 4, 3, 1)]
    left = {(1, 0, 1), (1, 1, 2), (2, 0, 3), (2, 3, 4), (3, 0, 5)}
    assert in_run.edges_of(scribe) == left
    assert (len(removals), overloaded(scribe)) == (1, [0])


def test_two_children_that_choose_each_other():
    # 2 goes by 1 (1 + 10), 1 by 2 (1 + 11, as far as by 3: 11 + 1): a loop, were 1 not refused.
    delay = on_a_plane((0, 0), (10, 0), (11, 0), (-1, 0), (5, 0))
    routes = {(1, 1, 0): [2, 0], (1, 1, 1): [4, 0]}
    limits = dict.fromkeys(range(5), 1)
    scribe, removals = by_hand(star(0, [1, 2, 3]), delay, limits, routes, WHOLE)
    assert [removal.chosen() for removal in removals] == [
        [(1, 0, 2, 1, 2), (1, 0, 1, 2, 2)],
        [(1, 0, 4, 3, 1)],  # a forwarder is a child as any
    ]
    assert routed(removals) == [
        (1, [1, 2], False),  # the route leads to 1's own child
        (1, [1, 4, 0], True),
    ]
    assert scribe.chain(1, 2) == [2, 1, 4, 3, 0]
    assert len(in_run.edges_of(scribe)) == 4
    assert overloaded(scribe) == []


# --- Collapse -----------------------------------------------------------------------------------


def collapsed_by_hand(
    edges: set[Edge], members: Mapping[int, Iterable[int]], roots: Mapping[int, int]
) -> set[Edge]:
    """Return the edges that are left of trees on nodes 0 to 9."""
    return in_run.collapse_paths(given(edges, 10, roots, members, collapse=True))


def test_collapse_by_hand():
    # 9 - 1 - 2 - 3 (member) - 4 - 5 (member), and 2 forks to 6 - 7 (member).  9 is no member.
    chain = {(1, 9, 1), (1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 5), (1, 2, 6), (1, 6, 7)}
    other = {(2, 3, 4), (2, 4, 5)}
    assert collapsed_by_hand(chain | other, {1: {3, 5, 7}, 2: {4, 5}}, {1: 9, 2: 3}) == {
        *[(1, 9, 2), (1, 2, 3), (1, 3, 5), (1, 2, 7)],
        *other,  # where 4 is a member
    }


def test_collapse_leaves_a_root_with_one_child():
    assert collapsed_by_hand({(1, 0, 1), (1, 1, 2), (1, 2, 3)}, {1: {3}}, {1: 0}) == {(1, 0, 3)}
    assert collapsed_by_hand({(1, 0, 1)}, {1: {1}}, {1: 0}) == {(1, 0, 1)}


# --- Lazy growth --------------------------------------------------------------------------------


def test_waves_double():
    members = {1: range(9), 2: [5, 3]}
    scribe = given((), 9, {1: 0, 2: 3}, members, draw=lambda *key: 0)
    assert lazy.waves(scribe) == [
        [(1, 0), (2, 3)],
        [(1, 1), (1, 2), (2, 5)],
        [(1, 3), (1, 4), (1, 5), (1, 6)],
        [(1, 7), (1, 8)],
    ]
    backwards = given((), 4, {1: 0}, {1: [1, 2, 3]}, draw=lambda _, group, member: -member)
    assert lazy.waves(backwards) == [[(1, 3)], [(1, 1), (1, 2)]]


# Where the nodes' routes lead: to 0, the root of all groups.
NEXT = {1: 3, 3: 0, 4: 3, 5: 4, 6: 3, 7: 4, 8: 4}


class Along(Phase):
    """Messages go along ``NEXT``."""

    def hop(self, message: Message, kind: str, order: object = None) -> str:
        """See `Phase`."""
        if message.at == 0:
            message.status = DELIVERED
        else:
            message.path.append(NEXT[message.at])
        return message.status


Waves = list[list[tuple[int, int]]]


@pytest.fixture
def lazily_by_hand(monkeypatch) -> Callable[[Waves, dict[int, int]], set[Edge]]:
    """The trees that members of groups 1 and 2 grow along ``NEXT``."""

    def grow(waves: Waves, limits: dict[int, int]) -> set[Edge]:
        monkeypatch.setattr(lazy, "waves", lambda _: waves)
        members: dict[int, set[int]] = {1: set(), 2: set()}
        for group, node in (join for wave in waves for join in wave):
            members[group].add(node)
        every = dict.fromkeys(range(9), 100) | limits
        scribe = given((), 9, {1: 0, 2: 0}, members, limits=every)
        return in_run.grow_lazily(scribe, Along(scribe.overlay))

    return grow


def test_lazy_growth_by_hand(lazily_by_hand):
    grow = partial(lazily_by_hand, limits={0: 1, 3: 1})
    wave_0 = [(1, 5)]
    edges = {(1, 0, 5)}  # 3 and 4 do not become forwarders
    assert grow([wave_0]) == edges
    wave_1 = [(1, 6), (1, 7)]
    edges |= {(1, 0, 3), (1, 3, 6), (1, 3, 7)}  # 0 is full: 3 takes both, 0 takes 3 once
    assert grow([wave_0, wave_1]) == edges
    # 3 is in the tree by now and sends no JOIN.  It is full, but 4 is its neighbour.  8 comes by 4.
    wave_2 = [(1, 3), (1, 4), (1, 8)]
    edges |= {(1, 3, 4), (1, 4, 8)}
    assert grow([wave_0, wave_1, wave_2]) == edges
