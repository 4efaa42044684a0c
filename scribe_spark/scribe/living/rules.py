"""The rules of groups in a living world, as kernels need them; times are rounds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScribeRules"]


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
    """

    k: int = 5
    parent_timeout: int = 2
    refresh: int = 2
    child_timeout: int = 4
    deadline: int = 5
    reliable: bool = False
    buffer: int = 64
