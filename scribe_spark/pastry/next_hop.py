"""The next hop of every message: Pastry's routing rule, as one join with the nodes' state.

References
----------
JSAC 2002, Section II (routing).
"""

from __future__ import annotations

import functools

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import ids

__all__ = ["RESERVED_COLUMNS", "next_hop"]

#: What a hop adds to messages on its way to ``next``: no payload can have these names.
RESERVED_COLUMNS = frozenset(
    {"node_state", "router", "leaf", "table", "gaps", "key_place_hi", "key_place_lo"}
    | {"in_span", "shared", "entry", "closest", "onward", "next"}
)


def next_hop(messages: DataFrame, nodes: DataFrame, b: int, *extra: Column) -> DataFrame:
    """Where each message goes next, by the rule of Section II.

    Parameters
    ----------
    messages : DataFrame
        ``node, key_hi, key_lo`` and payload.
    nodes : DataFrame
        ``node, node_state``: `PastryOverlay.nodes`, partitioned by node.
    b : int
        Digits are base 2**b.
    extra : Column
        What else of ``node_state`` is to be in the result.

    Returns
    -------
    DataFrame
        `messages` with ``router`` of their node and ``next``: NULL where the node is the root of
        the key.  Where no node has the number ``node``, both are NULL.
    """
    # a left join keeps messages to nodes that do not exist; the messages, the smaller side, are
    # put into the hash table and the nodes stream past it
    here = messages.hint("shuffle_hash").join(nodes, "node", "left")
    first, *others = _hop_steps(b)
    frame = here.select(*_columns(*messages.columns, "node_state.router"), *extra, *first)
    carried = _columns(*frame.columns[: -len(first)])
    for columns in others:
        frame = frame.select(*carried, *columns)
    return frame


@functools.cache
def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(F.col(name) for name in names)


@functools.cache
def _hop_steps(b: int) -> tuple[tuple[Column, ...], ...]:
    """The columns of each step of a hop, read from those of the step before; the last is ``next``.

    Built once for every b: to build the expressions costs more than a small round's work.  Each
    step names the columns of the one before twice, which keeps the optimizer from merging the
    steps: an array is cut to the rows that need it before a (slow, interpreted) `filter` reads it.
    """
    key, node_id = ids.halves("key"), ids.halves("node_state.id")
    in_span, leaf, entry, closest = (F.col(c) for c in ("in_span", "leaf", "entry", "closest"))
    # 1. Is the key within the leaf set's span, and how many digits does the node share with it?
    of_key = (
        *_columns("node_state.leaf", "node_state.table", "node_state.gaps"),
        ids.unsigned(key[0]).alias("key_place_hi"),
        ids.unsigned(key[1]).alias("key_place_lo"),
        _in_span(*key).alias("in_span"),
        ids.prefix_digits(*key, *node_id, b).alias("shared"),
    )
    # 2. The leaf set if it is; if not, the routing table's entry for (shared digits, next digit).
    cell = F.col("shared") * 2**b + ids.digit(*key, F.col("shared"), b)
    leaf_or_entry = (
        *_columns("key_place_hi", "key_place_lo", "gaps"),
        F.when(in_span, leaf).alias("leaf"),
        F.when(~in_span, F.get("table", cell)).alias("entry"),
    )
    # 3. Of the leaf set and the node itself the numerically closest; or the entry; or, where there
    #    is none, who shares a prefix at least as long and is closer: a node on one side of the gap.
    #    (The position in the leaf set is counted: a struct for each leaf takes six times as long.)
    gap = F.get("gaps", -1 - entry)
    beside_gap = F.when(_before_key(gap), gap["above"]).otherwise(gap["below"])
    chosen = (
        leaf,
        F.when(leaf.isNotNull(), F.size(F.filter("leaf", _before_key))).alias("closest"),
        F.when(entry < 0, beside_gap).otherwise(entry.cast("bigint")).alias("onward"),
    )
    # 4. The root has nobody to send the message to: the closest is the node itself.
    closest_leaf = F.get("leaf", F.when(closest < F.size("leaf"), closest).otherwise(0))
    onward = F.when(closest.isNotNull(), closest_leaf["node"]).otherwise(F.col("onward"))
    return of_key, leaf_or_entry, chosen, (F.nullif(onward, F.col("node")).alias("next"),)


def _before_key(place: Column) -> Column:
    """`place` (``u_hi, u_lo``: an id with flipped sign bits) comes before the key."""
    hi, lo = F.col("key_place_hi"), F.col("key_place_lo")
    return (place["u_hi"] < hi) | ((place["u_hi"] == hi) & (place["u_lo"] < lo))


def _in_span(key_hi: Column, key_lo: Column) -> Column:
    """The key lies on the arc from the farthest smaller to the farthest larger leaf."""
    low, high = ids.halves("node_state.low"), ids.halves("node_state.high")
    after_low, before_high = ids.le(*low, key_hi, key_lo), ids.le(key_hi, key_lo, *high)
    inside = F.when(ids.lt(*high, *low), after_low | before_high).otherwise(after_low & before_high)
    return F.col("node_state.whole") | inside
