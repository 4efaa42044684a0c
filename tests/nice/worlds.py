"""Random worlds of NICE: joins, quits, silent deaths and returns in several groups, then rest."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class Events:
    """The events of a period, and who lives and is a member after them."""

    join: Pairs
    quit: Pairs
    fail: set[int]
    back: set[int]
    alive: set[int]
    members: Pairs


def events(seed: int, nodes: int, groups: int, periods: int, calm: int) -> Iterator[Events]:
    """The events of periods; in the last `calm` ones nothing happens."""
    drawn = random.Random(seed)
    members: Pairs = set()
    alive = set(range(nodes))
    for number in range(periods):
        rate = 0.04 if number < periods - calm else 0.0
        fail = {node for node in sorted(alive) if drawn.random() < rate}
        dead = sorted(set(range(nodes)) - alive)
        back = {node for node in dead if drawn.random() < 6 * rate}
        alive = (alive - fail) | back
        members = {pair for pair in members if pair[1] in alive - back}
        quit = {pair for pair in sorted(members) if drawn.random() < rate}
        others = [(group, node) for group in range(groups) for node in sorted(alive)]
        share = 1.5 * rate if number else 0.6
        join = {pair for pair in others if pair not in members and drawn.random() < share}
        members = (members - quit) | join
        yield Events(join, quit, fail, back, alive, set(members))
