"""Scribe's measures of a round: its trees, the events of its groups, repairs, and watched trees.

docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, flags, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT
from scribe_spark.rounds.group_events import SOURCE_BITS
from scribe_spark.rounds.player import Counted, Counts
from scribe_spark.systems.scribe.end_of_round import ORPHANS, OUTCOMES, OVERLOADED
from scribe_spark.systems.scribe.figures import AT_ROOT
from scribe_spark.systems.scribe.heartbeat import HERE
from scribe_spark.systems.scribe.join import JOINS, REPAIRING
from scribe_spark.systems.scribe.multicast import DELIVERIES
from scribe_spark.systems.scribe.root import MADE
from scribe_spark.systems.scribe.scribe import REFUSED, REFUSED_KINDS, RoundProgram, Scribe
from scribe_spark.systems.scribe.sources import FATES, first_parts
from scribe_spark.systems.scribe.state import CAUSES, Repairs

#: The maximal N in ``repaired.N``, the number of repairs that took N rounds; most late deliveries
#: need fewer rounds, too.
_MOST_ROUNDS = 64

#: The measures of a round with their units; see :func:`group_measures`.
MEASURES: dict[str, str] = {
    "members": "members",
    "forwarders": "nodes in trees",
    "children": "entries of children tables",
    "orphans": "nodes in trees",
    "groups.created": "groups",
    "groups.lost": "groups",
    "joins": "JOINs",
    **{f"joins.{cause}": "JOINs" for cause in CAUSES},
    "joins.at_root": "JOINs",
    **{f"refused.{kind}": "messages" for kind in REFUSED_KINDS},
    "failures": "nodes",
    "overloaded": "nodes",
    "repair.nodes": "nodes",
    "repaired": "failures",
    **{f"repaired.{rounds}": "failures" for rounds in range(_MOST_ROUNDS)},
    "deliveries.out_of_order": "deliveries",
    "deliveries.late": "deliveries",
    **{f"deliveries.late.{rounds}": "deliveries" for rounds in range(1, _MOST_ROUNDS)},
    **{f"publications.{fate}": "publications" for fate in FATES},
}

#: Measures that are counts of things, whatever their value.
_TOTALS = (
    *("members", "forwarders", "children", "orphans", "groups.created", "joins.at_root"),
    *("failures", "overloaded", "repair.nodes", "deliveries.out_of_order"),
)

#: Counts by a value, with the names of the values; the sums of some are measures, too.
_BY_VALUE: dict[str, Sequence[str] | range] = {
    **{"joins": CAUSES, "refused": REFUSED_KINDS, "publications": FATES},
    **dict.fromkeys(("repaired", "deliveries.late"), range(_MOST_ROUNDS)),
}

#: The name of the table of a round's counts; see `Counts`.
GROUPS_MEASURED = "scribe measured groups"

#: The table of nodes that died in this round and had children: ``node``.
FAILURES = "scribe failures"

#: The message to a dead node's bucket: the node had children.
_WAS_PARENT = "was a parent"


def _count_failures(scribe: Scribe, came: Columns) -> None:
    counts = Counts()
    counts.add_total("failures", len(distinct(came[AT])))  # several buckets may have sent it
    scribe.note(GROUPS_MEASURED, **counts.columns())


class MeasureGroups(RoundProgram):
    """Count a round's group events and trees: :data:`GROUPS_MEASURED`; after `EndOfRound`."""

    handlers = ((_WAS_PARENT, _count_failures),)

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        counts = Counts()
        _count(scribe, tables, counts)
        scribe.note(GROUPS_MEASURED, **counts.columns())
        if FAILURES in tables:
            scribe.tell(_WAS_PARENT, distinct(tables[FAILURES]["node"]))


def _count(scribe: Scribe, tables: Tables, counts: Counts) -> None:
    """Count the entries of trees, and the rows of a round's tables, into `counts`."""
    entries = scribe.state.entries
    counts.add_total("members", np.count_nonzero(entries.member))
    counts.add_total("forwarders", np.count_nonzero(~entries.member & ~entries.root))
    counts.add_total("children", len(scribe.state.children))

    def column(table: str, name: str) -> np.ndarray:
        return tables[table][name] if table in tables else whole_numbers()

    for name, table in _ROWS.items():
        counts.add_total(name, count_rows(tables.get(table, {})))
    counts.add("joins", column(JOINS, "cause"))
    counts.add_total("repair.nodes", len(distinct(column(REPAIRING, "node"))))
    counts.add("repaired", scribe.number - column(REPAIRED, "died"))
    counts.add_counts("refused", column(REFUSED, "kind"), column(REFUSED, "count"))
    ages = scribe.number - (column(DELIVERIES, "publication") >> SOURCE_BITS)
    counts.add("deliveries.late", ages[ages > 0])
    counts.add_total(
        "deliveries.out_of_order", np.count_nonzero(column(DELIVERIES, "out_of_order"))
    )
    if not scribe.first:  # the table is equal in all buckets
        named = column(OUTCOMES, "publication")
        whole = first_parts(scribe.round, named) == named
        counts.add("publications", column(OUTCOMES, "fate")[whole])


