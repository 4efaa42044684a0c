"""What a node does with the messages of a superstep does not depend on their order."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from . import joining, roots, upkeep
from .cases import random_world
from .world import differences


@pytest.mark.parametrize("seed", range(12))
def test_messages_of_a_superstep_may_be_taken_in_any_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = random_world(seed)
    before = world.play().seen
    pick = random.Random(seed)

    def shuffled(items: Iterable, key: object = None) -> list:
        """Only ties have an order of their own, and those of arrivals have none."""
        items = list(items)
        pick.shuffle(items)
        return items if key in (None, joining.place_of) else sorted(items, key=key)

    for module in (joining, roots, upkeep):
        monkeypatch.setattr(module, "sorted", shuffled, raising=False)
    pairs = zip(before, world.play().seen, strict=True)
    assert [differences(a, b) for a, b in pairs] == [[]] * world.rounds
