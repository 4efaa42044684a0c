"""The next hop of every message: Pastry's routing rule, as one join with the nodes' state.

References
----------
JSAC 2002, Section II (routing).
"""

from __future__ import annotations

import functools

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark.core import u128 as ids
from scribe_spark.pastry.gaps import CONTINUED

__all__ = ["RESERVED_COLUMNS", "next_hop"]

#: What a hop adds to messages on its way to ``next``: no payload can have these names.
RESERVED_COLUMNS = frozenset(
    {"node_state", "router", "leaf_hi", "leaf_lo", "leaf_node", "table", "gap_hi", "gap_lo"}
    | {"gap_below", "gap_above", "place_hi", "place_lo", "in_span", "shared", "before", "entry"}
    | {"onward", "next"}
)


def next_hop(messages: DataFrame, nodes: DataFrame, b: int, *extra: Column) -> DataFrame:
    """Where each message goes next, by the rule of Section II.

    Parameters
    ----------
    messages : DataFrame
        ``node, key_hi, key_lo`` and payload.
    nodes : DataFrame
        `layout.LAYOUT`, partitioned by node.
    b : int
        Digits are base 2**b.
    extra : Column
        What else of ``node_state`` is to be in the result.

    Returns
    -------
    DataFrame
        `messages` with ``router`` of their node and ``next``: NULL where the node is the root of
        the key.  Those for which no node has the number ``node`` are left out.
    """
    # The messages, the smaller side, are put into the hash table and the nodes stream past it.  (An
    # outer join, which would keep the messages to nobody, takes three times as long: Spark then
    # remembers every match.)
    here = messages.hint("shuffle_hash").join(nodes, "node", "inner")
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
    step names columns of the one before twice, which keeps the optimizer from merging the steps: a
    message whose key is in the leaf set's span looks nothing up in the table, and the other way.
    The first three steps run as one piece of generated code; the fourth has a `filter`, which Spark
    interprets, so all that it does not need is cut from the rows before.
    """
    key, node_id = ids.halves("key"), ids.halves("node_state.id")
    in_span, entry, before = F.col("in_span"), F.col("entry"), F.col("before")
    has_gap = entry < 0
    # 1. Is the key within the leaf set's span, and how many digits does the node share with it?
    of_key = (
        F.col("node_state"),
        _in_span(*key).alias("in_span"),
        ids.prefix_digits(*key, *node_id, b).alias("shared"),
    )
    # 2. If it is in the span: the leaf set; else the routing table's entry for (shared digits, next
    #    digit).
    cell = F.col("shared") * 2**b + ids.digit(*key, F.col("shared"), b)
    leaf_or_entry = (
        F.col("node_state"),
        *[F.when(in_span, F.col(f"node_state.{name}")).alias(name) for name in _LEAVES],
        F.when(~in_span, F.get("node_state.table", cell)).alias("entry"),
    )
    # 3. Where there is no entry: the gap that the key is in.
    gap_or_entry = (
        *_columns(*_LEAVES, "entry"),
        *[F.when(has_gap, F.col(f"node_state.{name}")).alias(name) for name in _GAPS],
        ids.unsigned(key[0]).alias("place_hi"),
        ids.unsigned(key[1]).alias("place_lo"),
    )
    # 4. How many of the leaves take keys before this one only, so that the next is closest to it?
    leaves_before = (
        *_columns("leaf_node", "entry", *_GAPS, "place_hi", "place_lo"),
        F.when(F.col("leaf_hi").isNotNull(), _leaves_before_key()).alias("before"),
    )
    # 5. Of the leaf set and the node itself the numerically closest; or the entry; or, where there
    #    is none, who shares a prefix at least as long and is closer.
    closest = F.get("leaf_node", F.when(before < F.size("leaf_node"), before).otherwise(0))
    onward = (
        F.when(before.isNotNull(), closest).when(has_gap, _beside_gap(-1 - entry)).otherwise(entry)
    )
    # 6. The root has nobody to send the message to: the closest is the node itself.
    following = F.nullif(F.col("onward").cast("bigint"), F.col("node"))
    return (
        of_key,
        leaf_or_entry,
        gap_or_entry,
        leaves_before,
        (onward.alias("onward"),),
        (following.alias("next"),),
    )


_LEAVES = ("leaf_hi", "leaf_lo", "leaf_node")
_GAPS = ("gap_hi", "gap_lo", "gap_below", "gap_above")


def _in_span(key_hi: Column, key_lo: Column) -> Column:
    """The key lies on the arc from the farthest smaller to the farthest larger leaf."""
    low, high = ids.halves("node_state.low"), ids.halves("node_state.high")
    after_low, before_high = ids.le(*low, key_hi, key_lo), ids.le(key_hi, key_lo, *high)
    inside = F.when(ids.lt(*high, *low), after_low | before_high).otherwise(after_low & before_high)
    return F.col("node_state.covers_ring") | inside


def _leaves_before_key() -> Column:
    """How many leaves have a last key before the key; compared by halves, for speed.

    Two first halves are hardly ever equal; only then the second ones are looked at.
    """
    hi, lo = F.col("place_hi"), F.col("place_lo")
    by_first_half = F.size(F.filter("leaf_hi", lambda leaf_hi: leaf_hi < hi))
    pairs = F.arrays_zip("leaf_hi", "leaf_lo")
    tied = F.filter(pairs, lambda leaf: (leaf["leaf_hi"] == hi) & (leaf["leaf_lo"] < lo))
    any_tied = F.array_contains("leaf_hi", hi)
    return by_first_half + F.when(any_tied, F.size(tied)).otherwise(0)


def _beside_gap(first: Column) -> Column:
    """The candidate on the key's side of the gap that it lies on; `first` is the first to try."""

    def before_key(gap_hi: Column, gap_lo: Column) -> Column:
        hi, lo = F.col("place_hi"), F.col("place_lo")
        return (gap_hi < hi) | ((gap_hi == hi) & (gap_lo < lo))

    hi, lo, below, above = (F.get(name, first) for name in _GAPS)
    side = F.when(before_key(hi, lo), above).otherwise(below)
    # a gap that is continued: of those after it, the first that the key does not lie above
    after = F.slice(F.arrays_zip(*_GAPS), first + 2, F.size("gap_hi"))
    found = F.get(
        F.filter(
            after,
            lambda gap: ~before_key(gap["gap_hi"], gap["gap_lo"]) | (gap["gap_above"] != CONTINUED),
        ),
        F.lit(0),
    )
    further = F.when(before_key(found["gap_hi"], found["gap_lo"]), found["gap_above"]).otherwise(
        found["gap_below"]
    )
    return F.when(side == CONTINUED, further).otherwise(side)
