"""Telling the loss of data that only executors had from every other failure of a job."""

from __future__ import annotations

__all__ = ["is_lost_block"]

#: What Spark says when a block of a local checkpoint is gone with its executor (Spark 4.1: the
#: error class; before: words).
_SIGNS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")


def is_lost_block(error: BaseException) -> bool:
    """Whether a job failed because a materialised table has lost blocks.

    A table without a checkpoint directory lives on the executors alone, and its lineage is cut: it
    can only be computed again from the start.
    """
    text = str(error)
    return any(sign in text for sign in _SIGNS)
