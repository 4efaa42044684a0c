"""Applications on the upcalls: reliable delivery, the newest value, and one made for the test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from living_groups import World, world_of
from newest_value import Newest
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.compare import differences
from oracle.scribe_living.measures import attached

from scribe_spark.engine.packing import Columns, count_rows, take
from scribe_spark.scribe import upcalls
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.upcalls import ASK, NOTHING, Application, Calls, Emitted
from tools.package_size import lines_of

HERE = Path(upcalls.__file__).parent


def played(seed: int, application: type[Application], **given) -> World:
    """The kernels alone play a world with an application."""
    case = replace(random_world(seed, **given), buffer=None)
    world = world_of(case)
    world.application = application(len(world.overlay.states.known))
    return world


def events_of(world: World, number: int) -> list:
    return [event for event in world.case.events if event[0] == number]


def test_reliable_delivery_is_short_and_knows_upcalls_alone() -> None:
    """It imports nothing of Scribe or Pastry but the upcalls, and tables without any meaning.

    The memory of applications and the ring buffers know of no application.
    """
    own = Path(__file__).with_name("newest_value.py")
    for path in (*(HERE / f"{name}.py" for name in ("reliable", "memory", "ring_buffers")), own):
        text = path.read_text()
        imported = {
            line.split()[1].rpartition(".")[2]
            for line in text.splitlines()
            if line.startswith("from scribe_spark")
        }
        assert imported <= {"upcalls", "arrays", "keys", "packing", "memory", "ring_buffers"}
    assert lines_of(HERE / "reliable.py")["code"] <= 160


@pytest.mark.parametrize("seed", [1, 5, 9])
def test_members_have_the_newest_publication_and_nothing_twice(seed: int) -> None:
    world = played(seed, Newest, most=40, rounds=16)
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for number in range(world.case.rounds):
        seen = world.play(number, events_of(world, number))
        live = {(group, node) for group, node, member, *_ in seen.entries if member}
        last = {who: had for who, had in last.items() if who in live}
        for (at, group, source), node in seen.ordered:
            assert last.get((group, node), (-1, -1)) < (at, source), "newer each time"
            last[group, node] = at, source
        # whom the root reaches has what the root has
        roots = [(group, node) for group, node, _, root, *_ in seen.entries if root]
        root = dict(roots)
        once = {group for group in root if [one for one, _ in roots].count(group) == 1}
        for group, node in attached(seen):
            if group in once:
                assert newest(world, group, node) >= newest(world, group, root[group])


def newest(world: World, group: int, node: int) -> int:
    """What a node has had; -1 for nothing."""
    index = np.searchsorted(world.groups.number, group)
    position = world.overlay.states.known.positions(np.array([node]))
    row = world.application.had.find(index * world.state.size + position)
    return int(world.application.had.newest[row[0]]) if row[0] >= 0 else -1


class Half(Application):
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
    with_upcalls.application = Application()
    for number in range(case.rounds):
        events = events_of(plain, number)
        assert differences(plain.play(number, events), with_upcalls.play(number, events)) == []


def calls_of(number: int, child: list[int], joined: int = 0, asked: int = NOTHING) -> Calls:
    """Node 1 of a tree, which is no root, and has children."""
    here = {"group": [0], "node": [1], "root": [False], "entered": [0], "joined": [joined]}
    return Calls(
        number,
        _columns(here | {"asked": [asked], "epoch": [-1]}),
        _columns({"call": [0] * len(child), "child": child}),
        upcalls.empty("call", "value"),
    )


def _columns(lists: dict[str, list]) -> Columns:
    return {
        name: np.array(values, dtype=bool if name == "root" else np.int64)
        for name, values in lists.items()
    }


def lists_of(columns: Columns) -> dict[str, list]:
    return {name: column.tolist() for name, column in columns.items()}


def joins_of(source: list[int], extra: list[int], why: int = 2) -> Columns:
    """JOINs and questions of children of node 1."""
    n = len(source)
    columns = {"number": [3] * n, "cause": [why] * n, "extra": extra}
    return _columns({"call": [0] * n, "source": source, **columns})


REPAIRS = _columns({"number": [3], "cause": [2]})


def test_a_repairing_join_asks_for_what_a_child_still_needs() -> None:
    """The oracle's test, for the kernels: numbers in epoch 0, a gap before the only message."""
    reliable = Reliable(4, 10)
    calls = calls_of(3, [2])
    row = reliable.rows(calls)
    reliable.records.last[row] = 5
    reliable.rings.write(row, np.array([5]), np.array([9]))
    joins = joins_of([2], [3])
    emitted = reliable.join_handler(calls, joins)
    assert lists_of(emitted.asks) == {"call": [0], "extra": [3]}
    assert count_rows(emitted.payloads) == 0
    assert reliable.fault_handler(calls, REPAIRS) == [3]
    reliable.rings.write(row, np.array([4]), np.array([8]))
    assert reliable.fault_handler(calls, REPAIRS) == [5]
    emitted = reliable.join_handler(calls, joins)
    assert emitted.contents["number"].tolist() == [4, 5]
    assert emitted.contents["publication"].tolist() == [8, 9]


