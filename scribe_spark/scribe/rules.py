"""The rules of groups in a living world, as kernels need them; times are rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["RemoverRules", "ScribeRules"]


@dataclass(frozen=True)
class RemoverRules:
    """When a node is overloaded, and what it drops then (docs/variants.md).

    Attributes
    ----------
    limit : int
        A node with more children than this, over all groups, is overloaded.
    group, child, table : str
        What is dropped from, which child, and what that is sent: `config.TreesConfig.shed_group`,
        ``shed_child``, ``shed_table``.
    capacities : ndarray of int64, optional
        Every node's own limit, by the node's number.
    """

    limit: int = 64
    group: str = "largest"
    child: str = "farthest"
    table: str = "remaining"
    capacities: np.ndarray | None = None

    def limits(self, number: np.ndarray) -> np.ndarray:
        """Return the limits of nodes, given by their numbers."""
        if self.capacities is None:
            return np.full(len(number), self.limit)
        return self.capacities[number]


@dataclass(frozen=True)
class ScribeRules:
    """How trees and roots are kept.

    Attributes
    ----------
    k : int
        The group's state is at the root and at the k - 1 nodes nearest to it; at most l / 2.
    parent_timeout : int
        A node suspects its parent after so many rounds without a sign of it.
    refresh : int
        How often a child refreshes its entry.
    child_timeout : int
        After how many rounds without a refresh an entry is dropped; more than `refresh`.
    deadline : int
        A publication that is delivered up to so many rounds later is late, and lost afterwards.
    reliable : bool
        Whether delivery is reliable and ordered; else best effort.
    buffer : int
        Reliable delivery: how many messages a node keeps.
    remover : RemoverRules, optional
        Of the bottleneck remover, where nodes have limits of children.
    source : str
        Where the multicasts that are measured begin: ``root``; or at their sources, whose messages
        are ``routed`` to the root, or go to its address where they keep it (``direct``).
    collapse : bool
        Whether paths without branches are cut short.
    lazy : RemoverRules, optional
        Trees grow lazily: nodes take children in up to these limits.
    """

    k: int = 5
    parent_timeout: int = 2
    refresh: int = 2
    child_timeout: int = 4
    deadline: int = 5
    reliable: bool = False
    buffer: int = 64
    remover: RemoverRules | None = None
    source: str = "root"
    collapse: bool = False
    lazy: RemoverRules | None = None

    @property
    def limits(self) -> RemoverRules | None:
        """The limits of children, of the remover or of lazy growth; None where nodes have none."""
        return self.remover or self.lazy
