"""Pastry 2001's experiment: a share of the nodes fails silently at once; hops before and after."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from .figures import built
from .measures import table_quality, wrong_leaf_sets
from .overlay import Rules
from .world import step


def mass_failure(
    count: int, share: float, lookups: int, table_repair: str, rounds: int = 3, seed: int = 1
) -> list[dict]:
    """Round 0 is quiet, in round 1 the nodes fail; a row of figures for each round."""
    overlay, _ = built(count, seed, replace(Rules(), table_repair=table_repair))
    failing = random.Random(seed).sample(range(count), int(share * count))
    rows = []
    for at in range(rounds + 1):
        seen = step(overlay, at, [(1, node, "fail") for node in failing], lookups)
        results, quality = seen.lookups, table_quality(overlay)
        rows.append(
            {
                "round": at,
                "right": sum(result.right for result in results) / len(results),
                "hops": round(sum(result.hops for result in results) / len(results), 4),
                "hops and lost": round(
                    sum(result.hops + result.lost for result in results) / len(results), 4
                ),
                "cells dead": quality.dead,
                "cells missing": quality.missing,
                "leaf sets wrong": len(wrong_leaf_sets(overlay)),
                "calls per failed": round(
                    sum(seen.counts.get(kind, 0) for kind in ("repair", "check")) / len(failing), 1
                ),
                "counts": seen.counts,
            }
        )
    return rows


if __name__ == "__main__":
    size, sent = int(sys.argv[1]), int(sys.argv[2])
    for repair in ("none", "lazy", "eager"):
        for line in mass_failure(size, 0.1, sent, repair):
            print(repair, line, flush=True)
