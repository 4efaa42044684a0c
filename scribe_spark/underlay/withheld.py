"""The nodes that forward no copies of publications.

Such a node takes part in trees and meshes as every other one.  It sends the publications of its
own, but no copy of another node's; perhaps no announcement, either.

Rule: docs/rules.md, N6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, find_sorted
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import read_table
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.runtime.distribute import discard_arrays, open_array

if TYPE_CHECKING:
    from scribe_spark.config import ExperimentConfig


@dataclass(frozen=True)
class Withheld:
    """The nodes that withhold copies of publications: drawn ones, or those of a list; picklable.

    Attributes
    ----------
    seed : int
        The key of the draws.
    share : float
        The share of all nodes that withhold.
    nodes : str or None
        The name of the distributed array with the numbers of the nodes that withhold, ascending.
    announcements : bool
        True if the nodes also withhold announcements of other nodes' publications.
    """

    seed: int
    share: float = 0.0
    nodes: str | None = None
    announcements: bool = False

    def of_nodes(self, node: np.ndarray) -> np.ndarray:
        """Return True for nodes (given by number) that withhold copies."""
        if self.nodes is not None:
            return find_sorted(open_array(self.nodes), node) >= 0
        drawn = draws.bits_np(self.seed, "withhold", node) >> np.uint64(11)
        return drawn * 2.0**-53 < self.share

    def release(self) -> None:
        """Free the disk space of the list of nodes."""
        if self.nodes is not None:
            discard_arrays(self.nodes)


# --- the nodes of a config that forward no copies of publications: rule N6


def withheld_nodes(config: ExperimentConfig) -> Withheld | np.ndarray | None:
    """Return the nodes that forward no copies: a rule, or numbers (ascending); None: none.

    Raises
    ------
    InputError
        The table of nodes cannot be read, names an unknown node, or names all nodes; or the config
        has only one class.
    """
    given = config.forwarding
    if given.withhold is None:
        return None
    if given.share is not None:
        return Withheld(config.seed, given.share, announcements=given.announcements)
    classes = NodeClasses.of(config)
    if (name := given.of_class(classes.names)) is not None:
        if len(classes.names) == 1:
            raise InputError("withhold", name, "is the class of all nodes; name one of several")
        of_node = classes.of_nodes(np.arange(config.overlay.nodes))
        return np.flatnonzero(of_node == classes.names.index(name))
    return _listed(given.withhold, config.overlay.nodes)


def _listed(path: str, nodes: int) -> np.ndarray:
    """Return the numbers of the nodes in a table's column ``node``."""
    node = read_table(path, "withhold", {"node": "int"})["node"].to_numpy(np.int64)
    if (bad := np.flatnonzero((node < 0) | (node >= nodes))).size:
        row = int(bad[0])
        what = f"row {row + 1} has node {node[row]}; nodes are 0 to {nodes - 1:,}"
        raise InputError("withhold", path, what)
    found = distinct(node)
    if len(found) == nodes:
        raise InputError("withhold", path, "has all nodes; some node must forward")
    return found
