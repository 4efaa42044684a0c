"""An overlay's rule of routing as a kernel: where messages at the nodes of a bucket go next.

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

    A rule that draws has an attribute `drawn_by`: the payload columns that key its draws, which it
    gets after the keys.
    """

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """Return the positions of the nodes that messages go to next: int64, shape (m,).

        Parameters
        ----------
        first : int
            The position of the bucket's first node.
        tables : Tables
            Of the bucket.
        at : ndarray of int64, shape (m,)
            Positions of nodes of the bucket.
        key_hi, key_lo : ndarray of uint64, shape (m,)
            Halves of the keys.

        Returns
        -------
        ndarray of int64
            The node itself where it is the root of the key; -1 where it knows nobody to ask.
        """
        ...
