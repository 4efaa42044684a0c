"""Kernels of the questions about coverage: within deadlines, by weight, until a quorum, answers.

Times are whole microseconds, weights whole numbers of a common unit (`whole_weights`), so results
do not depend on the order of rows.

References
----------
docs/rules.md, X1 to X6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.bandwidth.setting import transmission_us
from scribe_spark.core.arrays import expand, whole_numbers
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import Kind, first_rows
from scribe_spark.core.node_classes import read_nodes
from scribe_spark.engine.packing import Columns
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.runtime.remote_inputs import read_input
from scribe_spark.underlay.protocol import Kernel, node_delays

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.coverage import CoverageConfig

#: The time of an event that never happens, and that of a quorum of receivers without weight.
NEVER, NOBODY = -1, -2

#: The greatest sum of weights in their common unit; that of all publications fits into 64 bits.
_MOST_WEIGHT = 2**39

#: The greatest weight of a node; then the sum of all is far from the limits of floats.
_MOST_EACH = 1e30

#: The greatest number of decimals of weights.
_MOST_DECIMALS = 15

_COLUMNS: dict[str, Kind] = {"node": "int", "weight": "float"}

#: The columns that deliveries, and publications, need beside times: weights; the arrival of an
#: answer at the source's downlink, and the node that sent it; the time of an answer on that link.
WEIGHT, REPLY, NODE, DOWN = "weight", "reply", "node", "down"


# --- weights


def check_weights(
    path: str, nodes: int, nodes_file: str | None = None, spark: SparkSession | None = None
) -> tuple[np.ndarray, Fraction]:
    """Read and check a table of weights; return them by node number, and their unit.

    The table may be `nodes_file`, whose column ``weight`` counts; `spark` reads remote tables.
    """
    if path == nodes_file:
        weight = read_nodes(path).weight
        if weight is None:
            raise InputError("weights", path, "has no column weight; add one, or give another file")
        frame = pd.DataFrame({"node": np.arange(len(weight)), "weight": weight})
        return weights_of(frame, path, nodes)
    return weights_of(read_input(spark, path, "weights", _COLUMNS), path, nodes)


def weights_of(frame: pd.DataFrame, path: str, nodes: int) -> tuple[np.ndarray, Fraction]:
    """Return the weights of a table ``node, weight`` by node number, and their unit."""
    node, weight = frame["node"].to_numpy(np.int64), frame["weight"].to_numpy(np.float64)

    def refuse(bad: np.ndarray, what: str) -> None:
        if bad.any():
            raise InputError("weights", path, f"{what}: {first_rows(frame, bad)}")

    refuse((node < 0) | (node >= nodes), f"names no node (nodes are 0 to {nodes - 1})")
    refuse(frame["node"].duplicated().to_numpy(), "names a node twice")
    refuse(weight > _MOST_EACH, f"column weight must be at most {_MOST_EACH:g}")
    refuse(weight < 0, "column weight must be at least 0")
    if not weight.any():
        raise InputError("weights", path, "has no weight above 0; give one")
    whole, unit = whole_weights(weight)
    found = np.zeros(nodes, dtype=np.int64)
    found[node] = whole
    return found, unit


def whole_weights(weight: np.ndarray) -> tuple[np.ndarray, Fraction]:
    """Return weights as whole numbers (int64) of a power of ten, and this unit.

    The unit is the greatest one, at most 1, in which all weights are whole and their sum is at most
    2^39.  If no such unit exists, weights are rounded to the least unit with such a sum.

    Examples
    --------
    >>> whole, unit = whole_weights(np.array([0.1, 0.25, 3.0]))
    >>> whole.tolist(), unit
    ([10, 25, 300], Fraction(1, 100))
    """
    total = Fraction(float(weight.sum()))
    most = _MOST_DECIMALS
    while total * Fraction(10) ** most > _MOST_WEIGHT:
        most -= 1
    for decimals in range(min(0, most), most + 1):
        scaled = weight * 10.0**decimals
        whole = np.rint(scaled)
        if (abs(scaled - whole) <= 1e-12 * scaled).all():
            break
    return whole.astype(np.int64), Fraction(10) ** -decimals


@dataclass(frozen=True)
class Weights:
    """Weights by node number: an array, or the name of a distributed one; and their unit."""

    values: np.ndarray | str
    unit: Fraction

    @classmethod
    def read(
        cls, spark: SparkSession, path: str, nodes: int, nodes_file: str | None = None
    ) -> Weights:
        """Read and distribute a table (:func:`check_weights`)."""
        values, unit = check_weights(path, nodes, nodes_file, spark)
        return cls(distribute_arrays(spark, weights=values)[0], unit)

    def release(self) -> None:
        """Free a distributed array."""
        if isinstance(self.values, str):
            discard_arrays(self.values)

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """Return the weights of nodes, given by number, in units of `unit`: int64."""
        values = open_array(self.values) if isinstance(self.values, str) else self.values
        return values[nodes]


# --- answers


@dataclass(frozen=True)
class PlacedNodes:
    """Nodes by number, and the function that returns the indices of their routers."""

    number: np.ndarray
    router: Callable[[], np.ndarray]


def nobody(of: np.ndarray) -> PlacedNodes:
    """Return no nodes, in place of sources that are not asked for."""
    return PlacedNodes(whole_numbers(), whole_numbers)


@dataclass(frozen=True)
class ReplySetting:
    """The answers of receivers to the source; `links` have rates if answers take time on links."""

    kernel: Kernel
    lan_us: int
    size: int
    links: RoundLinks | None = None
    #: Returns the indices of the routers of nodes by number, in a run.
    router_of: Callable[[np.ndarray], np.ndarray] | None = None

    def back_us(self, nodes: PlacedNodes, source: PlacedNodes) -> np.ndarray:
        """Return the times (us) from deliveries to the answers' arrival at sources' downlinks."""
        router = nodes.router()
        delay_us = node_delays(self.kernel, self.lan_us, router, source.router())
        if self.links is None:
            return delay_us
        return delay_us + transmission_us(self.size, self.links.rates(nodes.number, router).up)

    def down_us(self, source: PlacedNodes) -> np.ndarray:
        """Return the time (us) of an answer on the downlink of each source."""
        if self.links is None:
            return np.zeros_like(source.number)
        return transmission_us(self.size, self.links.rates(source.number, source.router()).down)


def queued(arrival: np.ndarray, first: np.ndarray, takes: np.ndarray) -> np.ndarray:
    """Return the time at which a link, which takes one thing after another, has taken each.

    `arrival` is ascending within each link, `first` the row of the first arrival at the same link,
    and `takes` the time that the link needs for a thing.

    Examples
    --------
    >>> queued(np.array([0, 1, 9, 9]), np.zeros(4, np.int64), np.full(4, 3)).tolist()
    [3, 6, 12, 15]
    """
    row = np.arange(len(arrival))
    # the link begins with row i when it has i - j things since some row j at which it was idle
    latest, reach = arrival - (row - first) * takes, 1
    while takes.any() and reach <= (row - first).max(initial=0):
        earlier = np.maximum(latest[reach:], latest[:-reach])
        latest[reach:] = np.where(row[reach:] - reach >= first[reach:], earlier, latest[reach:])
        reach *= 2
    return latest + (row - first + 1) * takes


# --- the questions


def within_column(index: int, weighted: bool = False) -> str:
    """Return the name of the column with the receivers, or their weight, within a deadline."""
    return f"within_weight_{index}" if weighted else f"within_{index}"


@dataclass(frozen=True)
class Asked:
    """The questions about coverage (deadlines, quorum, answers), without pydantic, for tasks."""

    #: The section of the config, or its `Section.for_tasks`.
    config: CoverageConfig
    #: True if a group may have several publications.
    several: bool = False
    weights: Weights | None = None
    replies: ReplySetting | None = None

    def nodes(self, number: np.ndarray) -> PlacedNodes:
        """Return nodes of a run, given by number."""
        of = None if self.replies is None else self.replies.router_of
        return PlacedNodes(number, whole_numbers if of is None else partial(of, number))

    def of_deliveries(
        self, latency: np.ndarray, nodes: PlacedNodes, source: PlacedNodes
    ) -> Columns:
        """Return what measures of coverage need of each delivery: weight, node, time of the reply.

        The receivers are `nodes`; routers are read only if answers are asked for.
        """
        found = dict[str, np.ndarray]()
        if self.weights is not None:
            found[WEIGHT] = self.weights.of(nodes.number)
        if self.replies is not None:
            found[REPLY] = latency + self.replies.back_us(nodes, source)
            found[NODE] = nodes.number
        return found

    def of_sources(self, source: PlacedNodes) -> Columns:
        """Return what measures of coverage need of publications: the time of an answer."""
        return {} if self.replies is None else {DOWN: self.replies.down_us(source)}

    def needed(self, whole: np.ndarray) -> np.ndarray:
        """Return the least weight (or number) that is a quorum of each `whole`: int64."""
        assert self.config.quorum_share is not None
        share, of = self.config.quorum_share
        return whole // of * share - (-(whole % of) * share // of)

    def columns(
        self,
        latency: np.ndarray,
        first: np.ndarray,
        end: np.ndarray,
        came: Columns,
        due: Columns,
    ) -> Columns:
        """Return the answers for each publication: int64 columns.

        Rows `first` to `end` - 1 of `latency` (ascending) and of `came` are the deliveries of a
        publication; `due` has its ``expected`` receivers, and with weights also their ``weight``.
        Columns: ``within_I`` receivers with deadline I, their ``within_weight_I``, the
        ``expected_weight``, and the times ``quorum`` and ``replies``, `NEVER` or `NOBODY`.
        """
        found, weight, whole = dict[str, np.ndarray](), None, due["expected"]
        if self.weights is not None:
            weight, whole = came[WEIGHT], due[WEIGHT]
            found["expected_weight"] = whole
            sums = np.r_[0, np.cumsum(weight)]
        for index, deadline in enumerate(self.config.deadlines_us):
            by_then = np.r_[0, np.cumsum(latency <= deadline)]
            within = by_then[end] - by_then[first]
            found[within_column(index)] = within
            if weight is not None:
                found[within_column(index, weighted=True)] = sums[first + within] - sums[first]
        if self.config.quorum is not None:
            needed = self.needed(whole)
            found["quorum"] = time_until(needed, latency, weight, first, end)
            if self.replies is not None:
                at, order = _answers(first, end, came, due)
                weight, last = None if weight is None else weight[order], np.cumsum(end - first)
                found["replies"] = time_until(needed, at, weight, last - (end - first), last)
        return found


def time_until(
    needed: np.ndarray,
    times: np.ndarray,
    weight: np.ndarray | None,
    first: np.ndarray,
    end: np.ndarray,
) -> np.ndarray:
    """Return the time at which the weight of events reaches what is `needed`, for each segment.

    Rows `first` to `end` - 1 of `times` (ascending) and of `weight` (None: 1 each) are a segment.

    Examples
    --------
    >>> of = np.array([3, 4, 0]), np.array([10, 20, 30]), np.array([1, 2, 0])
    >>> time_until(*of, np.zeros(3, np.int64), np.full(3, 3)).tolist()
    [20, -1, -2]
    """
    if weight is None:
        row = first + needed - 1
    else:
        sums = np.cumsum(weight)
        row = np.searchsorted(sums, np.r_[0, sums][first] + needed)
    there = (needed > 0) & (row < end)
    found = np.where(needed > 0, NEVER, NOBODY)
    found[there] = times[row[there]]
    return found


def _answers(
    first: np.ndarray, end: np.ndarray, came: Columns, due: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return when sources have answers (us), ascending by publication, and the deliveries' rows."""
    of, row = expand(first, end)
    order = np.lexsort((came[NODE][row], came[REPLY][row], of))
    row, count = row[order], end - first
    begin = np.cumsum(count) - count
    return queued(came[REPLY][row], begin[of], due[DOWN][of]), row
