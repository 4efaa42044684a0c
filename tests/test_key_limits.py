"""Keys of groups and nodes: exact up to their limit, and refused beyond it before Spark starts."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.config.rounds import MOST_ROUNDS
from scribe_spark.core.errors import InputError
from scribe_spark.core.key_limits import MOST_KEYS, refuse_groups_of_world
from scribe_spark.core.keys import common_keys, key_of, key_parts, mixed_key, order_of
from scribe_spark.engine.program import Tables
from scribe_spark.experiments import check, check_world_run
from scribe_spark.rounds.group_events import publication_ids
from scribe_spark.systems.gossipsub.router import Links
from scribe_spark.systems.gossipsub.router import LinkSpace as LinkSpace
from scribe_spark.systems.scribe.scribe import Scribe
from scribe_spark.systems.scribe.sources import AGAIN, GOT, note_got
from scribe_spark.systems.scribe.state import Received

NODES = 3_000_000


def largest(nodes: int, times: int = 1) -> int:
    """Return the most groups of keys that have `times` more numbers than a group and two nodes."""
    return (2**63 - 1) // (nodes**2 * times)


# --- the functions that make keys


@pytest.mark.parametrize("most", [2**10, 2**21, 2**40, 2**62], ids=str)
def test_keys_of_two_tables_compare_as_their_rows_also_beyond_63_bits(most):
    rng = np.random.default_rng(most % 97)
    sizes = (5, most, 3, most)
    tables = [[rng.integers(0, min(size, 4), 200) for size in sizes] for _ in range(2)]
    for table in tables:  # spread out: few numbers, far apart
        table[1], table[3] = (column * (most // 4) for column in (table[1], table[3]))
    keys = common_keys(sizes, *tables)
    every = list(zip(np.concatenate(keys).tolist(), _rows(tables), strict=True))
    for key, row in every[::7]:
        assert [(key < one, key == one) for one, _ in every] == [
            (row < other, row == other) for _, other in every
        ]
    if math.prod(sizes) <= MOST_KEYS:
        assert keys[0].tolist() == mixed_key(tables[0], sizes[1:]).tolist()
    assert [_rows([tables[0]])[at] for at in order_of(*tables[0])] == sorted(_rows([tables[0]]))


def _rows(tables):
    return [row for table in tables for row in zip(*(c.tolist() for c in table), strict=True)]


# --- each kind of key at its limit


def _children(groups: int, nodes: int) -> tuple[np.ndarray, tuple]:
    scribe = SimpleNamespace(state=SimpleNamespace(size=nodes))
    last = np.array([groups - 1]), np.array([nodes - 1])
    key = Scribe.key(scribe, Scribe.key(scribe, *last), last[1])
    pair, child = Scribe.split(scribe, key)
    return key, (*Scribe.split(scribe, pair), child)


def _links(groups: int, nodes: int) -> tuple[np.ndarray, tuple]:
    space = LinkSpace(nodes)
    place = np.array([groups * nodes - 1])
    key = space.key(place, np.array([nodes - 1]))
    # the rows of the last place end where its keys do
    assert space.count(Links(key, np.array([1], np.int8)), place).tolist() == [1]
    return key, space.split(key)


def _lists(groups: int, nodes: int) -> tuple[np.ndarray, tuple]:
    last = np.array([4 * groups - 1]), np.array([nodes - 1]), np.array([nodes - 1])
    key = key_of(last, nodes)
    session, *ends = key_parts(key, ("session", "node", "member"), nodes).values()
    return key, (session // 4, *ends)


def _got(groups: int, nodes: int) -> tuple[np.ndarray, tuple]:
    scribe = Receiver(groups, nodes, number=5)
    last = np.array([groups - 1]), np.array([nodes - 1])
    note_got(scribe, *last, publication_ids(5, last[1]))
    key = scribe.tables[GOT]["key"]
    return key, (*last, key % nodes)


#: Kinds of keys: how many numbers they have besides group, node and node; what makes the last key
#: and takes it apart; and the config that has them.
KINDS = {
    "children": (1, _children, RunConfig, {}),
    "links": (1, _links, RunConfig, {"systems": "gossipsub"}),
    "lists": (4, _lists, RunConfig, {"systems": "bayeux", "bayeux_partitions": 4}),
    "got": (6, _got, WorldConfig, {}),
    "got in a run with rounds": (6, _got, RunConfig, {"generator": "mass-failure"}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [NODES, 10_000_000, 2**30])
def test_the_last_key_is_exact_and_one_group_more_is_refused(kind, nodes):
    times, make, config, more = KINDS[kind]
    groups = largest(nodes, times)
    if groups:
        key, parts = make(groups, nodes)
        assert key.tolist() == [groups * nodes**2 * times - 1]
        assert [part.tolist() for part in parts] == [[groups - 1], [nodes - 1], [nodes - 1]]
        config(nodes=nodes, groups=groups, group_size=1, **more)
    with pytest.raises(InputError) as refused:
        config(nodes=nodes, groups=groups + 1, group_size=1, **more)
    line = str(refused.value)
    if groups:
        assert line.startswith(f"groups = {groups + 1}: must be at most {groups:,} with ")
    else:
        assert line.startswith(f"nodes = {nodes}: must be at most ")
    fewer = int(line.split("at most ")[-1].split(" ")[0].replace(",", ""))
    config(nodes=fewer, groups=groups + 1, group_size=1, **more)
    with pytest.raises(InputError):
        config(nodes=fewer + 1, groups=groups + 1, group_size=1, **more)


@pytest.mark.parametrize("nodes", [1, 1_000, 65_536, 10**6])
@pytest.mark.parametrize(("deadline", "rounds"), [(0, MOST_ROUNDS), (5, MOST_ROUNDS), (0, 1)])
def test_worlds_have_room_for_rounds_groups_and_nodes_too(nodes, deadline, rounds):
    with pytest.raises(InputError) as refused:
        refuse_groups_of_world(2**40, nodes, deadline, rounds)
    most = int(str(refused.value).split("must be at most ")[1].split(" ")[0].replace(",", ""))
    refuse_groups_of_world(most, nodes, deadline, rounds)
    with pytest.raises(InputError):
        refuse_groups_of_world(most + 1, nodes, deadline, rounds)
    assert rounds * most * nodes < 2**63
    assert (deadline + 1) * most * nodes**2 < 2**63
    assert most > 2**63 / (rounds + nodes * (deadline + 1)) / nodes / 2 or most == 2**31 - 1


def test_bits_of_cans_are_refused_with_more_groups_than_have_room():
    most = 2**23 - 2
    RunConfig(nodes=1_000_000, groups=most, group_size=1, systems="can")
    with pytest.raises(InputError, match=f"can_bits = 40: must be at most 39 with {most + 1:,} "):
        RunConfig(nodes=1_000_000, groups=most + 1, group_size=1, systems="can")
    RunConfig(nodes=1_000_000, groups=most + 1, group_size=1, systems="can", can_bits=39)
    RunConfig(nodes=1_000_000, groups=most + 1, group_size=1)


@pytest.mark.parametrize("system", ["can", "flooding"])
def test_systems_that_number_members_refuse_more_than_31_bits(system):
    per_group = (2**31 - 1 - 500 - 100_000_000) // 500
    given = {"nodes": 100_000_000, "groups": 500, "systems": system}
    RunConfig(**given, group_size=per_group)
    with pytest.raises(InputError, match=f"systems = '{system}': supports .* members in all"):
        RunConfig(**given, group_size=per_group + 1)
    RunConfig(**given | {"systems": "scribe"}, group_size=per_group + 1)


# --- refused before Spark starts, however it is asked for


def test_tables_of_members_are_refused_by_their_groups(tmp_path):
    path, how = str(tmp_path / "members.csv"), Execution(out=str(tmp_path / "out"))
    pd.DataFrame({"group": [-1, 2, 7], "node": 0}).to_csv(path, index=False)
    said = f"members = '{path}': has 3 groups, which must be at most "
    with pytest.raises(InputError) as refused:
        check(RunConfig(nodes=2**31 - 1, members=path), how)
    assert str(refused.value).startswith(f"{said}2 with 2,147,483,647 nodes; or give at most ")
    with pytest.raises(InputError) as refused:
        check_world_run(WorldConfig(nodes=10**9, members=path), how)
    assert str(refused.value).startswith(f"{said}1 with 1,000,000,000 nodes and lost_after = 5; ")


# --- kernels near the limit, beside plain Python


class Receiver:
    """What `duplicates` asks of the nodes of a bucket, all of them members."""

    def __init__(self, groups: int, nodes: int, number: int = 0) -> None:
        self.groups, self.number = range(groups), number
        self.rules, self.round = SimpleNamespace(deadline=5), SimpleNamespace(nodes=0)
        self.ring = SimpleNamespace(node=np.array([nodes - 1]))
        entries = SimpleNamespace(member=np.ones(1, dtype=bool))
        self.state = SimpleNamespace(size=nodes, got=Received(), entries=entries)
        self.tables, self.again = Tables(), Counter()

    def entry(self, group, node):
        return np.zeros(len(node), dtype=np.int64)

    def note(self, table, group, publication):
        assert table == AGAIN
        self.again.update(zip(group.tolist(), publication.tolist(), strict=True))
