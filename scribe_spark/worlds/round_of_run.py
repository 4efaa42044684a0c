"""Round 0 of a system in a run: what tasks play, and the tables in which a run writes its rows.

Tasks import this module, but none of the config's modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark.bandwidth.rounds import time_round
from scribe_spark.core import arrays, errors, keys
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import (
    Columns,
    Tables,
    exchange,
    in_task,
    on_spark,
    program,
)
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.measures.multicasts import InBucket, SystemTables
from scribe_spark.multicast import PAYLOAD, Multicast
from scribe_spark.rounds import events, group_events, system
from scribe_spark.rounds.group_overlays import PICTURE as PICTURE_OF_GROUP
from scribe_spark.rounds.player import TRAFFIC, Tally
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.schemas import written
from scribe_spark.systems.scribe.trees import ENTRIES

#: The tables of a bucket from which views are read.
COPIED, EDGES_OF_TREES, REACHED, KEPT, SENT, DRAWN = (
    *("copies of round 0", "edges of round 0", "deliveries of round 0"),
    *("state of round 0", "control of round 0", "picture of round 0"),
)

#: The further columns of copies in the table `multicast.COPIES`.
_OF_COPIES = ("hops", "sent_us", "first")


@dataclass(frozen=True)
class _AllLive(events.KnowsLives):
    """The lives of `nodes` nodes, which all live from the start to the end; picklable."""

    nodes: int

    def __getattr__(self, name: str) -> np.ndarray:
        values = {"alive": True, "died": events.NEVER, "wait": 0, "entered": 0}
        if name not in values:
            raise AttributeError(name)
        return _constant(self.nodes, values[name])

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        return positions >= 0


@lru_cache(maxsize=8)
def _constant(nodes: int, value: int | bool) -> np.ndarray:
    return np.full(nodes, value)


def control_kinds(live: system.SystemOnBuckets) -> tuple[str, ...]:
    """Return the kinds of control messages that a system counts in a run."""
    return *live.control, *live.building


@dataclass(frozen=True)
class Wanted:
    """The tables that buckets write for a run: copies, and tree edges.

    There are no deliveries to `guests`, ascending keys (group, node) of sources that have joined.
    """

    copies: bool
    edges: bool
    guests: np.ndarray = field(default_factory=arrays.whole_numbers)


def play_round(
    name: str,
    live: system.SystemOnBuckets,
    given: Mapping[str, Any],
    facts: Facts,
    bounds: np.ndarray,
    wanted: Wanted,
    engine: in_task.InTask | on_spark.OnSpark,
) -> None:
    """Play round 0 of a run for a system, and write the tables that views read.

    `given` has the fields of `LivingRound` that depend on the run, `wanted` the tables.
    """
    nodes, kinds = len(facts.ring), (*live.payload, *control_kinds(live))
    nobody = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    now = system.LivingRound(
        number=0,
        rounds=1,
        ring=facts.ring,
        overlay=_AllLive(nodes),
        events=events.Events(),
        quit=nobody,
        deadline=0,
        tally=Tally(kinds, recorded=control_kinds(live), groups=True),
        incarnation=_constant(nodes, events.NEVER),
        measures=("delay", "node_stress", "link_stress"),
        in_run=True,
        **given,
    )
    player = system.SystemPlayer(engine, facts, bounds, f"{name}/", live.reads)
    done = system.play_run(live, player, now)
    measured = done.multicasts
    if measured is None:
        remedy = "returns no multicasts in round 0; see rounds.system.SystemRound"
        raise errors.InputError("systems", name, remedy)
    _add_times(player, live, now, done)
    of = SystemTables(name, live, measured)
    if now.links is not None:
        of = replace(of, parts=now.links.parts)
    first = _first_of_trees(live, now, done)
    player.play(_WriteViews(bounds, nodes, live, of, first, wanted))
    player.free_shared()


def play_with_trees(
    systems: Sequence[tuple[str, system.SystemOnBuckets, Wanted]],
    given: Mapping[str, Any],
    facts: Facts,
    bounds: np.ndarray,
    engine: in_task.InTask,
    roots: np.ndarray,
) -> None:
    """Play silent systems in a task that has grown Scribe's trees; the roots are the sources.

    `systems` have names and wanted tables, `given` the fields of `LivingRound` but members and
    publications, and `roots` has a position for each group.
    """
    group = np.flatnonzero(roots != arrays.NONE)
    publish = group_events.Publishing.at_begin((group, roots[group]))
    entries = engine.tables[0].get(ENTRIES, {})
    member = entries["key"][entries["member"]] if entries else arrays.whole_numbers()
    own = {"join": arrays.divided(member, len(facts.ring)), "publish": publish}
    for name, live, wanted in systems:
        play_round(name, live, {**given, **own}, facts, bounds, wanted, engine)


def _add_times(
    player: system.SystemPlayer,
    live: system.SystemOnBuckets,
    now: system.LivingRound,
    done: system.SystemRound,
) -> None:
    """Let the clock compute the times of deliveries, unless the system has done so."""
    if now.links is not None:
        begun = done.without_times(live.merged).with_times(now.publish.at_us, now.publish.size)
        late = now.late_copies(player.facts, begun.publication)
        network = now.links, player.facts, player.bounds, now.kernel
        time_round(
            player, *network, begun, (system.CARRIED, system.DELIVERED), live.merged, True, late
        )


def _first_of_trees(
    live: system.SystemOnBuckets, now: system.LivingRound, done: system.SystemRound
) -> np.ndarray:
    """Return the first publication of each tree of each group and source."""
    if done.begun is not None and len(done.begun):
        return np.unique(done.begun.along)
    ends = now.publish.group, now.publish.node
    of_tree = np.column_stack([*ends, live.trees_of(now.number, *ends)])
    return np.sort(np.unique(of_tree, axis=0, return_index=True)[1])


@dataclass(frozen=True)
class _WriteViews(program.SilentProgram):
    """The program by which buckets write the tables that views read, and drop all others."""

    bounds: np.ndarray
    size: int  # the number of nodes, K
    live: system.SystemOnBuckets
    of: SystemTables
    first: np.ndarray  # the first publication of each tree, ascending
    wanted: Wanted

    def change(self, bucket: int, tables: Tables) -> None:
        mine = self.of.in_bucket(tables, self.size)
        copies = self._copies(mine)
        made = {
            COPIED: copies if self.wanted.copies else {},
            EDGES_OF_TREES: self._edges(copies) if self.wanted.edges else {},
            REACHED: self._deliveries(mine),
            KEPT: self._state(tables),
            SENT: self._control(tables),
            DRAWN: tables.get(PICTURE_OF_GROUP, {}),
        }
        for name in list(tables):
            del tables[name]
        tables.update({name: columns for name, columns in made.items() if count_rows(columns)})

    def _copies(self, mine: InBucket) -> Columns:
        copies = mine.copies
        if not count_rows(copies):
            return {}
        missing = [one for one in _OF_COPIES if one not in copies]
        if self.wanted.copies and missing:
            remedy = f"leaves copies without the column {missing[0]}, which the run needs"
            raise errors.InputError("systems", self.of.name, remedy)
        return copies

    def _edges(self, copies: Columns) -> Columns:
        """Return the copies of the first publication of each tree."""
        return (
            take(copies, arrays.find_sorted(self.first, copies["publication"]) >= 0)
            if copies
            else {}
        )

    def _deliveries(self, mine: InBucket) -> Columns:
        multicasts, found = self.of.multicasts, mine.reached.to_columns()
        of = found.pop("of")
        names = {"group": multicasts.group[of], "publication": multicasts.publication[of]}
        place = keys.key_of([names["group"], found["node"]], self.size)
        return take({**names, **found}, arrays.find_sorted(self.wanted.guests, place) < 0)

    def _state(self, tables: Tables) -> Columns:
        """Count the entries that nodes keep by (group, node), from the system's tables."""
        parts = []
        for kind, name in enumerate(self.live.state.values()):
            if not tables.has_rows(name):
                continue
            key = tables[name]["key"] // self.size ** self.live.kept_in_buckets.get(name, 0)
            place, entries = np.unique(key, return_counts=True)
            if "entries" in tables[name]:
                place, entries = key, tables[name]["entries"]
            group, node = np.divmod(place, self.size)
            layer = tables[name].get("layer", np.full(len(place), arrays.NONE))
            rows = {"group": group, "node": node, "layer": layer, "entries": entries}
            parts.append({"kind": np.full(len(place), kind), **rows})
        return concatenate(parts) if parts else {}

    def _control(self, tables: Tables) -> Columns:
        """Count control messages by kind, group, sender and receiver."""
        parts = [tables[name] for name in tables if name.startswith(f"{TRAFFIC} ")]
        if not parts:
            return {}
        sent = concatenate(parts)
        # control messages follow the payload in the kinds
        kind = sent["kind"] - len(self.live.payload)
        rows = {"kind": kind, "sender": sent["sender"], "receiver": sent["to"]}
        rows |= {name: sent[name] for name in ("group", "messages")}
        rows = {name: column.astype(np.int64) for name, column in rows.items()}
        return exchange.add_rows("messages", rows, "kind", "group", "sender", "receiver")


