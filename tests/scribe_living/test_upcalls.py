"""Applications on the upcalls: reliable delivery, and one made for the test."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.world import differences

from scribe_spark.engine.packing import Columns, count_rows, take
from scribe_spark.systems.scribe import upcalls
from scribe_spark.systems.scribe.upcalls import NOTHING, Calls, Emitted, ScribeApplication
from tools.package_size import lines_of

HERE = Path(upcalls.__file__).parent


def played(seed: int, application: type[ScribeApplication], **given) -> World:
    """The kernels alone play a world with an application."""
    case = replace(random_world(seed, **given), buffer=None)
    world = world_of(case)
    world.application = application(len(world.overlay.states.known))
    return world


def events_of(world: World, number: int) -> list:
    return [event for event in world.case.events if event[0] == number]


def test_reliable_delivery_is_short_and_knows_upcalls_alone() -> None:
    """It imports nothing of Scribe or Pastry but the upcalls, and tables without any meaning.

    The memory of applications knows of no application.
    """
    for path in (HERE / f"{name}.py" for name in ("reliable", "memory")):
        text = path.read_text()
        imported = {
            line.split()[1].rpartition(".")[2]
            for line in text.splitlines()
            if line.startswith("from scribe_spark")
        }
        assert imported <= {"upcalls", "arrays", "keys", "packing", "memory"}
    assert lines_of(HERE / "reliable.py")["code"] <= 160


class Half(ScribeApplication):
    """Messages go to children with even positions alone; JOINs that repair carry 7."""

    def __init__(self, nodes: int) -> None:
        self.extras: set[int] = set()

    def forward_handler(self, calls: Calls, messages, contents) -> Emitted:
        even = calls.children["child"] % 2 == 0
        return Emitted({**take(calls.children, even), "message": np.full(even.sum(), -1)})

    def join_handler(self, calls: Calls, joins: Columns) -> Emitted:
        self.extras |= set(joins["extra"].tolist())
        return Emitted()

    def fault_handler(self, calls: Calls, joins: Columns) -> np.ndarray:
        return np.full(count_rows(joins), 7)


def test_upcalls_may_change_what_is_sent() -> None:
    world = played(3, Half, most=40, rounds=14)
    for number in range(world.case.rounds):
        seen = world.play(number, events_of(world, number))
        positions = world.overlay.states.known.positions(
            np.array([node for _, node in seen.deliveries], dtype=np.int64)
        )
        roots = {(group, node) for group, node, _, root, *_ in seen.entries if root}
        for ((_, group, _), node), position in zip(seen.deliveries, positions, strict=True):
            assert position % 2 == 0 or (group, node) in roots
    assert world.application.extras == {7, NOTHING}


def test_an_application_without_rules_is_best_effort() -> None:
    case = replace(random_world(7, most=40, rounds=14), buffer=None)
    plain, with_upcalls = world_of(case), world_of(case)
    with_upcalls.application = ScribeApplication()
    for number in range(case.rounds):
        events = events_of(plain, number)
        assert differences(plain.play(number, events), with_upcalls.play(number, events)) == []
