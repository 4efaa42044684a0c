"""The desired degrees of meshes: those of the rules, or those of a node's class.

In a class with a degree, D is that degree.  D_low and D_high are shifted by the same difference,
and D_out is lowered to the bounds of the specification (at most D / 2, and below D_low).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scribe_spark.core.frozen_fields import FrozenFields
from scribe_spark.node_classes import NodeClasses

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.gossipsub import GossipSubConfig


class Degrees(NamedTuple):
    """D, D_low, D_high and D_out of some nodes: int64 arrays."""

    d: np.ndarray
    low: np.ndarray
    high: np.ndarray
    out: np.ndarray


def with_classes(config: GossipSubConfig, classes: NodeClasses | None) -> Any:
    """Return GossipSub's rules for tasks, together with the classes of nodes."""
    return FrozenFields(**vars(config.filled().for_tasks()), classes=classes)


def degrees(rules: Any, node: np.ndarray, number: Any) -> Degrees:
    """Return the desired degrees of nodes (positions).

    `rules` is the result of :func:`with_classes`, or the filled section of a config without
    classes.
    """
    classes: NodeClasses | None = getattr(rules, "classes", None)
    if classes is None or not classes.says("degree"):
        usual = rules.d, rules.d_low, rules.d_high, rules.d_out
        return Degrees(*(np.broadcast_to(np.int64(value), node.shape) for value in usual))
    d = classes.values("degree", number[node], rules.d)
    low = np.clip(rules.d_low + d - rules.d, 1, d)
    high = np.maximum(rules.d_high + d - rules.d, d)
    return Degrees(d, low, high, np.minimum(np.minimum(rules.d_out, d // 2), low - 1))
