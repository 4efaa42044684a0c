"""The names that a view gives to positions and indices."""

from __future__ import annotations

import numpy as np
import pytest

from scribe_spark.engine.buckets import arrow_schema
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.ring import Ring
from scribe_spark.engine.views import NODES, ROUTERS, Names
from scribe_spark.multicast import CONTROL


class Kernel:
    """Routers whose ids are ten times their indices."""

    def ids(self, index):
        return index * 10


HALF = np.arange(3, dtype=np.uint64)
NAMES = Names(
    RingInMemory(Ring(HALF, HALF, np.array([70, 50, 60]), np.array([2, 0, 1]))),
    Kernel(),
    np.array([8, 9]),
)


def test_columns_are_named_by_what_they_are():
    columns = {
        "group": np.array([1, -1, 0]),
        "sender": np.array([2, 0, 1], dtype=np.int32),
        "receiver": np.array([0, 1, 2]),
        "kind": "JOIN",
        "messages": np.array([4, 5, 6]),
        "other": np.zeros(3),
    }
    assert NAMES.batch(columns, arrow_schema(CONTROL)).to_pydict() == {
        "group": [9, None, 8],
        "sender": [60, 70, 50],
        "receiver": [70, 50, 60],
        "sender_router": [10, 20, 0],
        "receiver_router": [20, 0, 10],
        "kind": ["JOIN"] * 3,
        "messages": [4, 5, 6],
    }


@pytest.mark.parametrize("name", NODES)
def test_every_column_of_nodes_has_one_of_routers(name):
    router = next(router for router, node in ROUTERS.items() if node == name)
    wanted = arrow_schema(f"{name} bigint, {router} int")
    found = NAMES.batch({name: np.array([1])}, wanted)
    assert found.to_pydict() == {name: [50], router: [0]}
    assert found.schema == wanted


def test_an_index_below_0_is_null_where_there_is_nothing_to_name():
    nobody = Names(NAMES.facts, NAMES.kernel, np.zeros(0, dtype=np.int64))
    columns = {"group": np.array([-1, -1]), "node": np.array([-1, 2])}
    found = nobody.batch(columns, arrow_schema("group bigint, node bigint"))
    assert found.to_pydict() == {"group": [None, None], "node": [None, 60]}
