"""Records of the measured multicasts in a world's round.

All publications of a group in a round go the same way, so only one is recorded, with id 0.

References
----------
docs/rules.md, B17, B18, S25 to S27.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scribe_spark.core.arrays import run_starts
from scribe_spark.core.keys import key_of
from scribe_spark.engine.packing import Columns, concatenate, count_rows, take
from scribe_spark.engine.program import Tables, append
from scribe_spark.living import CARRIED, DELIVERED


def note_copies(tables: Tables, group: np.ndarray, sender: np.ndarray, to: np.ndarray) -> None:
    """Record copies once, however many publications went the same way: `living.CARRIED`."""
    if len(group):
        rows = {"group": group, "publication": np.zeros(len(group), dtype=np.int64)}
        append(tables, CARRIED, {**rows, "sender": sender, "to": to})


def note_first_copies(tables: Tables, copies: Columns, trees: Sequence[Columns], size: int) -> None:
    """Record the first copy at each node: `living.DELIVERED`.

    `copies` is the table `dissemination.ARRIVALS`; `trees` have ``session, member, hops,
    delay_us``.  For nodes without a copy, the first TREE with the publications counts, because
    TREEs are sent after all copies.
    """

    def named(came: Columns, *columns: str) -> Columns:
        names = ("group", "node", "hops", "delay_us")
        return {name: came[column] for name, column in zip(names, columns, strict=True)}

    parts = [named(copies, "group", "node", "hops", "at_us")] if copies else []
    parts += [named(tree, "session", "member", "hops", "delay_us") for tree in trees]
    if not parts:
        return
    got = concatenate(parts)
    by_tree = np.arange(count_rows(got)) >= count_rows(copies)
    place = key_of([got["group"], got["node"]], size)
    order = np.lexsort((got["hops"], got["delay_us"], by_tree, place))
    first = order[run_starts(place[order])]
    publication = np.zeros(len(first), dtype=np.int64)
    append(tables, DELIVERED, {**take(got, first), "publication": publication})
