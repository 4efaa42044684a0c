"""The configs in which a field changes anything: rules that stand beside the fields.

A rule is a mark in a field's annotation; a field may have several.  The command line refuses a flag
that changes nothing by one of them (`cli.unused`).  The fields of a file are not refused, since a
file may be for several commands.  An extension that a user has registered may use any field, so the
rules know the package's own names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scribe_spark.core.paths import exists
from scribe_spark.errors import listed

#: Generators of events, overlays, variants of Scribe's trees, and the systems that are no variant.
GENERATORS = (
    *("mass-failure", "adjacent-failure", "churn", "flash-crowd", "root-failure"),
    *("group-crowd", "group-churn", "publications"),
)
OVERLAYS = ("perfect", "arrivals", "can")
VARIANTS = ("bottleneck", "collapse", "lazy")
SYSTEMS = (
    *("scribe", "reference_tree", "bayeux", "flooding", "can", "gossipsub"),
    *("ip_multicast", "naive_unicast"),
)

#: A config of a run, a world or the reference tree -> whether a field changes anything there.
Test = Callable[[Any], bool]


@dataclass(frozen=True)
class UsedWhen:
    """Marks a field, or a section, that changes something in some configs only.

    Attributes
    ----------
    test : callable
        config -> whether the field may change anything.
    remedy : str
        The end of a message about the flag where it changes nothing.
    """

    test: Test
    remedy: str


def used_when(test: Test, needed: str) -> UsedWhen:
    """Return the mark of a field that has no effect without something that is `needed`."""
    return UsedWhen(test, f"has no effect without {needed}; give that, too")


# --- networks


def drawn_as(kind: str) -> Test:
    """Test whether a network may be of a kind: it is no other one that is known, nor a table."""

    def test(config: Any) -> bool:
        given = str(config.topology.kind)
        others = {"transit-stub", "power-law", "regions"} - {kind}
        is_table = given != kind and exists(given, "topology")
        return not (given in others or given.startswith("topohub:") or is_table)

    return test


# --- events


def made_by(*names: str) -> Test:
    """Test whether one of some generators makes events, or one that a user has registered."""
    return lambda config: bool(set(config.world.generators) - (set(GENERATORS) - set(names)))


def generated_by(*names: str) -> UsedWhen:
    """Return the mark of a parameter of generators."""
    needed = names[0] if len(names) == 1 else f"of one of {listed(names)}"
    return used_when(made_by(*names), f"--generator {needed}")


def has_events(config: Any) -> bool:
    """Test for a generator or a table of events."""
    if "world" not in config.sections:
        return False
    return bool(config.world.generator or config.world.events)


def _happens(config: Any, *generators: str) -> bool:
    """Test for a table of events, or one of some generators."""
    return has_events(config) and bool(config.world.events or made_by(*generators)(config))


def nodes_arrive(config: Any) -> bool:
    """Test for nodes that arrive, when the overlay is built or in a round."""
    is_built = config.overlay.kind not in ("perfect", "can")
    return is_built or _happens(config, "churn", "flash-crowd")


def nodes_fail(config: Any) -> bool:
    """Test for nodes that fail or leave."""
    return _happens(config, "mass-failure", "adjacent-failure", "root-failure", "churn")


def nodes_come_back(config: Any) -> bool:
    """Test for a generator that brings nodes back, where none makes memberships."""
    makes = made_by("churn", "flash-crowd")(config)
    return makes and "group-churn" not in config.world.generators


def has_groups(config: Any) -> bool:
    """Test for groups, which a world may lack."""
    return not config.is_world or config.scribe.has_groups


def has_publications(config: Any) -> bool:
    """Test for publications in a world."""
    return _happens(config, "publications")


# --- trees and systems


def used_by(*names: str) -> Test:
    """Test whether a run or world asks for one of some variants or systems, or a user's own."""
    own = {*SYSTEMS, *VARIANTS, "plain", *map(_system_of, VARIANTS)}
    others = own - {*names, *map(_system_of, names)}
    return lambda config: bool({*config.trees.variants, *config.trees.systems} - others)


def _system_of(variant: str) -> str:
    return f"scribe_{variant}"
