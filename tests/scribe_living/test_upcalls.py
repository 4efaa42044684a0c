"""Applications on the upcalls: reliable delivery, the newest value, and one made for the test."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from living_groups import World, world_of
from newest_value import Newest
from oracle.scribe_living import reliable as oracle
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.joining import common_extra
from oracle.scribe_living.measures import attached
from oracle.scribe_living.state import Ask, Join, Local
from oracle.scribe_living.world import differences

from scribe_spark.engine.packing import Columns, count_rows, take
from scribe_spark.systems.scribe import upcalls
from scribe_spark.systems.scribe.reliable import Reliable
from scribe_spark.systems.scribe.upcalls import CAUSES, NOTHING, Application, Calls, Emitted
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

    The memory of applications knows of no application.
    """
    own = Path(__file__).with_name("newest_value.py")
    for path in (*(HERE / f"{name}.py" for name in ("reliable", "memory")), own):
        text = path.read_text()
        imported = {
            line.split()[1].rpartition(".")[2]
            for line in text.splitlines()
            if line.startswith("from scribe_spark")
        }
        assert imported <= {"upcalls", "arrays", "keys", "packing", "memory"}
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


# --- reliable delivery at one node, by the kernels and by the oracle

G, NODE = 0, 1


class Answer(NamedTuple):
    """What node 1 sends for a JOIN: numbers, start and since to the child; questions."""

    numbers: list[int]
    start: list[int]
    since: list[int]
    asks: list[int]


class Ours:
    """Node 1 of a tree, which is no root."""

    def __init__(self, size: int) -> None:
        self.reliable = Reliable(size, 10)
        self.row = self.reliable.rows(self.calls(0, []))

    def know(self, last: int, kept: dict[int, int], since: int | None = None) -> None:
        self.reliable.records.last[self.row] = last
        if since is not None:
            self.reliable.records.since[self.row] = since
        for number, at in kept.items():
            self.reliable.rings.write(self.row, np.array([number]), np.array([at << 32]))

    def calls(self, at: int, children: list[int], joined: int = 0) -> Calls:
        here = {"group": [G], "node": [NODE], "root": [False], "entered": [0], "joined": [joined]}
        under = {"call": [0] * len(children), "child": children}
        here |= {"asked": [NOTHING], "epoch": [-1]}
        return Calls(at, _columns(here), _columns(under), upcalls.empty("call", "value"))

    def join(self, at, children, source, extra, why="parent failed", joined=0) -> Answer:
        row = {"call": 0, "source": source, "number": 3, "cause": CAUSES.index(why)}
        joins = _columns({**row, "extra": NOTHING if extra is None else extra})
        emitted = self.reliable.join_handler(self.calls(at, children, joined), joins)
        columns = emitted.contents["number"], *map(emitted.messages.get, ("start", "since"))
        return Answer(*(column.tolist() for column in (*columns, emitted.asks["extra"])))

    def repair(self, at: int, children: list[int], joined: int = 0) -> int | None:
        joins = _columns({"number": 3, "cause": 2})
        (extra,) = self.reliable.fault_handler(self.calls(at, children, joined), joins).tolist()
        return None if extra == NOTHING else extra

    def need(self) -> tuple[int, int]:
        return self.reliable.served.at[0], self.reliable.served.since[0]

    def common(self, extras: list[int | None]) -> int | None:
        given = np.array([NOTHING if one is None else one for one in extras])
        (extra,) = self.reliable.common_extra(np.zeros(len(given), np.int64), given, 1).tolist()
        return None if extra == NOTHING else extra


def _columns(lists: dict[str, Any]) -> Columns:
    return {
        name: np.array(values, dtype=bool if name == "root" else np.int64, ndmin=1)
        for name, values in lists.items()
    }


