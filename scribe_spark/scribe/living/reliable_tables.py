"""What nodes remember for reliable delivery, as arrays: buffers, and how far children were served.

A part of the application `reliable`: it knows nothing of Scribe.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from scribe_spark.scribe.living.sorted_table import NONE, SortedTable, places, whole_numbers
from scribe_spark.scribe.living.upcalls import Calls

__all__ = ["Memory", "consecutive"]


@dataclass
class _Records(SortedTable):
    """What nodes of trees remember; by (group, node).

    Attributes
    ----------
    entered : ndarray of int64
        The round in which the node entered the tree: in another round it begins anew.
    last : ndarray of int64
        All messages up to here were had, in order; NONE until the node knows where it begins.
    floor : ndarray of int64
        Messages up to here are to be had no more.
    numbers, names : ndarray of int64, shape (n, B)
        The messages kept, ascending by number, and their publications; NONE comes first.
    """

    entered: np.ndarray = field(default_factory=whole_numbers)
    last: np.ndarray = field(default_factory=whole_numbers)
    floor: np.ndarray = field(default_factory=whole_numbers)
    numbers: np.ndarray = field(default_factory=whole_numbers)
    names: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class _Served(SortedTable):
    """Up to which number children were served, or NONE; by (group, node, child)."""

    at: np.ndarray = field(default_factory=whole_numbers)


class Memory:
    """The memory of all nodes' processes.

    Parameters
    ----------
    size : int
        B, how many messages a node keeps.
    nodes : int
        How many nodes are known.
    """

    def __init__(self, size: int, nodes: int) -> None:
        self.size, self.nodes = size, nodes
        none = np.empty((0, size), dtype=np.int64)
        self.records, self.served = _Records(numbers=none, names=none), _Served()
        self.ready = pd.DataFrame({"call": [], "publication": []}, dtype=np.int64)

    @property
    def last(self) -> np.ndarray:
        """See `_Records`."""
        return self.records.last

    @property
    def floor(self) -> np.ndarray:
        """See `_Records`."""
        return self.records.floor

    @property
    def numbers(self) -> np.ndarray:
        """See `_Records`."""
        return self.records.numbers

    @property
    def at(self) -> np.ndarray:
        """See `_Served`."""
        return self.served.at

    # ---- rows

    def rows(self, calls: Calls) -> np.ndarray:
        """The rows of calls; new ones of nodes that have entered the tree anew."""
        place, entered = self._place(calls), calls.here["entered"].to_numpy()
        row = self.records.find(place)
        stale = row >= 0
        stale[stale] = self.records.entered[row[stale]] != entered[stale]
        if stale.any():
            self._forget(np.isin(self.records.key, place[stale]))
        new = ~self.records.has(place)
        if new.any():
            none = np.full((new.sum(), self.size), NONE)
            values = {"last": NONE, "floor": NONE, "numbers": none, "names": none}
            self.records.insert(place[new], entered=entered[new], **values)
            row = self.records.find(place)
        return row

    def edges(self, calls: Calls, children: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The calls and the rows in `served` of a table ``call, child``."""
        call = children["call"].to_numpy()
        key = self._place(calls)[call] * self.nodes + children["child"].to_numpy()
        row = self.served.find(key)
        if (row < 0).any():
            self.served.insert(np.unique(key[row < 0]), at=NONE)
            row = self.served.find(key)
        return call, row

    def _place(self, calls: Calls) -> np.ndarray:
        return calls.here["group"].to_numpy() * self.nodes + calls.here["node"].to_numpy()

    def _forget(self, which: np.ndarray) -> None:
        gone = self.records.key[which]
        self.records.keep(~which)
        self.served.keep(places(gone, self.served.key // self.nodes) < 0)

    # ---- buffers

    def kept(self, values: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """What roots keep in the groups' states: the last numbers, and messages.

        Of a root these are its last number, and pairs of a number and a publication.
        """
        call, value = values["call"].to_numpy(), values["value"].to_numpy()
        place = np.arange(len(call)) - np.searchsorted(call, call)
        number, name = (place % 2 == 1), (place % 2 == 0) & (place > 0)
        pairs = {"call": call[number], "number": value[number], "publication": value[name]}
        last = {"call": call[place == 0], "value": value[place == 0]}
        return pd.DataFrame(last), pd.DataFrame(pairs)

    def merge(self, rows: np.ndarray, messages: pd.DataFrame) -> None:
        """Put messages, ``call, number, publication``, into buffers."""
        if not len(messages):
            return
        some, call = np.unique(messages["call"].to_numpy(), return_inverse=True)
        numbers, names = self._merged(rows[some], messages.assign(call=call))
        self.records.numbers[rows[some]] = numbers[:, -self.size :]
        self.records.names[rows[some]] = names[:, -self.size :]

    def take(self, rows: np.ndarray, messages: pd.DataFrame) -> pd.DataFrame:
        """Put messages into buffers, and go on as far as there is no gap.

        A gap that `size` later messages have followed is given up.

        Returns
        -------
        DataFrame
            ``call, publication``: what is next in order.
        """
        numbers, names = self._merged(rows, messages)
        # 1. who has not begun begins with the first message
        call, number = messages["call"].to_numpy(), messages["number"].to_numpy()
        least = np.full(len(rows), np.iinfo(np.int64).max)
        np.minimum.at(least, call, number)
        begins = (self.last[rows] < 0) & (least < np.iinfo(np.int64).max)
        last = np.where(begins, least - 1, self.last[rows])
        # 2. what follows without a gap
        upto = last + consecutive(numbers, last + 1, 1)
        ready = (numbers > last[:, None]) & (numbers <= upto[:, None])
        # 3. gaps that are given up
        lowest = numbers[:, -self.size]
        skips = (lowest >= 0) & (last >= 0) & (upto < lowest - 1)
        skipped = lowest - 1 + consecutive(numbers, lowest, 1)
        ready |= skips[:, None] & (numbers >= lowest[:, None]) & (numbers <= skipped[:, None])
        self.records.last[rows] = np.where(skips, skipped, upto)
        self.records.numbers[rows] = numbers[:, -self.size :]
        self.records.names[rows] = names[:, -self.size :]
        call, at = np.nonzero(ready & (last >= 0)[:, None])
        return pd.DataFrame({"call": call, "publication": names[call, at]})

    def _merged(self, rows: np.ndarray, messages: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Buffers with messages, ascending; in as many columns as are needed."""
        call = messages["call"].to_numpy()
        order = np.argsort(call, kind="stable")
        call = call[order]
        place = np.arange(len(call)) - np.searchsorted(call, call)
        new = np.full((2, len(rows), int(place.max(initial=-1)) + 1), NONE)
        for part, name in zip(new, ("number", "publication"), strict=True):
            part[call, place] = messages[name].to_numpy()[order]
        numbers = np.concatenate([self.records.numbers[rows], new[0]], axis=1)
        names = np.concatenate([self.records.names[rows], new[1]], axis=1)
        numbers, names = _in_order(numbers, names)
        twice = numbers[:, :-1] == numbers[:, 1:]
        if (twice & (numbers[:, 1:] >= 0)).any():  # the later one is taken
            numbers[:, :-1][twice] = NONE
            numbers, names = _in_order(numbers, names)
        return numbers, names

    def names_of(self, rows: np.ndarray, number: np.ndarray) -> np.ndarray:
        """The publications of numbers that are in the buffers of rows."""
        at = (self.records.numbers[rows] == number[:, None]).argmax(axis=1)
        return self.records.names[rows, at]

    # ---- Application

    def nodes_died(self, nodes: np.ndarray) -> None:
        """The buffers of the nodes' processes are gone; as children they will have to join anew."""
        dead = np.zeros(self.nodes, dtype=bool)
        dead[nodes] = True
        self._forget(dead[self.records.key % self.nodes])
        self.served.keep(~dead[self.served.key % self.nodes])

    def tables(self) -> dict[str, pd.DataFrame]:
        """All of the memory."""
        records, served = self.records, self.served
        group, node = np.divmod(records.key, self.nodes)
        of = {"group": group, "node": node}
        row, at = np.nonzero(records.numbers >= 0)
        kept = {"number": records.numbers[row, at], "publication": records.names[row, at]}
        place, child = np.divmod(served.key, self.nodes)
        edge = {"group": place // self.nodes, "node": place % self.nodes, "child": child}
        return {
            "records": pd.DataFrame(
                {**of, "entered": records.entered, "last": records.last, "floor": records.floor}
            ),
            "buffers": pd.DataFrame({"group": group[row], "node": node[row], **kept}),
            "served": pd.DataFrame({**edge, "at": served.at}),
        }

    def restore(self, tables: dict[str, pd.DataFrame]) -> None:
        """Take back what :meth:`tables` gave."""
        records, buffers, served = (tables[name] for name in ("records", "buffers", "served"))
        none = np.full((len(records), self.size), NONE)
        place = (records["group"] * self.nodes + records["node"]).to_numpy()
        columns = {name: records[name].to_numpy() for name in ("entered", "last", "floor")}
        self.records.insert(place, **columns, numbers=none, names=none)
        row = self.records.find((buffers["group"] * self.nodes + buffers["node"]).to_numpy())
        self.merge(np.arange(len(records)), buffers.assign(call=row))
        place = (served["group"] * self.nodes + served["node"]) * self.nodes + served["child"]
        self.served.insert(place.to_numpy(), at=served["at"].to_numpy())


def consecutive(numbers: np.ndarray, start: np.ndarray, step: int) -> np.ndarray:
    """How many numbers of each row follow one another from a start, upwards or downwards.

    Parameters
    ----------
    numbers : ndarray of int64, shape (n, m)
        Ascending; NONE comes first, and is no number.
    step : int
        1 or -1.
    """
    hit = numbers == start[:, None]
    at = hit.argmax(axis=1)[:, None]
    place = np.arange(numbers.shape[1])
    run = (numbers - place == start[:, None] - at) & ((place - at) * step >= 0) & (numbers >= 0)
    return np.where(hit.any(axis=1), run.sum(axis=1), 0)


def _in_order(numbers: np.ndarray, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(numbers, axis=1, kind="stable")
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(names, order, axis=1)
