"""The rule of routing of an overlay as a kernel: the next hop of messages at the nodes of a bucket.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scribe_spark.engine import Tables


class NextHop(Protocol):
    """A rule of routing; picklable.

    A rule that draws random values has an attribute `drawn_by`: the payload columns that key its
    draws.  It gets these columns as arguments after the keys.
    """

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """Return the positions of the next hops of messages: int64, shape (m,).

        Parameters
        ----------
        first : int
            The position of the bucket's first node.
        tables : Tables
            The tables of the bucket.
        at : ndarray of int64, shape (m,)
            The positions of the nodes that have the messages.
        key_hi, key_lo : ndarray of uint64, shape (m,)
            Halves of the messages' keys.

        Returns
        -------
        ndarray of int64
            The node itself if it is the root of the key; -1 if the node knows no next hop.
        """
        ...
