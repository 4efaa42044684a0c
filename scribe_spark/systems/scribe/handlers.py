"""Scribe's upcalls: the columns that an application receives, and the use of its results.

References
----------
JSAC 2002, Section III.B.2.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import distinct, index_sorted
from scribe_spark.engine import Columns
from scribe_spark.systems.scribe.scribe import Joins, Scribe
from scribe_spark.systems.scribe.state import NOTHING
from scribe_spark.systems.scribe.upcalls import Calls

#: The table of roots that are new or whose group state changed, and whose replicas are not updated
#: yet: ``pair``, the key of (group, root).
CHANGED = "scribe changed"


def calls_of(scribe: Scribe, pair: np.ndarray, row: np.ndarray) -> Calls:
    """Return what the application may see of tree nodes (rows of `Entries`), for an upcall."""
    entries, children, copies = scribe.state.entries, scribe.state.children, scribe.state.copies
    group, node = scribe.split(pair)
    root = entries.root[row]
    answered = (entries.parent[row] >= 0) & (entries.number[row] == scribe.number)
    copy = copies.find(pair[root])
    epoch = np.full(len(pair), -1)
    epoch[root] = copies.epoch[copy]
    here = {
        "group": group,
        "node": node,
        "root": root,
        "entered": entries.entered[row],
        "joined": np.where(entries.member[row], entries.joined[row], -1),
        "asked": np.where(answered, entries.extra[row], NOTHING),
        "epoch": epoch,
    }
    call, edge = scribe.children_of(pair)
    under = {"call": call, "child": children.key[edge] % scribe.state.size}
    which, value = scribe.state.values.of(copies.value[copy])
    kept = {"call": np.flatnonzero(root)[which], "value": value}
    return Calls(scribe.number, here, under, kept)


def call_fault_handler(scribe: Scribe, joins: Joins) -> Joins:
    """Call faultHandler for repair JOINs; return the JOINs with its additions."""
    if scribe.best_effort or not len(joins):
        return joins
    pair = scribe.key(joins.group, joins.source)
    calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
    table = {"number": joins.number, "cause": joins.cause}
    return joins.with_extra(scribe.application.fault_handler(calls, table).astype(np.int64))


def keep_values(scribe: Scribe, pair: np.ndarray, values: Columns) -> None:
    """Store the values that the application keeps in the groups' states at the roots."""
    call = values["call"]
    if not len(call):
        return
    order = np.argsort(call, kind="stable")
    numbers = values["value"][order]
    changed, first = np.unique(call[order], return_index=True)
    copies = scribe.state.copies
    row = copies.find(pair[changed])
    lengths = np.diff(np.r_[first, len(numbers)])
    copies.value[row] = scribe.state.values.add(lengths, numbers)
    copies.version[row] += 1
    scribe.note(CHANGED, pair=pair[changed])


def keep_used_values(scribe: Scribe) -> None:
    """Delete stored values that no copy refers to, and number the others from 0."""
    value = scribe.state.copies.value
    used = distinct(value[value >= 0])
    if len(used) < len(scribe.state.values):
        value[value >= 0] = index_sorted(used, value[value >= 0])
        scribe.state.values.keep(used)
