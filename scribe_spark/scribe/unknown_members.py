"""JOINs without the right credentials: refused by the first node that has the access list.

References
----------
JSAC 2002, Sections III and III.A.1 (credentials).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.scribe.scribe import Scribe

__all__ = ["refuse_unknown_members"]


def refuse_unknown_members(scribe: Scribe) -> None:
    """After the round's JOINs theirs go to the first node of the tree, and leave nothing behind.

    Where there is no such group they are sent again in the next round.
    """
    strangers = scribe.state.strangers
    group, source = scribe.split(strangers.key)
    refused = _knows_list(scribe, group, source)
    moving = np.flatnonzero(~refused)
    at, path = source[moving], source[moving, None]
    while len(moving):
        onward = scribe.hop("JOIN", at, group[moving])
        circled = (path == onward[:, None]).any(axis=1)  # also where it is delivered
        goes = (onward >= 0) & ~circled
        moving, at = moving[goes], onward[goes]
        path = np.concatenate([path[goes], at[:, None]], axis=1)
        knows = _knows_list(scribe, group[moving], at)
        refused[moving[knows]] = True
        moving, at, path = moving[~knows], at[~knows], path[~knows]
    scribe.refused["JOIN"] += int(refused.sum())
    strangers.keep(~refused)


def _knows_list(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Whether nodes can check credentials: they are in the tree, or have the group's state."""
    place = scribe.key(group, node)
    return scribe.state.entries.has(place) | scribe.state.copies.has(place)
