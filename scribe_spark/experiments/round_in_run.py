"""A system in a run as its round 0, in which all members join and all sources publish.

A system with shorter own rounds plays several of them: see `rounds.system.play_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.rounds import time_round
from scribe_spark.bandwidth.runs import links_of, player_of
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    divided,
    find_sorted,
    index_sorted,
    whole_numbers,
)
from scribe_spark.core.errors import InputError
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.views import Names, read_view
from scribe_spark.experiments.scope import collected
from scribe_spark.experiments.stages import Stages
from scribe_spark.measures.multicasts import InBucket, SystemTables
from scribe_spark.multicast import (
    CONTROL,
    COPIES,
    DELIVERIES,
    EDGES,
    HOPS,
    PAYLOAD,
    PICTURE,
    PUBLICATION,
    STATE,
    Multicast,
)
from scribe_spark.rounds.declaration import MESH, System
from scribe_spark.rounds.events import NEVER, Events, KnowsLives
from scribe_spark.rounds.group_overlays import PICTURE as PICTURE_OF_GROUP
from scribe_spark.rounds.player import TRAFFIC, Tally
from scribe_spark.rounds.system import (
    CARRIED,
    DELIVERED,
    LivingRound,
    Pairs,
    Publishing,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    play_run,
)
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import live_system
from scribe_spark.systems.scribe.groups import limits_by_number

#: The tables of a bucket from which views are read.
_COPIES, _EDGES, _DELIVERIES, _STATE, _CONTROL, _PICTURE = (
    *("copies of round 0", "edges of round 0", "deliveries of round 0"),
    *("state of round 0", "control of round 0", "picture of round 0"),
)

#: The most members of all groups for which one task is faster than a job for each superstep.
_FEW_MEMBERS = 2**16

#: The most members of the group of a picture, so that edges can be told apart; unless all groups
#: have more.
_MOST_IN_PICTURE = 64

#: The further columns of copies in the table `multicast.COPIES`.
_OF_COPIES = ("hops", "sent_us", "first")


@dataclass(frozen=True)
class _AllLive(KnowsLives):
    """The lives of `nodes` nodes, which all live from the start to the end; picklable."""

    nodes: int

    @property
    def alive(self) -> np.ndarray:  # type: ignore[override]
        return _constant(self.nodes, True)

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        return positions >= 0

    @property
    def died(self) -> np.ndarray:  # type: ignore[override]
        return _constant(self.nodes, NEVER)

    @property
    def wait(self) -> np.ndarray:  # type: ignore[override]
        return _constant(self.nodes, 0)

    @property
    def entered(self) -> np.ndarray:  # type: ignore[override]
        return _constant(self.nodes, 0)


@lru_cache(maxsize=8)
def _constant(nodes: int, value: int | bool) -> np.ndarray:
    return np.full(nodes, value)


def play_round_0(system: System, stages: Stages) -> Multicast:
    """Play round 0 of a system, and return its tables."""
    live, ring = live_system(system, stages.config), stages.overlay.ring
    number, hi, lo = collected(stages.source_rows, "group", "key_hi", "key_lo")
    schedule, several = stages.publications, stages.schedule is not None
    source = ring.facts.positions(schedule.source)
    publish = Publishing(
        index_sorted(number, schedule.group), source, schedule.at_us, schedule.size
    )
    join, guests = _members(stages, live, publish)
    given: dict[str, Any] = {
        **{"group": number, "key_hi": hi.view(np.uint64), "key_lo": lo.view(np.uint64)},
        **{"join": join, "publish": publish},
        **{"kernel": stages.underlay.kernel, "lan_us": stages.underlay.lan_us},
        **{"seed": stages.config.seed, "source": stages.config.groups.source},
        **{"capacity": _capacity(stages), "routers": len(stages.underlay.routers)},
        "watched": _group_of_picture(np.bincount(join[0], minlength=len(number))),
    }
    if stages.config.bandwidth.on:
        given["links"] = links_of(stages)
        stages.note_clock(player_of(ring.layout))
    is_mesh = system.family == MESH or not live.has_trees
    tables_of_run = _Wanted(is_mesh or several, not is_mesh, guests)
    if live.is_silent and not stages.config.bandwidth.on:
        player = stages.silent_player
    else:
        known = stages.overlay.known if live.reads else []
        starts = BucketTables(ring.layout, ring.starts(), known)
        player = stages.own(OnSpark(starts, f"{system.label}, ", stages.progress))
    orchestrate = partial(_play, system.name, live, given, ring.facts, ring.bounds, tables_of_run)
    if live.is_silent or (len(join[0]) > _FEW_MEMBERS and not stages.in_tasks):
        orchestrate(player)
    elif stages.in_tasks:
        player.play_in_tasks(orchestrate, "round 0")
    else:
        player.tables.play_in_one_task(orchestrate, f"{system.label}, round 0")
    names = Names(ring.facts, stages.underlay.kernel, number)

    def view(name: str, schema: str, make: Any = dict) -> Callable[[], Batches]:
        # the first view that is read plays the programs that wait
        return lambda: read_view(player.tables.rows(f"{system.name}/{name}"), names, schema, make)

    untimed = system.clock_of(stages.config) == HOPS
    kinds = *live.payload, *live.control
    copies = partial(_copies, untimed, schedule.at_us, kinds)
    more = f", {PUBLICATION}" if several else ""
    return Multicast(
        system.name,
        view(_EDGES, EDGES, _edges) if tables_of_run.edges else None,
        view(_DELIVERIES, DELIVERIES + more),
        merged=live.merged,
        copies=view(_COPIES, COPIES + more, copies) if tables_of_run.copies else None,
        state=view(_STATE, STATE, partial(_state, tuple(live.state))) if live.state else None,
        control=view(_CONTROL, CONTROL, partial(_named_kinds, _control(live)))
        if _control(live)
        else None,
        picture=view(_PICTURE, PICTURE) if system.picture is not None else None,
        scheduled=several,
    )


def _control(live: SystemOnBuckets) -> tuple[str, ...]:
    """Return the kinds of control messages that a system counts in a run."""
    return *live.control, *live.building


@dataclass(frozen=True)
class _Wanted:
    """The tables that buckets write for a run: copies, and tree edges.

    There are no deliveries to `guests`, ascending keys (group, node) of sources that have joined.
    """

    copies: bool
    edges: bool
    guests: np.ndarray = field(default_factory=whole_numbers)


def _members(
    stages: Stages, live: SystemOnBuckets, publish: Publishing
) -> tuple[Pairs, np.ndarray]:
    """Return the members of groups, as pairs, and the sources that are no members.

    Pairs are (index of the group, ring position), ascending.  If the system lets sources join,
    these are among the members; their keys (group, node) are the second result.
    """
    ring = stages.overlay.ring
    index, node = stages.member_pairs
    key, guests = np.sort(key_of([index, node], len(ring))), whole_numbers()
    if live.sources_join:
        source = distinct(key_of([publish.group, publish.node], len(ring)))
        guests = source[find_sorted(key, source) < 0]
        key = np.sort(np.concatenate([key, guests]))
    group, node = divided(key, len(ring))
    return (group, node), guests


def _group_of_picture(size: np.ndarray) -> np.ndarray:
    """Return the index of the group whose picture is drawn.

    It is the largest of the groups that are small enough, or else the smallest.
    """
    small = np.where(size <= _MOST_IN_PICTURE, size, -size)
    return np.array([np.argmax(small)] if len(size) else [], dtype=np.int64)


def _capacity(stages: Stages) -> np.ndarray | None:
    """Return the user's limits of children by ring position: int64, (N,); None without a table."""
    if stages.config.trees.capacities is None:
        return None
    return limits_by_number(stages.given_capacities)[stages.overlay.ring.facts.ring.node]


