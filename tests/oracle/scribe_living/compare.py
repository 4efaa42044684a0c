"""Where two snapshots differ, in words: for comparing another implementation round by round."""

from __future__ import annotations

from collections.abc import Iterable

from ..living import compare
from .world import Snapshot

PARTS = (
    "live",
    "entries",
    "children",
    "copies",
    "addresses",
    "kept",
    "deliveries",
    "fates",
    "joins",
    "created",
    "lost_groups",
    "refused",
    "duplicates",
    "orphans",
    "counts",
    "at_root",
    "repairing",
    "overloaded",
)


def differences(
    ours: Snapshot, theirs: Snapshot, parts: Iterable[str] = PARTS, most: int = 5
) -> list[str]:
    """See `living.compare`; of Scribe's parts."""
    return compare.differences(ours, theirs, parts, most)
