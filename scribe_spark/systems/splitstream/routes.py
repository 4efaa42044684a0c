"""Pastry's routes to the ids of stripes, which say where SUBSCRIBEs enter a channel: rule L5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, find_sorted, whole_numbers
from scribe_spark.core.keys import mixed_key
from scribe_spark.engine import Columns
from scribe_spark.systems.splitstream.forest import Forest

#: The most nodes of a route; a longer one goes in a circle.
_LONGEST = 128


@dataclass(frozen=True)
class Routes:
    """The next hops of nodes towards the ids of stripes.

    Attributes
    ----------
    key : ndarray of int64
        The keys (group, position, stripe), ascending.
    next : ndarray of int64
        The positions of the next nodes; the node itself or NONE where the route ends.
    """

    size: int  # the number of nodes
    keys: int  # the number of ids a group
    key: np.ndarray
    next: np.ndarray

    @classmethod
    def of(cls, handed: Columns, size: int, keys: int) -> Routes:
        """Return routes from the table :data:`ROUTES`."""
        if not handed:
            return cls(size, keys, whole_numbers(), whole_numbers())
        key = mixed_key([handed[name] for name in ("group", "node", "stripe")], [size, keys])
        order = np.argsort(key, kind="stable")
        return cls(size, keys, key[order], handed["next"][order])

    def entries(
        self,
        forest: Forest,
        rows: np.ndarray,
        stripe: np.ndarray,
        who: np.ndarray,
        to_root: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, Mapping[str, np.ndarray]]:
        """Return where the routes of nodes enter their channels.

        Returns
        -------
        entry : ndarray of int64
            The first other node (a row) in the channel that is not `who`, or the root of the stripe
            for the rows that `to_root` marks; NONE: there is none.
        hops : ndarray of int64
            The number of hops to that node.
        passed : mapping of str to ndarray
            The transmissions on the routes that enter: ``row, sender, to`` (positions).
        """
        entry, hops = np.full((2, len(rows)), NONE, dtype=np.int64)
        at, group, here = forest.node[rows], forest.group[rows], forest.entered & forest.alive
        channel, going, passed = forest.key, np.arange(len(rows)), list[np.ndarray]()
        for count in range(1, _LONGEST):
            key = mixed_key([group[going], at[going], stripe[going]], [self.size, self.keys])
            index = find_sorted(self.key, key)
            onward = np.where(index >= 0, self.next[index], NONE) if len(self.key) else index
            goes = (onward >= 0) & (onward != at[going])
            going, onward = going[goes], onward[goes]
            if not len(going):
                break
            passed.append(np.stack([going, at[going], onward]))
            at[going] = onward
            found = find_sorted(channel, group[going] * self.size + onward)
            enters = (found >= 0) & here[found] & (found != rows[going]) & (found != who[going])
            if to_root is not None:
                of_root = forest.root[found * forest.stripes + stripe[going]]
                enters &= of_root | ~to_root[going]
            entry[going[enters]], hops[going[enters]] = found[enters], count
            going = going[~enters]
        which, sender, to = np.concatenate([np.empty((3, 0), dtype=np.int64), *passed], axis=1)
        ends = entry[which] >= 0
        return entry, hops, {"row": which[ends], "sender": sender[ends], "to": to[ends]}