class Theirs:
    """The same for the oracle."""

    def __init__(self, size: int) -> None:
        self.reliable = oracle.Reliable(size)
        self.record = self.reliable.record(self.here(0, []))

    def know(self, last: int, kept: dict[int, int], since: int | None = None) -> None:
        self.record.last = last
        self.record.since = self.record.since if since is None else since
        self.record.buffer |= {number: (at, G, 9) for number, at in kept.items()}

    def here(self, at: int, children: list[int], joined: int = 0) -> Local:
        return Local(at, G, NODE, False, 0, joined, frozenset(children))

    def join(self, at, children, source, extra, why="parent failed", joined=0) -> Answer:
        join = Join(G, source, 3, why, extra)
        sent = list(self.reliable.join_handler(self.here(at, children, joined), join))
        asks = [one.extra for one in sent if isinstance(one, Ask)]
        parts = [one for one in sent if not isinstance(one, Ask)]
        numbers = [number for one in parts for number in one.numbers]
        return Answer(numbers, [one.start for one in parts], [one.since for one in parts], asks)

    def repair(self, at: int, children: list[int], joined: int = 0) -> int | None:
        here = self.here(at, children, joined)
        return self.reliable.fault_handler(here, Join(G, NODE, 3, "parent failed"))

    def need(self) -> tuple[int, int]:
        (need,) = self.record.needs.values()
        return need.at, need.since

    def common(self, extras: list[int | None]) -> int | None:
        joins = [Join(G, node, 0, "own", extra) for node, extra in enumerate(extras)]
        return common_extra(self.reliable, joins)


both = pytest.mark.parametrize("node_of", [Ours, Theirs])


@both
def test_a_new_forwarder_carries_the_least_of_what_its_children_carry(node_of) -> None:
    node = node_of(4)
    assert node.common([None, 7, 5, 9]) == 5
    assert node.common([None]) is None


@both
def test_a_repairing_join_asks_for_what_a_child_still_needs(node_of) -> None:
    """Numbers in epoch 0, a gap before the only message."""
    node = node_of(4)
    node.know(5, {5: 0})
    assert node.join(3, [2], 2, 3) == Answer([], [], [], asks=[3])
    assert node.repair(3, [2]) == 3
    node.know(5, {4: 0})
    assert node.repair(3, [2]) == 5
    assert node.join(3, [2], 2, 3).numbers == [4, 5]


@both
def test_who_has_not_begun_asks_for_the_round_of_the_join(node_of) -> None:
    """Node 1 is cut off and has not begun when nodes 2 and 3 join under it in round 3."""
    node, nothing = node_of(8), Answer([], [], [], [])
    assert node.join(3, [2, 3], 2, None, joined=-1) == nothing
    assert node.join(3, [2, 3], 3, None, joined=-1) == nothing
    assert node.repair(5, [2, 3], joined=-1) == 3 << 32
    assert node.repair(5, [], joined=4) == 4 << 32
    assert node.repair(5, [], joined=5) is None
    # a child that has a number: it does not say whether it comes before round 3
    node.join(4, [2, 3, 4], 4, 17, joined=-1)
    assert node.repair(5, [2, 3, 4], joined=-1) == 0


@both
@pytest.mark.parametrize(("since", "served"), [(2, True), (4, False)])
def test_a_child_is_served_from_the_round_of_its_join(node_of, since: int, served: bool) -> None:
    """A later number may be of an earlier publication: 6 was kept by its source."""
    node = node_of(8)
    node.know(8, {4: 2, 5: 3, 6: 2, 7: 4, 8: 5}, since)
    sent = node.join(6, [2], 2, 3 << 32)
    assert sent == (Answer([5, 6, 7, 8], [4], [3], []) if served else Answer([], [], [], [3 << 32]))


@both
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
def test_a_question_adds_to_what_a_child_waits_for(node_of, had: int, extra: int, at: int) -> None:
    """Node 1 lacks 4 to 9; child 2 has sent its JOIN in round 3, and asks in round 5."""
    node = node_of(8)
    node.know(10, {10: 2}, 3)
    node.join(3, [2], 2, had)
    assert node.join(5, [2], 2, extra, "ask").asks == ([] if at == 10 else [at])
    assert node.need() == (at, min(3, had >> 32 or 3, extra >> 32 or 3))
    # a JOIN says anew what the child needs
    sent = node.join(6, [2], 2, 9)
    assert (sent.numbers, sent.since) == ([10], [6])


@both
def test_a_question_for_a_round_is_simply_answered_where_all_is_here(node_of) -> None:
    node = node_of(8)
    node.know(10, {7: 1, 8: 2, 9: 3, 10: 4}, 1)
    node.join(5, [2], 2, 8)
    assert node.join(5, [2], 2, 2 << 32, "ask").numbers == [8, 9, 10]
