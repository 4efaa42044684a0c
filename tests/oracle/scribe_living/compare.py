"""Where two snapshots differ, in words: for comparing another implementation round by round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from ..living import compare
from .world import Snapshot

PARTS = tuple(
    one.name
    for one in fields(Snapshot)
    if one.compare and one.name not in ("round", "ordered", "members", "overlay")
)


def differences(
    ours: Snapshot, theirs: Snapshot, parts: Iterable[str] = PARTS, most: int = 5
) -> list[str]:
    """See `living.compare`; of Scribe's parts."""
    return compare.differences(ours, theirs, parts, most)
