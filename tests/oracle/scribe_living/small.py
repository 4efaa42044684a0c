"""One group on sixty nodes with perfect tables, for tests of single rules."""

from __future__ import annotations

from collections.abc import Collection

from ..living.draws import Plane, keyed_draw, random_idents
from ..living.overlay import Overlay, Rules
from ..living.perfect import enter_perfect
from ..living.ring import RING
from .groups import Access, Group, Settings
from .state import Scribe
from .upcalls import Application
from .world import Event, Run

COUNT = 60
G = 1


def world(
    seed: int = 0,
    settings: Settings | None = None,
    application: Application | None = None,
    access: Access | None = None,
    rules: Rules | None = None,
    present: int = COUNT,
    here: Collection[int] | None = None,
) -> Run:
    """Sixty nodes with perfect tables and one group, whose groupId is drawn.

    The first `present` of them are there at the beginning, or those that are `here`.
    """
    rules = rules or Rules(b=2, l=16)
    idents = random_idents(COUNT, seed)
    overlay = Overlay(idents, Plane(COUNT, seed, 20), keyed_draw(seed), rules)
    enter_perfect(overlay, sorted(range(present) if here is None else here))
    key = keyed_draw(seed)("key", among=RING)
    groups = {G: Group(key, access or Access())}
    return Run(Scribe(overlay, groups, settings or Settings(), application or Application()))


def grown(seed: int = 0, members: int = 30, **others: object) -> Run:
    """Round 0: the group is created, and nodes join it."""
    run = world(seed, **others)
    run.step(0, [(0, 0, "create", G), *((0, node, "join", G) for node in range(members))])
    return run


def quiet(run: Run, rounds: int, events: tuple[Event, ...] = ()) -> None:
    """More rounds."""
    first = run.scribe.round + 1
    for at in range(first, first + rounds):
        run.step(at, [event for event in events if event[0] == at])


def children_of(run: Run, node: int) -> set[int]:
    """The children of a node."""
    return set(run.scribe.entries[G][node].children)


def inner_node(run: Run) -> int:
    """A node with children and a parent, the one with most children."""
    nodes = [node for node, entry in run.scribe.entries[G].items() if not entry.root]
    return max(nodes, key=lambda node: (len(children_of(run, node)), -node))
