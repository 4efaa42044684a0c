"""Delay penalties relative to IP multicast (RAD, RMD, RDP), and the depth of trees.

RAD of a group is the ratio of the mean delays over its members, RMD the ratio of the maximum
delays, and RDP of a member the ratio of its own delays.

References
----------
JSAC 2002, Section IV.B (Figure 7), Section III (depth).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from scribe_spark.core.arrays import find_sorted, run_starts
from scribe_spark.core.errors import RunError
from scribe_spark.core.keys import common_keys
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine.exchange import count_in_buckets
from scribe_spark.engine.packing import Columns, take
from scribe_spark.measures import measure
from scribe_spark.measures.distributions import (
    MeasuredDistribution,
    column_of,
    measure_of,
    measured_distribution,
    spread,
    statistics,
)
from scribe_spark.measures.latency import MS, BySystem
from scribe_spark.measures.overlay import group_of_rank_1, sizes_of_groups
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.schemas import GROUP_DELAY, arrow_table
from scribe_spark.systems.registry import baseline

#: For each bound, the share of the members with a smaller RDP is reported.
RDP_BOUNDS = {"below_2_25": 2.25, "below_4": 4, "below_1": 1}


def delay_sums(group: np.ndarray, delay_us: np.ndarray, base_us: np.ndarray) -> Columns:
    """Sum the delays (us) of deliveries by group, and the delays by IP multicast."""
    of_group = {"group": group, "total": delay_us, "most": delay_us}
    base = {"base_total": base_us, "base_most": base_us}
    return add_delays({**of_group, **base, "reached": np.ones_like(group)})


def add_delays(columns: Columns) -> dict[str, np.ndarray]:
    """Sum columns by group; for columns whose name ends in ``most``, take the maximum."""
    ordered = take(columns, np.argsort(columns["group"], kind="stable"))
    group = ordered.pop("group")
    start = run_starts(group)
    return {
        "group": group[start],
        **{
            name: (np.maximum if name.endswith("most") else np.add).reduceat(column, start)
            for name, column in ordered.items()
        },
    }


def ratios_of_groups(sums: Columns) -> dict[str, np.ndarray]:
    """Return RAD and RMD of groups from :func:`delay_sums`."""
    mean, base_mean = (sums[total] / sums["reached"] for total in ("total", "base_total"))
    return {"rad": mean / base_mean, "rmd": sums["most"] / sums["base_most"]}


def rdp_ratios(delay_us: np.ndarray, base_us: np.ndarray) -> np.ndarray:
    """Return the RDP of members in units of 1e-9 (integers, whose mean has no order): int64."""
    shares = np.rint(delay_us / base_us * 10**9)
    if shares.max(initial=0.0) >= 2.0**63:
        ratio = f"{shares.max() / 1e9:.3g}"
        raise RunError(f"a delay is {ratio} times the delay by IP multicast; increase lan_delay_ms")
    return shares.astype(np.int64)


def ratio_numbers(ratio: np.ndarray) -> dict[str, float]:
    """Return mean, median and the shares below :data:`RDP_BOUNDS` of ratios in units of 1e-9."""
    high, low = np.divmod(ratio, 2**32)  # the sum may not fit into int64
    total = float(int(high.sum()) * 2**32 + int(low.sum()))
    found = {"rdp.mean": total / len(ratio) / 1e9, "rdp.median": float(np.median(ratio)) / 1e9}
    for name, bound in RDP_BOUNDS.items():
        found[f"rdp.{name}"] = np.count_nonzero(ratio < int(bound * 10**9)) / len(ratio)
    return found


def penalties(sums: Columns, ratio: np.ndarray) -> dict[str, float]:
    """Return the metrics of a single group: RAD, RMD, and mean, median and shares of RDP.

    `sums` has one row of :func:`delay_sums`; `ratio` are the members' RDPs (:func:`rdp_ratios`).
    """
    of_group = {f"{name}.largest": of.item() for name, of in ratios_of_groups(sums).items()}
    return of_group | ratio_numbers(ratio)


# --- the deliveries of a run


def group_delay(
    latencies: BySystem,
    sizes: pa.Table,
    of_members: Mapping[str, Columns],
    published: measure.ScheduledMessages | None = None,
) -> pa.Table:
    """Return RAD and RMD of every group with a delivery: `schemas.GROUP_DELAY`.

    `of_members` has the sums of :func:`compare_with_base` of the systems that do not reach all
    members.  With `published`, groups have several publications, whose delays are added up.
    """
    if (baseline().name, MS) not in latencies:
        return arrow_table([], GROUP_DELAY)
    base, rows = latencies[baseline().name, MS].publications, []
    group, size = (sizes.sort_by("group").column(name).to_numpy() for name in ("group", "size"))
    for system in [system for system, unit in latencies if unit == MS]:
        if system in of_members:
            sums = of_members[system]
        else:
            mine = latencies[system, MS].publications
            sums = {"group": mine["group"], "total": mine["total"], "most": mine["max"]}
            sums |= {"base_total": base["total"], "base_most": base["max"]}
            sums = take(sums | {"reached": mine["reached"]}, mine["reached"] > 0)
            if published is not None:
                sums = add_delays({**sums, "group": published.group[sums["group"]]})
        at = find_sorted(group, sums["group"])
        sums, at = take(sums, at >= 0), at[at >= 0]
        found = {"group": sums["group"], "size": size[at], **ratios_of_groups(sums)}
        rows.append(pd.DataFrame(found).assign(system=system))
    return arrow_table(pd.concat(rows)[GROUP_DELAY.names], GROUP_DELAY)


def group_penalties(
    deliveries: Table, group: int, systems: Sequence[str], buckets: int = 1
) -> dict[str, dict[str, float]]:
    """Return RAD, RMD and the numbers of RDP of one group, per system that reaches a member."""
    of_group = Batches.of(deliveries, _columns(deliveries), {"group": [group]})
    sums, ratios = compare_with_base(of_group, systems, buckets)
    return {system: penalties(sums[system], ratios[system]) for system in systems if system in sums}


#: The columns that name a delivery, the most significant first.
_KEYS = (measure.PUBLICATION, "group", "node")

#: The prefixes of tables: sums of delays, and RDPs; a system's name follows.
_SUMS, _RATIOS = "sums of ", "ratios of "


def _columns(deliveries: Table) -> list[str]:
    there = deliveries.schema.names
    return ["system", *(name for name in _KEYS if name in there), "delay_ms"]


def compare_with_base(
    deliveries: Table, systems: Sequence[str], buckets: int = 1, with_ratios: bool = True
) -> tuple[dict[str, Columns], dict[str, np.ndarray]]:
    """Compare the delays of systems with those of IP multicast to the same members.

    Returns, for each system that reaches a member, the sums by group (:func:`delay_sums`) and, on
    request, the RDPs of all deliveries (:func:`rdp_ratios`).
    """
    base, columns = baseline().name, _columns(deliveries)
    keys, wanted = columns[1:-1], {*systems, base}

    def rows_of(system: str, batch: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray, Columns]]:
        if system in wanted:
            rows = {name: batch.column(name).to_numpy() for name in columns[1:]}
            rows["delay_us"] = np.rint(rows.pop("delay_ms") * MICROSECONDS).astype(np.int64)
            yield system, rows["node"], rows

    def compare(come: dict[str, Columns]) -> Iterator[tuple[str, Columns]]:
        for system in sorted({*systems} & come.keys()) if base in come else ():
            mine, theirs = _of_same_members(come[system], come[base], keys)
            delays = mine["delay_us"], theirs["delay_us"]
            yield _SUMS + system, delay_sums(mine["group"], *delays)
            if with_ratios:
                yield _RATIOS + system, {"ratio": rdp_ratios(*delays)}

    sent = spread(Batches.of(deliveries, columns), buckets, rows_of)
    found = count_in_buckets(sent, buckets, compare)
    there = [system for system in systems if len(found.get(_SUMS + system, {}).get("group", ()))]
    ratios = {system: found[_RATIOS + system]["ratio"] for system in there if with_ratios}
    return {system: add_delays(found[_SUMS + system]) for system in there}, ratios


def _of_same_members(
    mine: Columns, theirs: Columns, keys: Sequence[str]
) -> tuple[Columns, Columns]:
    """Return the rows of deliveries with keys that both tables have, in the same order."""
    sizes = [1 + max(int(of[name].max(initial=0)) for of in (mine, theirs)) for name in keys]
    their_key, my_key = common_keys(sizes, *([of[name] for name in keys] for of in (theirs, mine)))
    order = np.argsort(their_key)
    at = find_sorted(their_key[order], my_key)
    there = at >= 0
    return take(mine, there), take(theirs, order[at[there]])


# --- the measure


def _collect(run: measure.RunTables) -> dict[str, dict[str, float]]:
    """Return RAD, RMD and RDP of the largest group (rank 1) by system."""
    largest = group_of_rank_1(sizes_of_groups(run))
    if largest is None:
        return {}
    columns = measure.with_publication(run, "system", "group", "node", "delay_ms")
    deliveries = run.batches("deliveries", columns, {"group": [largest]})
    forwarding = [system.name for system in run.systems if measure.forwards(system)]
    return group_penalties(deliveries, largest, forwarding, run.buckets)


def _parts() -> Iterator[MeasuredDistribution | tuple[measure.Metric, ...]]:
    """Yield the distributions and the metrics of the measure."""
    numbers, forwards = statistics("x", "median", "max"), measure.forwards
    of = (("rad", "mean delay of its members"), ("rmd", "greatest delay of a member"))
    for name, delay in of:
        ratio = f"({delay} / that by IP multicast)"
        what = f"{name.upper()} of a group {ratio}, over the groups"
        values = column_of("group_delay", name, forwards)
        yield measured_distribution(name, "7", what, forwards, numbers, values)
        what = f"{name.upper()} of the largest group {ratio}: the median is of small groups."
        largest = {f"{name}.largest": ("x", what)}
        yield measure.collected_metrics("delay", "7", largest, forwards)
    what = "RDP (delay / delay by IP multicast) over the members of the largest group."
    rdp = {"rdp.mean": ("x", f"Mean {what}"), "rdp.median": ("x", f"Median {what}")}
    for name, bound in RDP_BOUNDS.items():
        rdp[f"rdp.{name}"] = ("of members", f"Share below {bound} of the {what}")
    yield measure.collected_metrics("delay", "IV.B", rdp, forwards)
    what = "number of hops from the root to a member, over all members of all groups"
    values = column_of("deliveries", "hops", forwards)
    yield measured_distribution(
        "depth", "III", what, forwards, statistics("hops", "mean", "max"), values
    )


DELAY = measure_of("delay", *_parts(), collect=_collect, early=True)
