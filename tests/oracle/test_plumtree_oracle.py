"""The oracle of HyParView and Plumtree: what always holds.

Published values are in tests/plumtree/test_protocols.py, of the kernels, which equal the oracle.
"""

from collections import defaultdict

import networkx
import pytest
from seeds import seeds

from .plumtree.cases import random_case
from .plumtree.plumtree import Rules


@pytest.mark.parametrize("seed", seeds(range(400), 10))
def test_what_always_holds(seed: int) -> None:
    """Views have their bounds, and receipts, copies and counts agree."""
    case = random_case(seed)
    network = case.network()
    network.play()
    played = network.played()
    views = case.views
    for me, view in played.active.items():
        assert me not in view | played.passive[me]
        assert not view & played.passive[me]
        assert played.eager[me] <= view
        if case.static is None:
            assert len(view) <= views.active
            assert len(played.passive[me]) <= views.passive
        if views.breaks:
            assert view <= network.alive
    assert len(played.copies) == played.counts["gossip"]
    came, never = defaultdict(list), float("inf")
    for p, y, x, hops, leaves, arrives in played.copies:
        assert arrives == leaves + case.delay()(y, x)
        assert (p, y) in played.receipts
        assert leaves >= played.receipts[p, y][0]
        came[p, x].append((arrives, y, hops))
    for (p, x), (at, hops, sender) in played.receipts.items():
        if sender >= 0:
            assert (at, sender, hops) == min(came[p, x])
            assert hops == played.receipts[p, sender][1] + 1
    first = sum(row[2] >= 0 for row in played.receipts.values())
    gone = {one.node: one.at for one in case.commands if one.kind in ("fail", "leave")}
    lost = sum(arrives >= gone.get(x, never) for _, _, x, _, _, arrives in played.copies)
    if case.rules.rules != "corrosion" and not case.rules.threshold:
        assert played.counts["prune"] == len(played.copies) - first - lost
    keeps = case.rules.payload_us == Rules().payload_us
    if case.static is not None and keeps and not any(one.kind == "fail" for one in case.commands):
        for one in case.commands:
            reached = {x for p, x in played.receipts if p == one.value}
            views_of = networkx.DiGraph(case.static)
            assert reached == {one.node, *networkx.descendants(views_of, one.node)}
