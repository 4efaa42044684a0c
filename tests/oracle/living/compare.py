"""Where two snapshots differ, in words: for comparing another implementation round by round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PARTS = ("live", "leaf_sets", "sides", "cells", "counts", "lookups", "new_leafs")


def differences(ours: Any, theirs: Any, parts: Iterable[str] = PARTS, most: int = 5) -> list[str]:
    """At most `most` lines for each part and side that differs; none where the two are equal.

    Snapshots are those of Pastry, or of another system whose parts are named.
    """
    lines = []
    for part in parts:
        a, b = getattr(ours, part), getattr(theirs, part)
        if isinstance(a, Mapping):
            a, b = sorted(a.items()), sorted(b.items())
        if a == b:
            continue
        only_a = [row for row in a if row not in b]
        only_b = [row for row in b if row not in a]
        lines += [f"round {ours.round}, {part}, ours: {row}" for row in only_a[:most]]
        lines += [f"round {ours.round}, {part}, theirs: {row}" for row in only_b[:most]]
        if not only_a and not only_b:
            lines.append(f"round {ours.round}, {part}: the same rows in another order")
    return lines
