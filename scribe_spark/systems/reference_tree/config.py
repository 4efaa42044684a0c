"""The section ``reference_tree`` of runs and worlds; `config.reference_tree` has the command's."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from scribe_spark.config.reference_tree import MOST_REFERENCE_CHILDREN
from scribe_spark.config.section import (
    Flat,
    OnlyInWorlds,
    Section,
    setting,
    used_by,
    used_when,
    within,
)

_OF_TREE = used_when(
    lambda config: config.reference_tree.kept or used_by("reference_tree")(config),
    "the reference tree: in a run --variants reference_tree, in a world --reference-tree",
)


class KeyTreeConfig(Section):
    """The settings of the reference tree: as a run's variant, and in a world that keeps it."""

    about: ClassVar[str] = (
        "The reference tree of Costa and Frey is one tree over all nodes (hosts) of a DHT: each "
        "node computes its position from the keys that it holds."
    )

    kept: Annotated[
        bool, Flat("reference_tree"), OnlyInWorlds("give --variants reference_tree")
    ] = setting(
        False,
        "Also maintain the reference tree over the live nodes, and count its messages in each "
        "round",
    )
    children: Annotated[
        int, within(2, MOST_REFERENCE_CHILDREN), Flat("reference_children"), _OF_TREE
    ] = setting(2, "Reference tree: greatest number of children of a key in the tree of all keys")
    assignment: Annotated[Literal["pastry", "chord"], Flat("reference_assignment"), _OF_TREE] = (
        setting(
            "pastry",
            "Reference tree: a node holds the keys nearest to its nodeId (pastry), or the keys "
            "after its predecessor's nodeId up to its own (chord)",
        )
    )
