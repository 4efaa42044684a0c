"""Many groups on a synthetic overlay, on arrays alone: a quarter of the nodes fails at once."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from large_groups import large_ring
from split_states import empty_state

from scribe_spark.systems.scribe.end_of_round import note_deliveries
from scribe_spark.systems.scribe.sources import SentPublications


@pytest.mark.parametrize("missed", [0, 1])
def test_a_delivery_is_noted_in_few_bytes(missed: int) -> None:
    """Without chunks and small integers, 33 and 74 bytes are needed."""
    nodes = 2**19
    known, state, zero = large_ring(nodes), empty_state(nodes, 1), np.zeros(1, dtype=np.int64)
    state.entries.enter(np.arange(nodes), 0, "own")
    state.entries.member[:], state.entries.joined[:] = True, 0
    rules = SimpleNamespace(deadline=5)
    scribe = SimpleNamespace(
        ring=known, state=state, groups=[0], number=0, rules=rules, round=SimpleNamespace(nodes=0)
    )
    node = np.arange(nodes - missed)[::-1].copy()
    got = np.zeros_like(node), np.zeros_like(node), node
    tracemalloc.start()
    note_deliveries(scribe, SentPublications(*[zero] * 7), got, (zero[:0], zero[:0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / nodes < (25, 55)[missed]
    assert state.missing.node.tolist() == [nodes - 1][:missed]
