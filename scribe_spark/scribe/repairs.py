"""The duration of repairs: rounds from a node's death until a root reaches all its children again.

This serves the measures alone; the messages are not counted.

References
----------
JSAC 2002, Section III.B.1; docs/rules.md, S21.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, find_sorted
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import Repairs

_WALK, _REACHED, _LEFT, _DONE = "way up", "reached", "not reached yet", "all reached"

#: The table of dead nodes whose children are all reached again: ``died, node``.
REPAIRED = "scribe repaired"

#: The table of children in `Repairs` that a root reaches: ``pair``, the key of (group, node).
_PAIRS = "scribe reached"


class FindReached(RoundProgram):
    """Walk from the children of dead nodes up, from parent to parent, to find a root."""

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if _REACHED in inbox:
            came = inbox[_REACHED]
            scribe.note(_PAIRS, pair=scribe.key(came["group"], came[AT]))
        if _WALK in inbox:
            _walk(scribe, inbox[_WALK])
        if not superstep:
            group, child = scribe.split(distinct(scribe.state.repairs.pair))
            one = np.ones(len(child), dtype=np.int64)
            began = {"group": group, "source": child, AT: child, "anchor": child}
            _walk(scribe, began | {"steps": 0 * one, "limit": one})


def _walk(scribe: Scribe, ways: Columns) -> None:
    """Walk up to a root, an orphan, the edge of the bucket, or back to the anchor (a cycle).

    The anchor moves to a later node after 1, 2, 4, ... steps.
    """
    entries = scribe.state.entries
    while len(ways[AT]):
        row = scribe.entry(ways["group"], ways[AT])
        ways, row = take(ways, np.flatnonzero(row >= 0)), row[row >= 0]
        root = entries.root[row]
        scribe.tell(_REACHED, ways["source"][root], group=ways["group"][root])
        on = np.flatnonzero(~root & (entries.parent[row] >= 0) & entries.heeded[row])
        ways, at = take(ways, on), entries.parent[row[on]]
        on = np.flatnonzero(at != ways["anchor"])
        ways, at = take(ways, on), at[on]
        steps = ways["steps"] + 1
        far = steps == ways["limit"]
        anchor = np.where(far, at, ways["anchor"])
        limit = np.where(far, 2 * ways["limit"], ways["limit"])
        ways = {**ways, AT: at, "anchor": anchor, "steps": steps, "limit": limit}
        away = ~scribe.is_own(at)
        if away.any():
            leaving = take(ways, np.flatnonzero(away))
            scribe.tell(_WALK, leaving.pop(AT), **leaving)
            ways = take(ways, np.flatnonzero(~away))


class CountRepairs(RoundProgram):
    """Record and remove dead nodes whose children are all reached by a root again."""

    writes = ("repairs",)

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if _LEFT in inbox:
            _add_up(scribe, inbox[_LEFT])
        if _DONE in inbox:
            _forget(scribe, inbox[_DONE])
        if superstep:
            return
        repairs, entries = scribe.state.repairs, scribe.state.entries
        reached = tables.pop(_PAIRS, {"pair": np.empty(0, dtype=np.int64)})["pair"]
        there = entries.has(repairs.pair)
        left = there & (find_sorted(np.sort(reached), repairs.pair) < 0)
        death, which = np.unique(_deaths(scribe, repairs), return_inverse=True)
        waits = np.bincount(which[left], minlength=len(death)) > 0
        died, node = scribe.split(death)
        scribe.tell(_LEFT, node, died=died, waits=waits, asks=np.full(len(died), scribe.first))


def _deaths(scribe: Scribe, repairs: Repairs) -> np.ndarray:
    return repairs.died * scribe.state.size + repairs.node


def _add_up(scribe: Scribe, came: Columns) -> None:
    """Record dead nodes without a waiting child in any bucket; answer the buckets that asked."""
    death, which = np.unique(came["died"] * scribe.state.size + came[AT], return_inverse=True)
    waits = np.bincount(which[came["waits"]], minlength=len(death)) > 0
    died, node = scribe.split(death[~waits])
    scribe.note(REPAIRED, died=died, node=node)
    columns = {"died": came["died"], "node": came[AT], "waits": waits[which]}
    scribe.tell(_DONE, came["asks"], **columns)


def _forget(scribe: Scribe, came: Columns) -> None:
    repairs = scribe.state.repairs
    waits = came["died"] * scribe.state.size + came["node"]
    waits = np.sort(waits[came["waits"]])
    kept = find_sorted(waits, _deaths(scribe, repairs)) > NONE
    kept &= scribe.state.entries.has(repairs.pair)
    scribe.state.repairs = repairs.take(kept)
