"""Figures of overlays built by arrivals; `python -m tests.oracle.living.figures 1000 10000`."""

from __future__ import annotations

import math
import sys
import time

from .arrival import arrive_all
from .draws import Plane, keyed_draw, random_idents
from .measures import table_quality, wrong_leaf_sets
from .overlay import Overlay, Rules
from .world import drawn_lookups, look_up

LATE = 0.1  # messages per arrival are those of the last tenth of the nodes


def built(count: int, seed: int, rules: Rules, late: float = LATE) -> tuple[Overlay, dict]:
    """An overlay on a random plane by arrivals; the messages of the last arrivals by kind."""
    idents = random_idents(count, seed)
    overlay = Overlay(
        idents, Plane(count, seed, places=max(1, count // 2)), keyed_draw(seed), rules
    )
    first = count - max(1, int(count * late))
    arrive_all(overlay, range(first))
    before = overlay.counts.copy()
    arrive_all(overlay, range(first, count))
    per_arrival = {
        kind: round(number / (count - first), 1)
        for kind, number in sorted((overlay.counts - before).items())
    }
    return overlay, per_arrival


def figures(count: int, seed: int = 1, rules: Rules | None = None, lookups: int = 10_000) -> dict:
    """Mean hops, hops' distribution, share of cells not the nearest, messages per arrival."""
    rules = rules or Rules()
    began = time.time()
    overlay, per_arrival = built(count, seed, rules)
    took = time.time() - began
    quality = table_quality(overlay)
    results = look_up(overlay, drawn_lookups(overlay, lookups))
    hops = [result.hops for result in results]
    exchange = per_arrival.get("exchange", 0.0)
    return {
        "nodes": count,
        "seed": seed,
        "seconds": round(took, 1),
        "leaf sets wrong": len(wrong_leaf_sets(overlay)),
        "lookups right": sum(result.right for result in results) / len(results),
        "hops mean": sum(hops) / len(hops),
        "hops share": [round(hops.count(h) / len(hops), 4) for h in range(max(hops) + 1)],
        "cells not nearest": round(quality.not_nearest, 4),
        "cells missing": round(quality.missing / quality.fillable, 4),
        "delay over nearest": round(quality.mean_delay / quality.mean_nearest, 4),
        "messages per arrival": per_arrival,
        "all": round(sum(per_arrival.values()), 1),
        "all but exchange": round(sum(per_arrival.values()) - exchange, 1),
        "3 x 2^b x log N": round(3 * 2**rules.b * math.log(count, 2**rules.b), 1),
    }


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for name, value in figures(int(argument)).items():
            print(f"{name:22} {value}", flush=True)
