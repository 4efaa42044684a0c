"""What the nodes of a world know of groups: as one state, cut into buckets, and put together again.

Tests look at all nodes at once; a round is played by buckets.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from scribe_spark.core.arrays import NONE, SortedTable
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.on_spark import pack_rows, read_rows
from scribe_spark.engine.packing import concatenate, count_rows
from scribe_spark.rounds.events import NEVER
from scribe_spark.systems.scribe.sources import SOURCE
from scribe_spark.systems.scribe.state import PARTS, BucketState, Paths, ScribeState

#: Tables that all buckets have, for the measures alone.
_EVERYWHERE = ("dead_roots", "publications", "resent")


def empty_state(nodes: int, groups: int) -> ScribeState:
    """No group has been created yet."""
    return ScribeState(nodes, np.full(nodes, NEVER, dtype=np.int64), np.zeros(groups, dtype=bool))


def tables_of(state: ScribeState) -> Tables:
    """Return the tables of a bucket whose nodes know this; nothing is copied."""
    tables = Tables()
    held = BucketState(tables, PARTS, state.size, state.incarnation, len(state.created))
    for name in PARTS:
        setattr(held, name, getattr(state, name))
    held.put_back()
    return tables


def written(state: ScribeState) -> ScribeState:
    """Return what a save has of a state."""
    rows = [
        row
        for name, columns in tables_of(state).items()
        for row in pack_rows(0, 0, True, name, columns)
    ]
    tables = Tables.of({row.name: row.read() for row in read_rows(rows)})
    return state_of(tables, state.size, state.incarnation, len(state.created))


def state_of(tables: Tables, size: int, incarnation: np.ndarray, groups: int) -> ScribeState:
    """Return what the nodes of a bucket know, by its tables; nothing is copied."""
    held = BucketState(tables, PARTS, size, incarnation, groups)
    parts = {name: getattr(held, name) for name in PARTS}
    return ScribeState(size, incarnation, **parts)


def split_state(state: ScribeState, ring: Ring, first: int, last: int) -> ScribeState:
    """Return what the nodes from one position up to another know."""
    size, parts = state.size, {}

    def own(node: np.ndarray) -> np.ndarray:
        return np.flatnonzero((node >= first) & (node < last))

    for name in PARTS:
        part = getattr(state, name)
        if isinstance(part, SortedTable) and name not in _EVERYWHERE:
            edges = name in ("children", "replicas", "questions")
            node = part.key // size % size if edges else part.key % size
            parts[name] = _take(part, own(node))
        elif name == "missing":
            parts[name] = _take(part, own(part.node))
        elif name == "kept":
            parts[name] = _take(part, own(ring.positions(part.publication & SOURCE)))
        elif name == "repairs":
            parts[name] = _take(part, own(part.pair % size))
        elif isinstance(part, np.ndarray):
            parts[name] = part.copy()
        else:
            parts[name] = replace(part)
    if first:  # counted once
        parts["created"][:] = False
        none = np.zeros_like(state.publications.duplicates)
        parts["publications"] = replace(state.publications, first_copies=none, duplicates=none)
    return ScribeState(size, state.incarnation, **parts)


def join_states(states: Sequence[ScribeState]) -> ScribeState:
    """Return what the nodes of all buckets know."""
    one = states[0]
    if len(states) == 1:
        return one
    parts: dict[str, Any] = {}
    for name in PARTS:
        each = [getattr(state, name) for state in states]
        if name == "paths":
            continue
        if name == "created":
            parts[name] = np.any(each, axis=0)
        elif name in _EVERYWHERE:
            each = _filled(each)
            parts[name] = each[0]
            if name == "publications":
                counts = {
                    copies: np.sum([getattr(part, copies) for part in each], axis=0)
                    for copies in ("first_copies", "duplicates")
                }
                parts[name] = replace(each[0], **counts)
        elif name == "entries":
            parts["paths"], each = _renumbered(states, each)
            parts[name] = _joined(each)
        else:
            parts[name] = _joined(each)
    return ScribeState(one.size, one.incarnation, **parts)


def _renumbered(states: Sequence[ScribeState], tables: list) -> Any:
    """The paths of all buckets, and the tables of entries with their new rows."""
    paths, numbered = Paths(), []
    for state, table in zip(states, tables, strict=True):
        before = len(paths)
        paths.add(state.paths.nodes)
        path = np.where(table.path >= 0, table.path + before, NONE).astype(table.path.dtype)
        numbered.append(replace(table, path=path))
    return paths, numbered


def _filled(parts: list) -> list:
    """Without those of buckets that have no nodes, whom nobody tells anything."""
    most = max(count_rows(_columns(part)) for part in parts)
    return [part for part in parts if count_rows(_columns(part)) == most]


def _columns(part: Any) -> dict[str, np.ndarray]:
    return {one.name: getattr(part, one.name) for one in fields(part)}


def _take(part: Any, index: np.ndarray) -> Any:
    return type(part)(**{name: column[index] for name, column in _columns(part).items()})


def _joined(parts: list) -> Any:
    together = type(parts[0])(**concatenate([_columns(part) for part in parts]))
    if isinstance(together, SortedTable):
        return _take(together, np.argsort(together.key, kind="stable"))
    return together
