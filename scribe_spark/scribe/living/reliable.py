"""Reliable, ordered delivery: an application on the three upcalls and nothing else.

The root numbers messages, nodes keep the last `size`, a JOIN that repairs carries the last number
delivered, and the new parent sends what is missing.  Numbers of an epoch begin at ``epoch << 32``.
A retransmission carries ``start`` ("all that follows start is here") and ``floor`` ("up to here
nothing is left").  References: JSAC 2002, Section III.B.2.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from scribe_spark.scribe.living.reliable_tables import Memory, consecutive
from scribe_spark.scribe.living.sorted_table import NONE, expand
from scribe_spark.scribe.living.upcalls import NOTHING, Application, Calls, Emitted, empty

__all__ = ["Reliable"]


class Reliable(Memory, Application):
    """The application; what it remembers is in `reliable_tables.Memory`."""

    def fault_handler(self, calls: Calls, joins: pd.DataFrame) -> np.ndarray:
        """The last number delivered, or less if a child waits for older messages."""
        rows = self.rows(calls)
        extra = np.where(self.last[rows] >= 0, self.last[rows], NOTHING)
        top, first = self._top(calls, rows)
        call, edge = self.edges(calls, calls.children)
        needs = self._unserved(rows[call], edge, top[call], first[call])
        np.minimum.at(extra, call[needs], self.at[edge[needs]])
        return extra

    def join_handler(self, calls: Calls, joins: pd.DataFrame) -> Emitted:
        """Send what is missing; ask the parent, unless the own JOIN asks for it already."""
        rows = self.rows(calls)
        top, first = self._top(calls, rows)
        joins = joins.drop_duplicates(["call", "source"], keep="last")
        call, edge = self.edges(calls, joins.rename(columns={"source": "child"}))
        extra = joins["extra"].to_numpy()
        self.at[edge] = np.where(extra == NOTHING, NONE, extra)
        answered, emitted = self._serve(rows, call, edge, joins["source"].to_numpy(), top, first)
        needs = self._unserved(rows[call], edge, top[call], first[call]) & ~answered
        asks = needs & (extra < calls.here["asked"].to_numpy()[call])
        return replace(emitted, asks=pd.DataFrame({"call": call[asks], "extra": extra[asks]}))

    def forward_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> Emitted:
        """Number at the root, keep, and pass on; of a retransmission what each child lacks."""
        rows, root = self.rows(calls), calls.here["root"].to_numpy()
        number, start, floor = (messages[name].to_numpy() for name in messages)
        fresh, of = start == NOTHING, contents["call"].to_numpy()
        # 1. the root gives the next number; the group's state has it, and the last messages
        new = fresh & root
        number = np.where(new, self._top(calls, rows, new)[0] + 1, number)
        in_order = np.where(new[of], number[of], contents["number"].to_numpy())
        numbered = contents.assign(number=in_order)
        values = self._numbered(calls, number, numbered[new[of]])
        # 2. keep; all up to the start of a retransmission is given up
        again = rows[~fresh]
        self.floor[again] = np.maximum(self.floor[again], floor[~fresh])
        self.last[again] = np.maximum(self.last[again], start[~fresh])
        self.ready = self.take(rows, numbered)
        # 3. pass a fresh message on, also to who waits for older ones
        call, edge = self.edges(calls, calls.children)
        child, goes = calls.children["child"].to_numpy(), fresh[call]
        in_order = (self.at[edge] < 0) | (self.at[edge] == number[call] - 1)
        self.at[edge[goes & in_order]] = number[call[goes & in_order]]
        message = np.where(new, np.cumsum(new) - 1, -1)[call]
        passed = {"call": call[goes], "child": child[goes], "message": message[goes]}
        made = pd.DataFrame({"number": number[new], "start": NOTHING, "floor": -1})
        inside = numbered[new[of]].assign(message=(np.cumsum(new) - 1)[of[new[of]]])
        # 4. of a retransmission what each child lacks
        late = ~goes
        top, first = self._top(calls, rows, ~fresh & np.isin(np.arange(len(rows)), call[late]))
        _, more = self._serve(rows, call[late], edge[late], child[late], top, first)
        parcels, contents = (
            part.assign(message=part["message"] + len(made))
            for part in (more.parcels, more.contents)
        )
        return Emitted(
            pd.concat([pd.DataFrame(passed), parcels]),
            pd.concat([made, more.messages]),
            pd.concat([inside, contents]),
            values=values,
        )

    def message_handler(
        self, calls: Calls, messages: pd.DataFrame, contents: pd.DataFrame
    ) -> pd.DataFrame:
        """A member's user gets what is next in order; nothing that is older than its join."""
        joined = calls.here["joined"].to_numpy()[self.ready["call"].to_numpy()]
        return self.ready[self.ready["publication"].to_numpy() >> 32 >= joined]

    def _top(
        self, calls: Calls, rows: np.ndarray, roots: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The last number there is, and from where on a node has all up to it.

        A root goes by the group's state, which it takes over (only those in `roots`, if given).
        """
        top, values = self.last[rows].copy(), calls.values
        is_root = calls.here["root"].to_numpy() & (True if roots is None else roots)
        top[is_root] = calls.here["epoch"].to_numpy()[is_root] << 32
        last, kept = self.kept(values[is_root[values["call"].to_numpy()]])
        top[last["call"]] = last["value"]
        self.merge(rows, kept)
        first = top + 1 - consecutive(self.numbers[rows], top, -1)
        taken = rows[is_root]
        self.floor[taken] = np.maximum(self.floor[taken], first[is_root] - 1)
        return top, first

    def _unserved(
        self, rows: np.ndarray, edge: np.ndarray, top: np.ndarray, first: np.ndarray
    ) -> np.ndarray:
        """Whether children, row by row, need what their parents have not got."""
        at = self.at[edge]
        return (at >= 0) & ((top < 0) | (np.maximum(at, self.floor[rows]) + 1 < first))

    def _serve(self, rows, call, edge, child, top, first) -> tuple[np.ndarray, Emitted]:
        """What is missing at children: which of them are answered, and the answers."""
        at, top, row = self.at[edge], top[call], rows[call]
        start = np.where(at < 0, top, np.maximum(at, self.floor[row]))
        lacks = (start < top) | ((start == top) & (at != top))
        answered = (top >= 0) & lacks & (start + 1 >= first[call])
        start, top, row = start[answered], top[answered], row[answered]
        self.at[edge[answered]] = top
        message, number = expand(start + 1, top + 1)
        n = len(start)
        parcels = {"call": call[answered], "child": child[answered], "message": np.arange(n)}
        messages = {"number": start, "start": start, "floor": self.floor[row]}
        publication = self.names_of(row[message], number)
        contents = {"message": message, "number": number, "publication": publication}
        return answered, Emitted(*map(pd.DataFrame, (parcels, messages, contents)))

    def _numbered(self, calls: Calls, number: np.ndarray, new: pd.DataFrame) -> pd.DataFrame:
        """The groups' states with new messages: the last number, and the last messages."""
        if not len(new):
            return empty("call", "value")
        call = new["call"].to_numpy()
        _, kept = self.kept(calls.values[calls.values["call"].isin(call)])
        both = pd.concat([kept, new[["call", "number", "publication"]]])
        both = both.sort_values(["call", "number"], kind="stable").groupby("call").tail(self.size)
        flat = both[["number", "publication"]].to_numpy().ravel()
        last = pd.DataFrame({"call": call, "value": number[call]})
        tail = pd.DataFrame({"call": np.repeat(both["call"].to_numpy(), 2), "value": flat})
        return pd.concat([last, tail])