# --- views


def edge_rows(copies: Columns) -> dict[str, Any]:
    return {**copies, "parent": copies["sender"], "child": copies["to"]}


def copy_rows(
    untimed: bool, at_us: np.ndarray, kinds: tuple[str, ...], copies: Columns
) -> dict[str, Any]:
    if untimed:
        sent_us = pa.nulls(len(copies["to"]), pa.int64())
    else:
        unknown = copies["sent_us"] < 0
        sent_us = pa.array(copies["sent_us"] + at_us[copies["publication"]], mask=unknown)
    renamed = {"receiver": copies["to"], "hop": copies["hops"], "sent_us": sent_us}
    named = with_kinds(kinds, copies) if "kind" in copies else {"kind": PAYLOAD}
    return {**copies, **named, **renamed}


def state_rows(kinds: tuple[str, ...], rows: Columns) -> dict[str, Any]:
    """Name the kinds of entries; those of a layer are named after it."""
    layer, of = np.unique(rows["layer"], return_inverse=True)
    every = [kind if n < 0 else f"{kind} {n}" for n in layer.tolist() for kind in kinds]
    return with_kinds(tuple(every), {**rows, "kind": rows["kind"] + of * len(kinds)})


def with_kinds(kinds: tuple[str, ...], rows: Columns) -> dict[str, Any]:
    return {**rows, "kind": pa.array(list(kinds)).take(pa.array(rows["kind"]))}