def test_who_has_not_begun_asks_for_the_round_of_the_join() -> None:
    """Node 1 is cut off and has not begun when nodes 2 and 3 join under it in round 3."""
    reliable = Reliable(8, 10)
    calls = calls_of(3, [2, 3], joined=-1)
    emitted = reliable.join_handler(calls, joins_of([2, 3], [NOTHING, NOTHING]))
    assert count_rows(emitted.payloads) == count_rows(emitted.asks) == 0
    assert reliable.fault_handler(calls_of(5, [2, 3], joined=-1), REPAIRS) == [3 << 32]
    assert reliable.fault_handler(calls_of(5, [], joined=4), REPAIRS) == [4 << 32]
    assert reliable.fault_handler(calls_of(5, [], joined=5), REPAIRS) == [NOTHING]
    # a child that has a number: it does not say whether it comes before round 3
    reliable.join_handler(calls_of(4, [2, 3, 4], joined=-1), joins_of([4], [17]))
    assert reliable.fault_handler(calls_of(5, [2, 3, 4], joined=-1), REPAIRS) == [0]


@pytest.mark.parametrize(("since", "served"), [(2, True), (4, False)])
def test_a_child_is_served_from_the_round_of_its_join(since: int, served: bool) -> None:
    """A later number may be of an earlier publication: 6 was kept by its source."""
    reliable = Reliable(8, 10)
    calls = calls_of(6, [2])
    row = reliable.rows(calls)
    reliable.records.last[row], reliable.records.since[row] = 8, since
    published = {4: 2, 5: 3, 6: 2, 7: 4, 8: 5}  # number -> round
    for number, at in published.items():
        reliable.rings.write(row, np.array([number]), np.array([at << 32]))
    emitted = reliable.join_handler(calls, joins_of([2], [3 << 32]))
    if served:
        assert emitted.contents["number"].tolist() == [5, 6, 7, 8]
        assert lists_of(emitted.messages) == {
            **{"number": [4], "start": [4], "floor": [-1], "since": [3]}
        }
        assert count_rows(emitted.asks) == 0
    else:
        assert emitted.asks["extra"].tolist() == [3 << 32]
        assert count_rows(emitted.payloads) == 0


@pytest.mark.parametrize(
    ("had", "extra", "at"),
    [
        (4, 8, 4),  # it waits for 5 to 9, which are not here
        (10, 12, 10),  # all that is here; but the child does not know yet where it begins
        (12, 10, 10),  # more than is here
        (10, 2 << 32, 0),  # the round is not here: all of the epoch
        (1 << 32, 2 << 32, 1 << 32),
        (1 << 32, 8, 0),
    ],
)
def test_a_question_adds_to_what_a_child_waits_for(had: int, extra: int, at: int) -> None:
    """Node 1 lacks 4 to 9; child 2 has sent its JOIN in round 3, and asks in round 5."""
    reliable = Reliable(8, 10)
    row = reliable.rows(calls_of(3, [2]))
    reliable.records.last[row], reliable.records.since[row] = 10, 3
    reliable.rings.write(row, np.array([10]), np.array([2 << 32]))
    reliable.join_handler(calls_of(3, [2]), joins_of([2], [had]))
    emitted = reliable.join_handler(calls_of(5, [2]), joins_of([2], [extra], ASK))
    assert reliable.served.at.tolist() == [at]
    assert emitted.asks["extra"].tolist() == ([] if at == 10 else [at])
    assert reliable.served.since.tolist() == [min(3, had >> 32 or 3, extra >> 32 or 3)]
    # a JOIN says anew what the child needs
    emitted = reliable.join_handler(calls_of(6, [2]), joins_of([2], [9]))
    assert emitted.contents["number"].tolist() == [10]
    assert emitted.messages["since"].tolist() == [6]


def test_a_question_for_a_round_is_simply_answered_where_all_is_here() -> None:
    reliable = Reliable(8, 10)
    row = reliable.rows(calls_of(5, [2]))
    reliable.records.last[row], reliable.records.since[row] = 10, 1
    for number in (7, 8, 9, 10):
        reliable.rings.write(row, np.array([number]), np.array([number - 6 << 32]))
    reliable.join_handler(calls_of(5, [2]), joins_of([2], [8]))
    emitted = reliable.join_handler(calls_of(5, [2]), joins_of([2], [2 << 32], ASK))
    assert emitted.contents["number"].tolist() == [8, 9, 10]
