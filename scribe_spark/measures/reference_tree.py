"""The numbers of the experiments on the reference tree, beside the published ones.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 4.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: The shares of hosts of each degree in an independent simulation with 10 to 120 hosts.
CHECKED_DEGREES = {1: "39 %", 2: "24-39 %", 3: "21-37 %"}

#: The mean sizes of the reconfiguration area in that simulation, with and without the host that
#: arrived or left.
CHECKED_AREAS = {"area": "3.2-3.6", "area_without": "2.2-2.6"}

_NOTE = 'the paper: "between two and three"'

_UNITS = {
    "degree": "neighbours",
    "depth": "hops",
    "key_depth": "hops",
    "links": "links",
    "hosts": "hosts that compute anew",
    "faults": "trees",
    "rounds": "rounds",
    **dict.fromkeys(("parent_lookup_hops", "child_lookup_hops"), "hops"),
    **dict.fromkeys(("parent_lookup_delay", "child_lookup_delay"), "ms"),
    **dict.fromkeys(("parent_lookups", "child_lookups", "repeated_lookups", "notices"), "messages"),
}

_POINT = ["experiment", "hosts", "bits", "children", "assignment"]


def reference_tree_metrics(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return all numbers in the table `schemas.REFERENCE_TREE` as rows of `metrics.json`."""
    found: list[dict[str, Any]] = []
    for key, point in rows.groupby(_POINT, sort=False):
        experiment, hosts, bits, children, assignment = key
        prefix = f"{experiment}.n{hosts}.c{children}"
        is_papers = experiment == "events" and (bits, children, assignment) == (8, 2, "chord")
        is_papers = is_papers and 10 <= hosts <= 120
        for measure, counts in point.groupby("measure", sort=True):
            found += _of_measure(prefix, str(measure), counts, children, is_papers)
        if experiment == "scaling":
            found.append(_metric(f"{prefix}.log2_hosts", math.log2(hosts), "hops", None))
    return found


def _of_measure(
    prefix: str, measure: str, counts: pd.DataFrame, children: int, is_papers: bool
) -> list[dict[str, Any]]:
    total = counts["count"].sum()
    mean = float((counts["value"] * counts["count"]).sum() / total)
    kind = measure.split(".")[0]
    unit = _UNITS.get(kind, "hosts" if kind.startswith("area") else "")
    figure = {"degree": "3", "area": "4", "area_without": "4"}.get(kind)
    known = {"check": CHECKED_AREAS[kind], "note": _NOTE} if kind in CHECKED_AREAS else {}
    found = [
        _metric(f"{prefix}.{measure}.mean", mean, unit, figure, **(known if is_papers else {})),
        _metric(f"{prefix}.{measure}.max", int(counts["value"].max()), unit, figure),
    ]
    if measure == "degree":
        shares = counts.set_index("value")["count"] / total
        for degree in range(1, min(children + 2, 5)):
            known = {"check": CHECKED_DEGREES[degree]} if degree in CHECKED_DEGREES else {}
            name = f"{prefix}.degree.{degree}"
            share = float(shares.get(degree, 0.0))
            known = known if is_papers else {}
            found.append(_metric(name, share, "of hosts", figure, **known))
        above = float(shares[shares.index > children + 1].sum())
        found.append(_metric(f"{prefix}.degree.above_bound", above, "of hosts", figure))
    return found


def _metric(name: str, value: float, unit: str, figure: str | None, **known: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "paper": None, "figure": figure, **known}
