"""The score of peers: an interface for the peer scoring of v1.1.

All code that needs a score calls this module.  Scoring is not implemented: all scores are zero.  So
no peer is refused or dropped for its score, and opportunistic grafting, which requires a median
score below a threshold of zero, never happens (rule G5).

References
----------
libp2p/specs, gossipsub-v1.1.md, "Peer Scoring".
"""

from __future__ import annotations

import numpy as np


def score(topic: np.ndarray, node: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """Return the scores that nodes give to peers in a topic: float64, shape of `peer`."""
    return np.zeros(np.shape(peer))