def _play(
    name: str,
    live: SystemOnBuckets,
    given: Mapping[str, Any],
    facts: Facts,
    bounds: np.ndarray,
    wanted: _Wanted,
    engine: InTask | OnSpark,
) -> None:
    """Play round 0 of a run for a system, and write the tables that views read.

    `given` has the fields of `LivingRound` that depend on the run, `wanted` the tables.
    """
    nodes, kinds = len(facts.ring), (*live.payload, *_control(live))
    nobody = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    now = LivingRound(
        number=0,
        rounds=1,
        ring=facts.ring,
        overlay=_AllLive(nodes),
        events=Events(),
        quit=nobody,
        deadline=0,
        tally=Tally(kinds, recorded=_control(live), groups=True),
        incarnation=_constant(nodes, NEVER),
        measures=("delay", "node_stress", "link_stress"),
        in_run=True,
        **given,
    )
    player = SystemPlayer(engine, facts, bounds, f"{name}/", live.reads)
    done = play_run(live, player, now)
    measured = done.multicasts
    if measured is None:
        remedy = "returns no multicasts in round 0; see rounds.system.SystemRound"
        raise InputError("systems", name, remedy)
    _add_times(player, live, now, done)
    of = SystemTables(name, live, measured)
    if now.links is not None:
        of = replace(of, parts=now.links.parts)
    first = _first_of_trees(live, now, done)
    player.play(_WriteViews(bounds, nodes, live, of, first, wanted))
    player.free_shared()


