"""Delay penalties relative to IP multicast (RAD, RMD, RDP), and the depth of trees.

RAD of a group is the ratio of the mean delays over its members, RMD the ratio of the maximum
delays, and RDP of a member the ratio of its own delays.

References
----------
JSAC 2002, Section IV.B (Figure 7), Section III (depth).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import find_sorted
from scribe_spark.core.keys import common_keys
from scribe_spark.engine.exchange import count_in_buckets, gather, meet, send
from scribe_spark.engine.packing import Columns, take
from scribe_spark.measures.distributions import column_of, histogram_metrics
from scribe_spark.measures.formulas import (
    RDP_BOUNDS,
    add_delays,
    ratio_numbers,
    ratios_of_groups,
    statistics,
    whole_shares,
)
from scribe_spark.measures.group_size import group_of_rank_1
from scribe_spark.measures.measure import (
    Distribution,
    Measure,
    Metric,
    RunTables,
    collected,
    forwards,
)
from scribe_spark.measures.schedules import PUBLICATION, with_publication
from scribe_spark.runtime.batches import Batches, Table, by_text
from scribe_spark.schemas import GROUP_DELAY, MICROSECONDS, ROWS
from scribe_spark.systems import baseline


def first_copies(deliveries: DataFrame) -> DataFrame:
    """Keep the first copy at each member: the least delay, then the fewest hops.

    The columns are ``group, node, hops, delay_us``.
    """
    first = F.min(F.struct("delay_us", "hops")).alias("first")
    return (
        deliveries.groupBy("group", "node")
        .agg(first)
        .select("group", "node", F.col("first.hops"), F.col("first.delay_us"))
    )


def group_delay(deliveries: Table, groups: Table, buckets: int = 1) -> Batches:
    """Return RAD and RMD of every group with a delivery: `schemas.GROUP_DELAY`; lazy."""
    base = baseline().name

    def spent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            sums = _delay_sums(*(batch.column(n).to_numpy() for n in ("group", "delay_ms")))
            yield from send(buckets, system, sums["group"], sums)

    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch.column(name).to_numpy() for name in ("group", "size")}
            yield from send(buckets, _SIZES, columns["group"], columns)

    def penalties(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, come in gather(batches):
            size = come.pop(_SIZES, None)
            if size is None or base not in come:
                continue
            by_size, compared = np.argsort(size["group"]), add_delays(come[base])
            for system, columns in sorted(come.items()):
                mine = add_delays(columns)
                at, known = (
                    find_sorted(g, mine["group"])
                    for g in (compared["group"], size["group"][by_size])
                )
                there = (at >= 0) & (known >= 0)
                mine, theirs = take(mine, there), take(compared, at[there])
                found = {
                    "system": pa.repeat(pa.scalar(system), len(mine["group"])),
                    "group": mine["group"],
                    "size": size["size"][by_size][known[there]],
                    **ratios_of_groups(mine, theirs),
                }
                arrays = [pa.array(found[name]) for name in GROUP_DELAY.names]
                yield pa.RecordBatch.from_arrays(arrays, names=GROUP_DELAY.names)

    sent = Batches.of(deliveries, ["system", "group", "delay_ms"]).then(spent, ROWS)
    sent = Batches.union([sent, Batches.of(groups, ["group", "size"]).then(sizes, ROWS)])
    return Batches.made(meet(sent, buckets), penalties, GROUP_DELAY)


_SIZES = "sizes of groups"


def group_penalties(
    deliveries: Table, group: int, systems: list[str], buckets: int = 1
) -> dict[str, dict[str, float]]:
    """Return RAD and RMD of one group, and RDP over its members, per system.

    RDP is given as mean, median and the shares below 1, 2.25 and 4.  A system that reaches no
    member is left out.
    """
    base, names = baseline().name, ["system", "group", "node", "delay_ms"]
    keys = ["node"]
    if PUBLICATION in deliveries.schema.names:
        names, keys = [*names, PUBLICATION], [*keys, PUBLICATION]
    wanted = {*systems, base}

    def of_group(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            if system in wanted:
                mine = batch.filter(pc.equal(batch.column("group"), group))
                columns = {n: mine.column(n).to_numpy() for n in (*keys, "delay_ms")}
                yield from send(buckets, system, columns["node"], columns)

    def compared(come: dict[str, Columns]) -> Iterator[tuple[str, Columns]]:
        for system in sorted(come):
            delay_ms = come[system]["delay_ms"]
            yield _SUMS + system, _delay_sums(np.zeros(len(delay_ms), dtype=np.int64), delay_ms)
            if system in systems and base in come:
                yield _RATIOS + system, {"ratio": _ratios(come[system], come[base])}

    sent = Batches.of(deliveries, names).then(of_group, ROWS)
    rows = count_in_buckets(sent, buckets, compared)
    if _SUMS + base not in rows:
        return {}
    found, theirs = {}, add_delays(rows[_SUMS + base])
    for system in systems:
        ratio = rows.get(_RATIOS + system, {}).get("ratio")
        if ratio is not None and len(ratio):
            means = ratios_of_groups(add_delays(rows[_SUMS + system]), theirs)
            numbers = {name: float(values[0]) for name, values in means.items()}
            found[system] = numbers | ratio_numbers(ratio)
    return found


#: The prefixes of the tables that buckets return; a system's name follows.
_SUMS, _RATIOS = "sums of ", "ratios of "


def _delay_sums(group: np.ndarray, delay_ms: np.ndarray) -> dict[str, np.ndarray]:
    """Sum delays by group, in whole microseconds, so that the order of rows does not matter."""
    delay_us, one = np.rint(delay_ms * MICROSECONDS).astype(np.int64), np.ones_like(group)
    return add_delays({"group": group, "total": delay_us, "most": delay_us, "reached": one})


def _ratios(mine: Columns, theirs: Columns) -> np.ndarray:
    """Return the RDP of members in units of 1e-9, as integers.

    With integers, the mean does not depend on the order of rows.
    """
    names = [PUBLICATION, "node"] if PUBLICATION in mine else ["node"]
    sizes = [1 + max(int(of[name].max(initial=0)) for of in (mine, theirs)) for name in names]
    keys = [[of[name] for name in names] for of in (theirs, mine)]
    their_key, my_key = common_keys(sizes, *keys)
    order = np.argsort(their_key)
    theirs = take(theirs, order)
    at = find_sorted(their_key[order], my_key)
    there = at >= 0
    ratio = mine["delay_ms"][there] / theirs["delay_ms"][at[there]] * 10**9
    whole = np.floor(ratio)
    return whole_shares(whole + (ratio - whole >= 0.5))


# --- the measure


def _collect(run: RunTables) -> dict[str, dict[str, float]]:
    """Return the penalties of the largest group (rank 1)."""
    largest = group_of_rank_1(run["groups"])
    if largest is None:
        return {}
    columns = with_publication(run, "system", "group", "node", "delay_ms")
    deliveries = run.batches("deliveries", columns, {"group": [largest]})
    forwarding = [system.name for system in run.systems if forwards(system)]
    return group_penalties(deliveries, largest, forwarding, run.buckets)


def _of_largest(name: str, unit: str, figure: str, definition: str, found_as: str) -> Metric:
    """Return a metric of the largest group (rank 1)."""
    return Metric(name, unit, figure, definition, collected("delay", found_as), forwards)


def _ratio_metrics(name: str, delay: str) -> tuple[Metric, ...]:
    """Return the metrics of RAD or RMD, the ratio of the mean or the greatest delay of members."""
    ratio = f"{delay} / that by IP multicast"
    of_groups = f"{name.upper()} of a group ({ratio}), over the groups"
    of_largest = f"{name.upper()} of the largest group ({ratio}): the median is of small groups."
    return (
        *histogram_metrics(name, "7", of_groups, forwards, statistics("x", "median", "max")),
        _of_largest(f"{name}.largest", "x", "7", of_largest, name),
    )


_RDP_METRICS = {
    "mean": ("x", "Mean"),
    "median": ("x", "Median"),
    **{name: ("of members", f"Share below {bound} of the") for name, bound in RDP_BOUNDS.items()},
}
_RDP = "RDP (delay / delay by IP multicast) over the members of the largest group"

DELAY = Measure(
    "delay",
    collect=_collect,
    early=True,
    distributions=(
        Distribution("rad", "7", column_of("group_delay", "rad", forwards)),
        Distribution("rmd", "7", column_of("group_delay", "rmd", forwards)),
        Distribution("depth", "III", column_of("deliveries", "hops", forwards)),
    ),
    metrics=(
        *_ratio_metrics("rad", "mean delay of its members"),
        *_ratio_metrics("rmd", "greatest delay of a member"),
        *(
            _of_largest(f"rdp.{name}", unit, "IV.B", f"{words} {_RDP}.", name)
            for name, (unit, words) in _RDP_METRICS.items()
        ),
        *histogram_metrics(
            "depth",
            "III",
            "number of hops from the root to a member, over all members of all groups",
            forwards,
            statistics("hops", "mean", "max"),
        ),
    ),
)
