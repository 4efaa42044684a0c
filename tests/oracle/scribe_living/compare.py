"""Where two snapshots differ, in words: for comparing another implementation round by round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    """At most `most` lines for each part and side that differs; none where the two are equal."""
    lines = []
    for part in parts:
        a, b = getattr(ours, part), getattr(theirs, part)
        if a == b:
            continue
        if isinstance(a, Mapping):
            a, b = sorted(a.items()), sorted(b.items())
        only_a = [row for row in a if row not in b]
        only_b = [row for row in b if row not in a]
        lines += [f"round {ours.round}, {part}, ours: {row}" for row in only_a[:most]]
        lines += [f"round {ours.round}, {part}, theirs: {row}" for row in only_b[:most]]
        if not only_a and not only_b:
            lines.append(f"round {ours.round}, {part}: the same rows in another order")
    return lines
