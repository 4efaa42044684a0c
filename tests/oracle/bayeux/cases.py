"""Seeded random cases of Bayeux: an overlay, groups, options, a source for each group."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ..imperfect import Damage, overlay_of, random_damage
from ..pastry import Overlay
from ..random_cases import Case, random_case
from .session import PASTRY, SURROGATE, Options, Published, Session, publish


@dataclass(frozen=True)
class BayeuxCase:
    """A case, as plain data; `sources` has (node, way: root | routed | direct) of each group.

    The way is that of all groups.
    """

    case: Case
    damage: Damage | None
    options: Options
    sources: dict[int, tuple[int, str]]

    def overlay(self) -> Overlay:
        """Return the overlay, with perfect or damaged tables."""
        return overlay_of(self.case, self.case.routes(), self.damage)

    def sessions(self, overlay: Overlay) -> dict[int, Session]:
        """Return each group's session after all joins."""
        found = {}
        for group, key in self.case.keys.items():
            found[group] = Session(overlay, key, self.options)
            for member in sorted(self.case.members[group]):
                found[group].join(member)
        return found

    def publications(self, sessions: dict[int, Session]) -> dict[int, Published]:
        """Return what comes of each group's publication."""
        return {group: publish(one, *self.sources[group]) for group, one in sessions.items()}


def deep(case: Case, rng: random.Random) -> Case:
    """Return the case with long routes and large groups: binary digits, few leaves."""
    nodes = sorted(case.ids)
    members = {
        group: frozenset(rng.sample(nodes, rng.randint(len(nodes) // 2 + 1, len(nodes))))
        for group in case.keys
    }
    return replace(case, b=1, leaf_set_size=rng.choice([2, 2, 4]), members=members)


def random_bayeux(seed: int, perfect: bool | None = None) -> BayeuxCase:
    """Draw a case; two of three have perfect tables, unless `perfect` says."""
    rng = random.Random(f"bayeux {seed}")
    case = random_case(seed)
    case = replace(case, b=min(case.b, 4))  # rows of 256 cells take long, and are no other case
    if rng.random() < 0.4:
        case = deep(case, rng)
    if perfect is None:
        perfect = rng.random() < 2 / 3
    options = Options(
        partitions=rng.choice([1, 1, 2, 3, 4, 8]),
        root=rng.choice([PASTRY, SURROGATE]),
        hops=rng.choice(["table", "leaf_set"]),
    )
    overlay = case.overlay(case.routes())
    sources, way = {}, rng.choice(["root", "routed", "direct"])
    for group, key in case.keys.items():
        drawn = rng.choice(sorted(case.members[group]))
        sources[group] = (overlay.root(key) if way == "root" else drawn), way
    return BayeuxCase(case, None if perfect else random_damage(rng), options, sources)
