"""The rules that say in which configs a field has an effect.

A rule is a mark in a field's annotation; a field may have several.  The command line refuses a flag
without effect by these rules (`cli.flags`).  Settings of a file are not refused, since a file may
serve several commands.  A user's extension may use any field, so the rules only know the names of
the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scribe_spark.core.errors import listed
from scribe_spark.core.paths import exists
from scribe_spark.core.registry import SYSTEMS

#: A function of a config that returns True if a field has an effect in it.
Test = Callable[[Any], bool]

#: The package's generators of events, overlays and variants of Scribe's trees.
GENERATORS = (
    *("mass-failure", "adjacent-failure", "churn", "flash-crowd", "root-failure"),
    *("group-crowd", "group-churn", "publications"),
)
OVERLAYS = ("perfect", "arrivals", "can")
VARIANTS = ("bottleneck", "collapse", "lazy")


@dataclass(frozen=True)
class UsedWhen:
    """A mark of a field, or a section, that has an effect only where ``test(config)`` is True.

    `remedy` ends the message about the flag if it has no effect.
    """

    test: Test
    remedy: str


def used_when(test: Test, needed: str) -> UsedWhen:
    """Return a mark of a field that has no effect without the flags in `needed` (words)."""
    return UsedWhen(test, f"has no effect without {needed}; give both")


#: The marks of fields that only runs use, and that only worlds use.
OF_RUNS = UsedWhen(lambda of: not of.is_world, "has no effect in worlds; leave it out")
OF_WORLDS = UsedWhen(lambda of: of.is_world, "has no effect in runs; leave it out")


# --- networks


def drawn_as(kind: str) -> Test:
    """Return a function of a config: True if its network has a `kind`, or a kind of a user."""

    def test(config: Any) -> bool:
        given = str(config.topology.kind)
        others = {"transit-stub", "power-law", "regions", "pairs", "edges"} - {kind}
        is_table = given != kind and exists(given, "topology")
        return not (given in others or given.startswith("topohub:") or is_table)

    return test


# --- events


def made_by(*names: str) -> Test:
    """Return a function of a config: True if a generator in `names`, or a user's, makes events."""
    return lambda config: bool(set(config.world.generators) - (set(GENERATORS) - set(names)))


def generated_by(*names: str) -> UsedWhen:
    """Return the mark of a field that is a parameter of some generators."""
    needed = names[0] if len(names) == 1 else f"of one of {listed(names)}"
    return used_when(made_by(*names), f"--generator {needed}")


def has_events(config: Any) -> bool:
    """Return True for configs with a generator or a table of events."""
    if "world" not in config.sections:
        return False
    return bool(config.world.generator or config.world.events)


def _happens(config: Any, *generators: str) -> bool:
    """Return True for configs with a table of events, or with one of several generators."""
    return has_events(config) and bool(config.world.events or made_by(*generators)(config))


def nodes_arrive(config: Any) -> bool:
    """Return True if nodes arrive, when the overlay is built or in a round."""
    is_built = config.overlay.kind not in ("perfect", "can")
    return is_built or _happens(config, "churn", "flash-crowd")


def nodes_fail(config: Any) -> bool:
    """Return True if nodes fail or leave."""
    return _happens(config, "mass-failure", "adjacent-failure", "root-failure", "churn")


def nodes_come_back(config: Any) -> bool:
    """Return True if a generator brings nodes back and no generator makes memberships."""
    makes = made_by("churn", "flash-crowd")(config)
    return makes and "group-churn" not in config.world.generators


def has_groups(config: Any) -> bool:
    """Return True for configs with groups; a world may have none."""
    return not config.is_world or config.groups.has_groups


def plays_scribe(config: Any) -> bool:
    """Return True if Scribe is simulated: a world may leave Scribe out."""
    return not config.is_world or used_by("scribe")(config)


def may_play_pastry(config: Any) -> bool:
    """Return True if a world may play Pastry: without groups, or for a system that may need it."""
    needed = (
        not SYSTEMS.is_built_in(name) or SYSTEMS[name].needs_pastry(config)
        for name in config.trees.systems
    )
    return not has_groups(config) or any(needed)


def has_publications(config: Any) -> bool:
    """Return True for worlds with publications."""
    return _happens(config, "publications")


# --- trees and systems


def used_by(*names: str) -> Test:
    """Return a test for configs with one of several variants or systems, or with a user's own."""

    def test(config: Any) -> bool:
        systems = filter(SYSTEMS.is_built_in, SYSTEMS)
        own = {*systems, *VARIANTS, "plain", *map(_system_of, VARIANTS)}
        others = own - {*names, *map(_system_of, names)}
        return bool({*config.trees.variants, *config.trees.systems} - others)

    return test


def in_systems(name: str) -> UsedWhen:
    """Return the mark of the section of a system, which has an effect if the system is named."""
    return used_when(used_by(name), f"{name} in --systems")


def _system_of(variant: str) -> str:
    return f"scribe_{variant}"
