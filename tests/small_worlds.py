"""One group on sixty nodes with perfect tables, for tests of single rules.

The oracle and the kernels play each round of such a world; a test reads the oracle's.
"""

from collections.abc import Collection, Iterable

import pytest
from living_groups import World, without_zeros, world_of_run
from oracle.living.draws import Plane, keyed_draw, random_idents
from oracle.living.measures import enter_perfect
from oracle.living.overlay import Overlay, Rules
from oracle.ring import RING
from oracle.scribe_living.reliable import Reliable
from oracle.scribe_living.state import Access, Application, Group, Scribe, Settings
from oracle.scribe_living.world import PARTS, Event, Run, Snapshot, differences

COUNT = 60
G = 1

#: More rounds than any test plays.
_ROUNDS = 20


class RunBeside(Run):
    """The oracle's world, whose rounds the kernels play too; their states have to be the same.

    There are no `kernels` where a test changes what the oracle's nodes know, or brings an
    application.
    """

    kernels: World | None = None

    def step(self, round: int, events: Iterable[Event]) -> Snapshot:
        """See `Run`; an event that cannot be is refused by both."""
        events, beside = list(events), self.kernels
        if beside is None:
            return super().step(round, events)
        beside.pastry.first_wave = self.scribe.overlay.waves
        try:
            theirs = super().step(round, events)
        except ValueError:
            with pytest.raises(ValueError, match=f"round {round}: "):
                beside.play(round, events)
            raise
        without_zeros(theirs)
        assert differences(beside.play(round, events), theirs, PARTS) == []
        return theirs


def world(
    seed: int = 0,
    settings: Settings | None = None,
    application: Application | None = None,
    access: Access | None = None,
    rules: Rules | None = None,
    present: int = COUNT,
    here: Collection[int] | None = None,
    near: int | None = None,
    alone: bool = False,
) -> RunBeside:
    """Sixty nodes with perfect tables and one group, whose groupId is drawn.

    The first nodes up to `present`, or those of `here`, are there at the beginning; the groupId is
    next to the nodeId of the node `near`; `alone`: the oracle plays alone.
    """
    rules = rules or Rules(b=2, l=16)
    idents = random_idents(COUNT, seed)
    overlay = Overlay(idents, Plane(COUNT, seed, 20), keyed_draw(seed), rules)
    enter_perfect(overlay, sorted(range(present) if here is None else here))
    key = keyed_draw(seed)("key", among=RING) if near is None else idents[near] ^ 1
    groups = {G: Group(key, access or Access())}
    return run_beside(
        Scribe(overlay, groups, settings or Settings(), application or Application()), seed, alone
    )


def run_beside(scribe: Scribe, seed: int = 0, alone: bool = False) -> RunBeside:
    """A world that has not begun, for the oracle and, unless it is `alone`, for the kernels."""
    run, application = RunBeside(scribe), scribe.application
    if not alone and type(application) in (Application, Reliable):
        run.kernels = world_of_run(run, seed, _ROUNDS, getattr(application, "size", None))
    return run


def grown(seed: int = 0, members: int = 30, **others: object) -> RunBeside:
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
