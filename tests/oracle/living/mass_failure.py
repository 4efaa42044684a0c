"""Pastry 2001's experiment: a share of the nodes fails silently at once; hops before and after."""

from __future__ import annotations

import random
import sys

from .figures import built
from .measures import table_quality, wrong_leaf_sets
from .overlay import Rules
from .world import step


def mass_failure(
    count: int, share: float, lookups: int, rules: Rules, rounds: int = 3, seed: int = 1
) -> list[dict]:
    """Round 0 is quiet, in round 1 the nodes fail; a row of figures for each round."""
    overlay, _ = built(count, seed, rules)
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
                "questions per failed": round(seen.counts.get("repair", 0) / 2 / len(failing), 1),
                "checks per failed": round(seen.counts.get("check", 0) / len(failing), 1),
                "counts": seen.counts,
            }
        )
    return rows


if __name__ == "__main__":
    size, sent = int(sys.argv[1]), int(sys.argv[2])
    for rules in (
        Rules(table_repair="none"),
        Rules(table_repair="lazy"),
        Rules(table_repair="lazy", repair_asks="first"),
        Rules(table_repair="eager", repair_asks="first"),
    ):
        for line in mass_failure(size, 0.1, sent, rules):
            print(rules.table_repair, rules.repair_asks, line, flush=True)
