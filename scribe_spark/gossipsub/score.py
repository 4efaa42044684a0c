"""The score of peers: the seam where v1.1's scoring goes.

Everything that asks for a score asks here.  There is no scoring yet: all scores are zero, so nobody
is refused or dropped for its score, and opportunistic grafting, which looks for a median below a
threshold of zero, never happens (rule G5).

References
----------
libp2p/specs, gossipsub-v1.1.md, "Peer Scoring".
"""

from __future__ import annotations

import numpy as np


def score(topic: np.ndarray, node: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """Return the score that nodes give to peers in a topic: float64, in the shape of `peer`."""
    return np.zeros(np.shape(peer))
