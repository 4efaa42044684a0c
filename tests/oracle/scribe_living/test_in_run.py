"""The variants of a run, as the oracle plays them: examples by hand."""

from collections.abc import Collection, Iterable, Mapping

from ..living.draws import Draw, keyed_draw, random_idents
from ..living.measures import enter_perfect
from ..living.overlay import Delay, Overlay, Rules
from . import in_run, lazy
from .bottleneck import overloaded
from .in_run import Edge, RemovalInRun
from .state import Scribe


def chosen(removals: list[RemovalInRun]) -> list[tuple[int, int, int, int, int]]:
    """Return (group, who dropped, child, sibling, probes) of all rounds."""
    return [one for removal in removals for one in removal.chosen()]


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
) -> tuple[Scribe, list[RemovalInRun]]:
    """Let the remover act."""
    below = {(group, child) for group, _, child in edges}
    roots = {group: parent for group, parent, _ in edges if (group, parent) not in below}
    scribe = given(edges, len(limits), roots, {}, delay, limits=limits)
    return scribe, in_run.remove_bottlenecks(scribe)


def test_children_go_down_one_after_the_other():
    delay = on_a_plane((0, 0), (1, 0), (-2, 0), (5, 0), (9, 0))
    limits = {0: 2, 1: 1, 2: 1, 3: 1, 4: 1}
    scribe, removals = by_hand(star(0, [1, 2, 3, 4]), delay, limits)
    assert [removal.chosen() for removal in removals] == [
        [(1, 0, 4, 1, 3), (1, 0, 3, 1, 2)],  # 8 + 1, as far by 3, 4 + 5; 4 + 1, by 2 it is 7 + 2
        [(1, 1, 4, 3, 1)],  # its new parent has too many
    ]
    assert in_run.edges_of(scribe) == {(1, 0, 1), (1, 0, 2), (1, 1, 3), (1, 3, 4)}
    assert (overloaded(scribe), [one.routed for one in removals]) == ([], [[], []])


def test_groups_take_turns_and_a_limit_that_cannot_be_met_is_told():
    delay = on_a_plane((0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0))
    edges = star(0, [1, 2], group=1) | star(0, [3, 4], group=2) | star(0, [5], group=3)
    scribe, removals = by_hand(edges, delay, dict.fromkeys(range(6), 1))
    assert chosen(removals) == [(1, 0, 2, 1, 1), (2, 0, 4, 3, 1)]
    left = {(1, 0, 1), (1, 1, 2), (2, 0, 3), (2, 3, 4), (3, 0, 5)}
    assert in_run.edges_of(scribe) == left
    assert (len(removals), overloaded(scribe)) == (1, [0])


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