# --- written tables


#: Tables that some systems have -> their names in `Multicast`.
HANDED = {
    "copies": "copies",
    "system_state": "state",
    "control": "control",
    "pictures": "picture",
}

#: Column that is saved in milliseconds -> its name in systems' tables.
IN_MICROSECONDS = {"delay_ms": "delay_us", "sent_ms": "sent_us"}


def tree_edges(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``tree_edges``: the edges of all systems that have trees."""
    made = [(system, system.edges) for system in systems]
    return Batches.union(
        _table(system, edges, "tree_edges") for system, edges in made if edges is not None
    )


def deliveries(systems: Iterable[Multicast]) -> Batches:
    """Return the table ``deliveries``: the first copy of each member but the source."""
    return Batches.union(_table(one, one.deliveries, "deliveries") for one in systems)


def other_tables(systems: Iterable[Multicast]) -> Iterator[tuple[str, Batches]]:
    """Yield the tables that some systems have: copies, state, control messages and pictures."""
    for name, handed in HANDED.items():
        made = [(system, system.table(handed)) for system in systems]
        rows = [_table(system, of, name) for system, of in made if of is not None]
        if rows:
            yield name, Batches.union(rows)


def _table(system: Multicast, table: Table, name: str) -> Batches:
    """Return the table `name` of one system with the columns in which it is written."""
    schema = written(name, system.scheduled)
    same = {"system": system.system, "merged": system.merged}
    wanted = {column: IN_MICROSECONDS.get(column, column) for column in schema.names}
    wanted = {column: of for column, of in wanted.items() if column not in same}

    def rows(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        made = {
            n: pa.repeat(pa.scalar(v), len(batch)) for n, v in same.items() if n in schema.names
        }
        for column, of in wanted.items():
            values = batch.column(of)
            if column != of:
                values = pc.divide(values.cast(pa.float64()), float(MICROSECONDS))
            made[column] = values
        return made

    return Batches.of(table, list(wanted.values())).each(rows, schema)
