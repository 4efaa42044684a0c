"""The multicasts of Scribe in a round, read from the tables of its buckets.

References
----------
docs/rules.md, S25 to S27.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine import Columns
from scribe_spark.engine.ring import Ring
from scribe_spark.measures.multicasts import (
    BASELINES,
    MulticastMeasures,
    Reached,
    copies_of,
    multicast_units,
    other_members,
)
from scribe_spark.rounds.system import Multicasts
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.scribe.sources import Sent
from scribe_spark.scribe.state import table_of
from scribe_spark.underlay.protocol import Kernel

_SCRIBE = "scribe"
_IP, _UNICAST = BASELINES

#: The measures of Scribe's multicasts with their units.
MULTICAST_MEASURES: dict[str, str] = multicast_units(_SCRIBE, BASELINES)


def system_of(measure: str) -> str:
    """Return the system of a measure: the first part of its name.

    Examples
    --------
    >>> system_of("ip_multicast.link_stress.max")
    'ip_multicast'
    """
    return measure.partition(".")[0]


@dataclass(frozen=True)
class ScribeTables:
    """Scribe's tables of a round, as `measures.multicasts.MulticastTables`.

    Multicasts start at roots if `from_root`, else at their sources.
    """

    from_root: bool
    system: str = _SCRIBE
    beside: tuple[str, ...] = BASELINES
    merged: bool = False
    by_hops: bool = False

    def multicasts(self, tables: Mapping[str, Columns]) -> Multicasts:
        """Return the first publication of each group that a root accepted, from `OUTCOMES`."""
        taken = Sent.of_buckets(tables.get(OUTCOMES, {})).taken()
        group, first = np.unique(taken.group, return_index=True)
        firsts = taken.take(first)
        if self.from_root:
            return Multicasts.from_start(group, firsts.publication, firsts.root)
        return Multicasts(group, firsts.publication, firsts.source, firsts.hops, firsts.delay_us)

    def begun(self, outcomes: Columns) -> Begun:
        """Return all publications that roots accepted in the round, from the table `OUTCOMES`."""
        taken = Sent.of_buckets(outcomes).taken()
        of = taken.group, taken.publication
        if self.from_root:
            zero = np.zeros(len(taken), dtype=np.int64)
            return Begun(*of, taken.root, taken.root, zero, zero)
        return Begun(*of, taken.source, taken.root, taken.hops, taken.delay_us)

    def members(self, tables: Mapping[str, Columns]) -> np.ndarray:
        """See `MulticastTables`."""
        entries = tables.get(table_of("entries"), {})
        return entries["key"][entries["member"]] if entries else whole_numbers()

    def deliveries(self, tables: Mapping[str, Columns], size: int) -> Columns:
        """See `MulticastTables`."""
        return tables.get(DELIVERIES, {})

    def copies(self, tables: Mapping[str, Columns]) -> Columns:
        """See `MulticastTables`."""
        return tables.get(PAYLOADS, {})

    def children(self, tables: Mapping[str, Columns], size: int) -> np.ndarray:
        """See `MulticastTables`."""
        return tables.get(table_of("children"), {}).get("key", whole_numbers()) // size


def multicast_columns(
    measured: MulticastMeasures,
    tables: Mapping[str, Columns],
    outcomes: Columns,
    ring: Ring,
    kernel: Kernel,
) -> dict[str, dict[str, Any]]:
    """Return columns of a round's multicasts for the views ``tree_edges`` and ``deliveries``.

    The views have the schemas of runs (`schemas.WRITTEN`); the result covers the nodes of the given
    tables.  `outcomes` is the table `OUTCOMES`.  If publications have a size, there are no
    deliveries by naive unicast, since the clock has not played its copies.
    """
    scribe = ScribeTables(measured.source == "root")
    multicasts = scribe.multicasts({OUTCOMES: outcomes})
    of, member = other_members(multicasts, scribe.members(tables), len(ring))
    start = multicasts.start[of]
    base_us = measured.base_us(ring, kernel, start, member)
    star = multicasts.group[of], start, member
    direct = multicasts.group[of], member, np.ones(len(of), dtype=np.int64), base_us
    found = Reached.by(multicasts, scribe.deliveries(tables, len(ring)))
    carried = copies_of(multicasts, scribe.copies(tables))
    edges = {_SCRIBE: tuple(carried.values()), _IP: star, _UNICAST: star}
    delivered = {
        _SCRIBE: (multicasts.group[found.of], found.node, found.hops, found.delay_us),
        _IP: direct,
    }
    if measured.links is None:
        delivered[_UNICAST] = direct

    def columns(*names: str, of: Mapping[str, tuple[np.ndarray, ...]]) -> dict[str, Any]:
        length = [len(parts[0]) for parts in of.values()]
        joined = [np.concatenate(part) for part in zip(*of.values(), strict=True)]
        return {"system": np.repeat(list(of), length), **dict(zip(names, joined, strict=True))}

    called = columns("group", "parent", "child", of=edges)
    came = columns("group", "node", "hops", "delay_us", of=delivered)
    return {
        "tree_edges": called | {"merged": called["system"] == _IP},
        "deliveries": came | {"delay_ms": came["delay_us"] / MICROSECONDS},
    }
