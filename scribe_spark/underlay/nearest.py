"""The nearest of a set of routers, read from the matrix of all delays."""

from __future__ import annotations

import numpy as np

__all__ = ["nearest"]


def nearest(
    delay_us: np.ndarray, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """For each query router, the nearest candidate of each segment.

    Parameters
    ----------
    delay_us : ndarray of int32, shape (R, R)
    queries : ndarray of int, shape (Q,)
        Router indices.
    candidates : ndarray of int, shape (C,)
        Router indices, most preferred first within a segment: the first of equals wins.
    starts : ndarray of int, shape (K,)
        Where each (non-empty) segment of `candidates` begins.

    Returns
    -------
    ndarray of int64, shape (Q, K)
        Positions in `candidates`.
    """
    found = np.empty((len(queries), len(starts)), dtype=np.int64)
    ends = np.r_[starts[1:], len(candidates)]
    block = max(1, 2**18 // max(1, len(candidates)))  # about 1 MiB of delays: stays in cache
    delays, routers = np.asarray(delay_us).reshape(-1), delay_us.shape[1]
    for at in range(0, len(queries), block):
        seen = delays.take(queries[at : at + block, None] * routers + candidates)
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found[at : at + block, k] = start + seen[:, start:end].argmin(axis=1)
    return found
