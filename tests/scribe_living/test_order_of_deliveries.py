"""Deliveries out of order, by an application that has numbers and keeps no order."""

from types import SimpleNamespace

import numpy as np
import pytest
from split_states import empty_state, written

from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.rounds.group_events import Groups
from scribe_spark.systems.scribe import end_of_round
from scribe_spark.systems.scribe.sources import FATES, SentPublications
from scribe_spark.systems.scribe.state import Undelivered

# --- deliveries in any order whatever

GROUPS, NODES, ROUNDS = 3, 7, 25


@pytest.mark.parametrize("seed", range(20))
def test_members_come_and_go_and_get_anything_at_any_time(seed: int) -> None:
    pick = np.random.default_rng(seed)
    numbers = pick.permutation(NODES) * 3 + 1  # of the nodes, which are positions below
    ids = np.arange(NODES, dtype=np.uint64)
    known = Ring(ids, ids, numbers, numbers)
    groups = Groups(np.arange(GROUPS), Keys(ids[:GROUPS], ids[:GROUPS]), NODES)
    state = empty_state(NODES, GROUPS)
    # of members: round in which the root took it, round of publication, source
    had: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    taken: dict[tuple[int, int, int], int] = {}  # group, round, source
    kept: list[tuple[int, int, int]] = []
    for number in range(ROUNDS):
        # 1. members join and quit
        for group, node in np.ndindex(GROUPS, NODES):
            row = state.entries.find(np.array([group * NODES + node]))
            if (group, node) not in had and pick.random() < 0.2:
                if row[0] < 0:
                    state.entries.enter(np.array([group * NODES + node]), number, "own")
                    row = state.entries.find(np.array([group * NODES + node]))
                state.entries.member[row], state.entries.joined[row] = True, number
                had[group, node] = []
            elif (group, node) in had and pick.random() < 0.08:
                state.entries.member[row] = False
                if pick.random() < 0.5:
                    state.entries.drop(row)
                del had[group, node]
        # 2. publications, and who gets what
        sent = [one for one in np.ndindex(GROUPS, NODES) if pick.random() < 0.06]
        fresh = [(group, number, source) for group, source in sent]
        under_way = sorted(kept + fresh)
        fates = [pick.choice(["sent"] * 6 + ["no root", "kept", "kept"]) for _ in under_way]
        of = list(zip(under_way, fates, strict=True))
        kept = [one for one, fate in of if fate == "kept"]
        now = [one for one, fate in of if fate == "sent"]
        late = [one for one in taken if pick.random() < 0.05]
        taken |= dict.fromkeys(now, number)
        got = [
            (*one, node)
            for one in late + now
            for node in range(NODES)
            if (one[0], node) in had and pick.random() < (0.7 if one in now else 0.3)
        ]
        got = [got[at] for at in pick.permutation(len(got))]
        missing = [
            (group, number << 32 | int(numbers[source]), node, -1)
            for group, _, source in fresh
            for node in range(NODES)
            if (group, node) in had and (group, number, source, node) not in got
        ]
        state.missing = Undelivered(*np.array(missing, dtype=np.int64).reshape(-1, 4).T)
        # 3. which of them are out of order
        scribe = SimpleNamespace(
            best_effort=False,
            ring=known,
            round=SimpleNamespace(nodes=0),
            state=state,
            groups=groups,
            number=number,
            key=lambda group, node: group * NODES + node,
        )
        group, at, source = np.array(under_way, dtype=np.int64).reshape(-1, 3).T
        fate = np.array([FATES.index(one) for one in fates], dtype=np.int8)
        given = SentPublications(
            group, source, at << 32 | numbers[source], source, fate, source, source
        )
        to, at, by, node = np.array(got, dtype=np.int64).reshape(-1, 4).T
        ours = end_of_round.out_of_order(scribe, given, (to, at << 32 | numbers[by], node))
        theirs = []
        for one, at, by, member in got:
            place = (taken[one, at, by], at, by)
            theirs.append(any(other > place for other in had[one, member]))
            had[one, member].append(place)
        assert ours.tolist() == theirs
        if seed % 2:
            state = written(state)