#: Counts that are the numbers of rows of tables.
_ROWS = {
    "orphans": ORPHANS,
    "groups.created": MADE,
    "joins.at_root": AT_ROOT,
    "overloaded": OVERLOADED,
}


def lost_groups(taken: Mapping[str, Columns], groups: int) -> np.ndarray:
    """Return the groups (indices) whose state no live node has, by the table `HERE`."""
    if HERE not in taken:
        return np.empty(0, dtype=np.int64)
    here, created = (
        taken[HERE][name].reshape(-1, groups).any(axis=0) for name in ("here", "created")
    )
    return np.flatnonzero(created & ~here)


def group_measures(
    taken: Mapping[str, Columns], groups: int, has_limits: bool = False
) -> dict[str, float]:
    """Return the values of :data:`MEASURES` after a round; docs/measures_reference.md defines
    them.

    A node is an orphan if it is not the root and no live parent knows it as a child. `taken`
    has the tables :data:`GROUPS_MEASURED` and `HERE` of all buckets.
    """
    found = Counted(taken.get(GROUPS_MEASURED, {}))
    values: dict[str, float] = {"groups.lost": len(lost_groups(taken, groups))}
    for name, names in _BY_VALUE.items():
        counts = found.by_value(name)
        values[name] = sum(counts.values())
        values |= {f"{name}.{names[value]}": count for value, count in counts.items()}
    values |= {one: found.total(one) for one in _TOTALS if has_limits or one != "overloaded"}
    return {name: float(values[name]) for name in MEASURES if name in values}


# --- the duration of repairs: rounds from a death until a root reaches all children again
#
# This serves the measures alone; the messages are not counted.

_WALK, _REACHED, _LEFT, _DONE = "way up", "reached", "not reached yet", "all reached"

#: The table of dead nodes whose children are all reached again: ``died, node``.
REPAIRED = "scribe repaired"

#: The table of children in `Repairs` that a root reaches: ``pair``, the key of (group, node).
_PAIRS = "scribe reached"


def _walk(scribe: Scribe, ways: Columns) -> None:
    """Walk up the tree to a root, an orphan, the edge of the bucket, or the anchor (a cycle)."""
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


def _deaths(scribe: Scribe, repairs: Repairs) -> np.ndarray:
    return repairs.died * scribe.state.size + repairs.node


def _add_up(scribe: Scribe, came: Columns) -> None:
    """Record dead nodes whose children no bucket still waits for; answer buckets that asked."""
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


def _note_reached(scribe: Scribe, came: Columns) -> None:
    scribe.note(_PAIRS, pair=scribe.key(came["group"], came[AT]))


class FindReached(RoundProgram):
    """Walk from the children of dead nodes up, from parent to parent, to find a root."""

    handlers = ((_REACHED, _note_reached), (_WALK, _walk))

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        group, child = scribe.split(distinct(scribe.state.repairs.pair))
        one = np.ones(len(child), dtype=np.int64)
        began = {"group": group, "source": child, AT: child, "anchor": child}
        _walk(scribe, began | {"steps": 0 * one, "limit": one})


class CountRepairs(RoundProgram):
    """Record, and forget, dead nodes all of whose children a root reaches again."""

    writes = ("repairs",)

    handlers = ((_LEFT, _add_up), (_DONE, _forget))

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        repairs, entries = scribe.state.repairs, scribe.state.entries
        reached = tables.pop(_PAIRS, {"pair": np.empty(0, dtype=np.int64)})["pair"]
        there = entries.has(repairs.pair)
        left = there & (find_sorted(np.sort(reached), repairs.pair) < 0)
        death, which = np.unique(_deaths(scribe, repairs), return_inverse=True)
        waits = np.bincount(which[left], minlength=len(death)) > 0
        died, node = scribe.split(death)
        scribe.tell(_LEFT, node, died=died, waits=waits, asks=np.full(len(died), scribe.first))


# --- watched trees: the effect of failures on a few small trees, round by round
#
# To keep the table small, a tree is recorded only around failures: when a node with children has
# died, the tree before and after that round, and then the tree after each round until no node in it
# is an orphan.

