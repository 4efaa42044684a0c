"""Delay penalties relative to IP multicast (RAD, RMD, RDP), and the depth of trees.

RAD of a group is the ratio of the mean delays over its members, RMD the ratio of the maximum
delays, and RDP of a member the ratio of its own delays.

References
----------
JSAC 2002, Section IV.B (Figure 7), Section III (depth).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

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
from scribe_spark.systems.registry import baseline


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


def group_delay(
    deliveries: Table, groups: Table, buckets: int = 1, partial: Collection[str] = ()
) -> Batches:
    """Return RAD and RMD of every group with a delivery: `schemas.GROUP_DELAY`; lazy.

    Systems that do not reach all members must be in `partial`; they are compared with IP
    multicast's delays of the members that they reach.
    """
    base, by_node = baseline().name, {*partial, *([baseline().name] if partial else [])}
    keys = [name for name in _KEYS if by_node and name in deliveries.schema.names]

    def spent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            columns = {n: batch.column(n).to_numpy() for n in {"group", *keys, "delay_ms"}}
            if system in by_node:
                yield from send(buckets, _EACH + system, columns["group"], columns)
            if system not in partial:
                sums = _delay_sums(columns["group"], columns["delay_ms"])
                yield from send(buckets, _SUMS + system, sums["group"], sums)

    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch.column(name).to_numpy() for name in ("group", "size")}
            yield from send(buckets, _SIZES, columns["group"], columns)

    def compared(come: dict[str, Columns]) -> Iterator[tuple[str, Columns, Columns]]:
        """Yield the sums of each system, and those of IP multicast for the same members."""
        theirs = add_delays(come[_SUMS + base])
        for name, columns in sorted(come.items()):
            if name.startswith(_SUMS):
                yield name.removeprefix(_SUMS), add_delays(columns), theirs
            elif name != _EACH + base:
                mine, same = _of_same_members(columns, come[_EACH + base], keys)
                yield name.removeprefix(_EACH), _sums_of(mine), _sums_of(same)

    def penalties(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, come in gather(batches):
            size = come.pop(_SIZES, None)
            if size is None or _SUMS + base not in come:
                continue
            by_size = np.argsort(size["group"])
            for system, mine, theirs in compared(come):
                at, known = (
                    find_sorted(g, mine["group"]) for g in (theirs["group"], size["group"][by_size])
                )
                there = (at >= 0) & (known >= 0)
                mine, theirs = take(mine, there), take(theirs, at[there])
                found = {
                    "system": pa.repeat(pa.scalar(system), len(mine["group"])),
                    "group": mine["group"],
                    "size": size["size"][by_size][known[there]],
                    **ratios_of_groups(mine, theirs),
                }
                arrays = [pa.array(found[name]) for name in GROUP_DELAY.names]
                yield pa.RecordBatch.from_arrays(arrays, names=GROUP_DELAY.names)

    names = ["system", *dict.fromkeys(["group", *keys, "delay_ms"])]
    sent = Batches.of(deliveries, names).then(spent, ROWS)
    sent = Batches.union([sent, Batches.of(groups, ["group", "size"]).then(sizes, ROWS)])
    return Batches.made(meet(sent, buckets), penalties, GROUP_DELAY)


_SIZES = "sizes of groups"

#: The columns that name a delivery, the most significant first.
_KEYS = (PUBLICATION, "group", "node")


def group_penalties(
    deliveries: Table, group: int, systems: list[str], buckets: int = 1
) -> dict[str, dict[str, float]]:
    """Return RAD and RMD of one group, and RDP over its members, per system.

    RDP is given as mean, median and the shares below 1, 2.25 and 4.  A system that reaches no
    member is left out.
    """
    base = baseline().name
    keys = [name for name in _KEYS if name in deliveries.schema.names]
    wanted = {*systems, base}

    def of_group(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            if system in wanted:
                mine = batch.filter(pc.equal(batch.column("group"), group))
                columns = {n: mine.column(n).to_numpy() for n in (*keys, "delay_ms")}
                yield from send(buckets, system, columns["node"], columns)

    def compared(come: dict[str, Columns]) -> Iterator[tuple[str, Columns]]:
        for system in sorted({*systems} & come.keys()) if base in come else ():
            mine, theirs = _of_same_members(come[system], come[base], keys)
            yield _SUMS + system, _sums_of(mine)
            yield _BASE + system, _sums_of(theirs)
            yield _RATIOS + system, {"ratio": _ratios(mine["delay_ms"], theirs["delay_ms"])}

    sent = Batches.of(deliveries, ["system", *keys, "delay_ms"]).then(of_group, ROWS)
    rows, found = count_in_buckets(sent, buckets, compared), {}
    for system in systems:
        ratio = rows.get(_RATIOS + system, {}).get("ratio")
        if ratio is not None and len(ratio):
            mine, theirs = (add_delays(rows[of + system]) for of in (_SUMS, _BASE))
            means = ratios_of_groups(mine, theirs)
            numbers = {name: float(values[0]) for name, values in means.items()}
            found[system] = numbers | ratio_numbers(ratio)
    return found


#: The prefixes of tables: deliveries, sums of delays, sums of the delays of the same members by IP
#: multicast, and ratios; a system's name follows.
_EACH, _SUMS, _BASE, _RATIOS = "deliveries of ", "sums of ", "base sums of ", "ratios of "


def _sums_of(deliveries: Columns) -> dict[str, np.ndarray]:
    return _delay_sums(deliveries["group"], deliveries["delay_ms"])


def _delay_sums(group: np.ndarray, delay_ms: np.ndarray) -> dict[str, np.ndarray]:
    """Sum delays by group, in whole microseconds, so that the order of rows does not matter."""
    delay_us, one = np.rint(delay_ms * MICROSECONDS).astype(np.int64), np.ones_like(group)
    return add_delays({"group": group, "total": delay_us, "most": delay_us, "reached": one})


def _of_same_members(
    mine: Columns, theirs: Columns, keys: Sequence[str]
) -> tuple[Columns, Columns]:
    """Return the deliveries that two systems have in common, in the same order."""
    sizes = [1 + max(int(of[name].max(initial=0)) for of in (mine, theirs)) for name in keys]
    their_key, my_key = common_keys(sizes, *([of[name] for name in keys] for of in (theirs, mine)))
    order = np.argsort(their_key)
    at = find_sorted(their_key[order], my_key)
    there = at >= 0
    return take(mine, there), take(theirs, order[at[there]])


def _ratios(mine_ms: np.ndarray, theirs_ms: np.ndarray) -> np.ndarray:
    """Return the RDP of members in units of 1e-9, as integers.

    With integers, the mean does not depend on the order of rows.
    """
    ratio = mine_ms / theirs_ms * 10**9
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