def _add_times(
    player: SystemPlayer, live: SystemOnBuckets, now: LivingRound, done: SystemRound
) -> None:
    """Let the clock compute the times of deliveries, unless the system has done so."""
    if now.links is not None:
        begun = done.without_times(live.merged).with_times(now.publish.at_us, now.publish.size)
        late = now.late_copies(player.facts, begun.publication)
        network = now.links, player.facts, player.bounds, now.kernel
        time_round(player, *network, begun, (CARRIED, DELIVERED), live.merged, True, late)


def _first_of_trees(live: SystemOnBuckets, now: LivingRound, done: SystemRound) -> np.ndarray:
    """Return the first publication of each tree of each group and source."""
    if done.begun is not None and len(done.begun):
        return np.unique(done.begun.along)
    ends = now.publish.group, now.publish.node
    of_tree = np.column_stack([*ends, live.trees_of(now.number, *ends)])
    return np.sort(np.unique(of_tree, axis=0, return_index=True)[1])


@dataclass(frozen=True)
class _WriteViews:
    """The program by which buckets write the tables that views read, and drop all others."""

    bounds: np.ndarray
    size: int  # the number of nodes, K
    live: SystemOnBuckets
    of: SystemTables
    first: np.ndarray  # the first publication of each tree, ascending
    wanted: _Wanted
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the tables of views, and drop all others; send nothing."""
        mine = self.of.in_bucket(tables, self.size)
        copies = self._copies(mine)
        made = {
            _COPIES: copies if self.wanted.copies else {},
            _EDGES: self._edges(copies) if self.wanted.edges else {},
            _DELIVERIES: self._deliveries(mine),
            _STATE: self._state(tables),
            _CONTROL: self._control(tables),
            _PICTURE: tables.get(PICTURE_OF_GROUP, {}),
        }
        for name in list(tables):
            del tables[name]
        tables.update({name: columns for name, columns in made.items() if count_rows(columns)})
        return {}

    def _copies(self, mine: InBucket) -> Columns:
        copies = mine.copies
        if not count_rows(copies):
            return {}
        missing = [one for one in _OF_COPIES if one not in copies]
        if self.wanted.copies and missing:
            remedy = f"leaves copies without the column {missing[0]}, which the run needs"
            raise InputError("systems", self.of.name, remedy)
        return copies

    def _edges(self, copies: Columns) -> Columns:
        """Return the copies of the first publication of each tree."""
        return take(copies, find_sorted(self.first, copies["publication"]) >= 0) if copies else {}

    def _deliveries(self, mine: InBucket) -> Columns:
        multicasts, found = self.of.multicasts, mine.reached.to_columns()
        of = found.pop("of")
        names = {"group": multicasts.group[of], "publication": multicasts.publication[of]}
        place = key_of([names["group"], found["node"]], self.size)
        return take({**names, **found}, find_sorted(self.wanted.guests, place) < 0)

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
            layer = tables[name].get("layer", np.full(len(place), NONE))
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
        return add_rows("messages", rows, "kind", "group", "sender", "receiver")


# --- views


def _edges(copies: Columns) -> dict[str, Any]:
    return {**copies, "parent": copies["sender"], "child": copies["to"]}


def _copies(
    untimed: bool, at_us: np.ndarray, kinds: tuple[str, ...], copies: Columns
) -> dict[str, Any]:
    if untimed:
        sent_us = pa.nulls(len(copies["to"]), pa.int64())
    else:
        unknown = copies["sent_us"] < 0
        sent_us = pa.array(copies["sent_us"] + at_us[copies["publication"]], mask=unknown)
    renamed = {"receiver": copies["to"], "hop": copies["hops"], "sent_us": sent_us}
    named = _named_kinds(kinds, copies) if "kind" in copies else {"kind": PAYLOAD}
    return {**copies, **named, **renamed}


def _state(kinds: tuple[str, ...], rows: Columns) -> dict[str, Any]:
    """Name the kinds of entries; those of a layer are named after it."""
    layer, of = np.unique(rows["layer"], return_inverse=True)
    every = [kind if n < 0 else f"{kind} {n}" for n in layer.tolist() for kind in kinds]
    return _named_kinds(tuple(every), {**rows, "kind": rows["kind"] + of * len(kinds)})


def _named_kinds(kinds: tuple[str, ...], rows: Columns) -> dict[str, Any]:
    return {**rows, "kind": pa.array(list(kinds)).take(pa.array(rows["kind"]))}