#: The values of ``moment`` in `schemas.WATCHED_TREES`.
BEFORE, AFTER = "before", "after"

#: The maximal number of watched groups; groups with a number of members nearest to :data:`MEMBERS`
#: are chosen.
WATCHED, MEMBERS = 8, 14

#: Trees with more nodes are not recorded.
MOST_NODES = 64


def watched_groups(numbers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the numbers of the groups whose trees are watched, ascending."""
    apart = np.abs(sizes - MEMBERS)
    return np.sort(numbers[np.argsort(apart, kind="stable")[:WATCHED]])


#: The table of the watched trees: ``group`` (the index), ``node``, ``parent``, ``member``,
#: ``root``, ``orphan``.  It stays for the next round; then it has the trees before that round.
TREES = "scribe watched entries"
TREES_BEFORE = f"{TREES} before"


@dataclass(frozen=True)
class SeeTrees(RoundProgram):
    """Record what nodes know about watched trees (indices of groups): :data:`TREES`."""

    watched: np.ndarray

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        if TREES in tables:
            tables[TREES_BEFORE] = tables.pop(TREES)
        entries, size = scribe.state.entries, scribe.state.size
        first, last = (np.searchsorted(entries.key, (self.watched + n) * size) for n in (0, 1))
        # one node more than is recorded shows that a tree is too large
        _, row = expand(first, np.minimum(last, first + MOST_NODES + 1))
        group, node = scribe.split(entries.key[row])
        seen = {name: getattr(entries, name)[row] for name in ("parent", "member", "root")}
        scribe.note(TREES, group=group, node=node, **seen, orphan=entries.are_orphans()[row])


def tree_rows(
    number: int,
    before: Columns,
    after: Columns,
    groups: np.ndarray,
    known: Ring,
    alive: np.ndarray,
) -> pa.Table:
    """Return the rows of the watched trees after a round: `schemas.WATCHED_TREES`.

    `before` and `after` are :data:`TREES` of all buckets, before and after the round.
    """
    old, new = ({**_NO_TREES, **seen} for seen in (before, after))
    old, new = (take(seen, np.lexsort((seen["node"], seen["group"]))) for seen in (old, new))
    place = [key_of([seen["group"], seen["node"]], len(known)) for seen in (old, new)]

    def count(seen: Columns, which: np.ndarray) -> np.ndarray:
        return np.bincount(seen["group"][which], minlength=len(groups))

    # 1. the groups of which a node with children has died, and those with orphans
    died, below = ~alive[old["node"]], old["parent"] >= 0
    parents = key_of([old["group"], old["parent"]], len(known))[below]
    struck = count(old, died & np.isin(place[0], parents)) > 0
    sizes = [count(seen, seen["node"] >= 0) for seen in (old, new)]
    small = np.maximum(*sizes) <= MOST_NODES
    orphans = count(old, old["orphan"]) + count(new, new["orphan"]) > 0
    told = small & (struck | orphans)
    # 2. the trees before and after the round, and the nodes that are gone
    gone = died & ~np.isin(place[0], place[1])
    parts = (
        (BEFORE, True, take(old, (small & struck)[old["group"]])),
        (AFTER, True, take(new, told[new["group"]])),
        (AFTER, False, take(old, told[old["group"]] & gone)),
    )
    rows = concatenate(
        {**part, "moment": np.full(count_rows(part), moment, dtype=object)}
        | {"alive": np.full(count_rows(part), is_alive)}
        for moment, is_alive, part in parts
    )
    rows = take(rows, np.argsort(rows["group"], kind="stable"))
    cells = {
        **rows,
        "round": np.full(count_rows(rows), number),
        "group": groups[rows["group"]],
        "node": known.node[rows["node"]],
        "parent": pa.array(known.node[rows["parent"]], mask=rows["parent"] < 0),
    }
    return pa.Table.from_pydict(cells, schema=to_arrow_schema(schemas.WATCHED_TREES))


_NO_TREES = {
    **{name: whole_numbers() for name in ("group", "node", "parent")},
    **{name: flags() for name in ("member", "root", "orphan")},
}


def all_told(rounds: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Combine `schemas.WATCHED_TREES` of several rounds; a missing parent becomes None."""
    parts = [told.astype({"parent": "Int64"}) for told in rounds if len(told)]
    if not parts:
        return pd.DataFrame(columns=schemas.WATCHED_TREES.names)
    trees = pd.concat(parts, ignore_index=True)
    return trees.astype({"parent": object}).where(trees.notna(), None)
