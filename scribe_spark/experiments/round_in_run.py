"""A system in a run as its round 0, in which all members join and each group's source publishes.

This is for systems that define how they play a round on buckets (`System.world`), but not how they
are built (`System.build`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scribe_spark.bandwidth.runs import links_of
from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.views import Names, read_view
from scribe_spark.errors import InputError
from scribe_spark.experiments.scope import collected
from scribe_spark.measures.multicasts import Reached, SystemTables
from scribe_spark.multicast import (
    CONTROL,
    COPIES,
    DELIVERIES,
    EDGES,
    HOPS,
    PAYLOAD,
    STATE,
    Multicast,
)
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.lives import NEVER, KnowsLives
from scribe_spark.rounds.observer import TRAFFIC
from scribe_spark.rounds.system import (
    LivingRound,
    Pairs,
    SystemOnBuckets,
    SystemPlayer,
    play_own_rounds,
)
from scribe_spark.rounds.tally import Tally
from scribe_spark.runtime.batches import Batches
from scribe_spark.scribe import limits_by_number
from scribe_spark.systems import MESH, System, is_built_in, live_system

if TYPE_CHECKING:
    from scribe_spark.experiments.simulation import Simulation


#: The beginning of the names of the system's tables.
_PREFIX = "system/"

#: The tables of a bucket from which views are read.
_COPIES, _DELIVERIES, _STATE, _CONTROL = (
    *("copies of round 0", "deliveries of round 0"),
    *("state of round 0", "control of round 0"),
)

#: The further columns of the copies of a mesh.
_OF_MESHES = ("hops", "sent_us", "first")


@dataclass(frozen=True)
class _AllLive(KnowsLives):
    """The lives of `nodes` nodes that all live from the start; picklable."""

    nodes: int

    @property
    def alive(self) -> np.ndarray:  # type: ignore[override]
        return _constant(self.nodes, True)

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


def play_round_0(system: System, stages: Simulation) -> Multicast:
    """Play round 0 of a system, and return its tables.

    The tables have one publication per group.  The groups of control messages are NULL.
    """
    live, ring = live_system(system, stages.config), stages.overlay.ring
    columns = "group", "key_hi", "key_lo", "source"
    number, hi, lo, source = collected(stages.multicast_groups, *columns)
    source = ring.facts.positions(source)
    given: dict[str, Any] = {
        **{"group": number, "key_hi": hi.view(np.uint64), "key_lo": lo.view(np.uint64)},
        **{"join": _members(stages, number), "publish": (np.arange(len(number)), source)},
        **{"kernel": stages.underlay.kernel, "lan_us": stages.underlay.lan_us},
        **{"seed": stages.config.seed, "source": stages.config.groups.source},
        "capacity": _capacity(stages),
    }
    is_mesh = system.family == MESH
    if is_mesh and is_built_in(system) and stages.config.bandwidth.has_sizes:
        given["links"] = links_of(stages)  # copies of trees are replayed with sizes
    known = stages.overlay.known if live.reads else []
    tables = BucketTables(ring.layout, ring.starts(), known)
    player = stages.own(OnSpark(tables, f"{system.label}, ", stages.progress))
    orchestrate = partial(_play, system.name, live, given, ring.facts, ring.bounds, is_mesh)
    if stages.in_tasks:
        player.play_in_tasks(orchestrate, "round 0")
    else:
        orchestrate(player)
    names = Names(ring.facts, stages.underlay.kernel, number)

    def view(name: str, schema: str, make: Any = dict) -> Batches:
        return read_view(tables.rows(_PREFIX + name), names, schema, make)

    untimed = system.clock_of(stages.config) == HOPS
    return Multicast(
        system.name,
        None if is_mesh else view(_COPIES, EDGES, _edges),
        view(_DELIVERIES, DELIVERIES),
        merged=live.merged,
        copies=view(_COPIES, COPIES, partial(_copies, untimed)) if is_mesh else None,
        state=view(_STATE, STATE, partial(_named_kinds, tuple(live.state))) if live.state else None,
        control=view(_CONTROL, CONTROL, partial(_named_kinds, live.control))
        if live.control
        else None,
    )


def _members(stages: Simulation, number: np.ndarray) -> Pairs:
    """Return the members of groups that have a source: indices and positions, ascending."""
    index, node = stages.overlay.ring.members_of(number, stages.memberships)
    order = np.lexsort((node, index))
    return index[order], node[order]


def _capacity(stages: Simulation) -> np.ndarray | None:
    """Return the user's limits of children, by position."""
    if stages.config.trees.capacities is None:
        return None
    return limits_by_number(stages.given_capacities)[stages.overlay.ring.facts.ring.node]


def _play(
    name: str,
    live: SystemOnBuckets,
    given: Mapping[str, Any],
    facts: Facts,
    bounds: np.ndarray,
    is_mesh: bool,
    engine: InTask | OnSpark,
) -> None:
    """Play the round, and write the tables of views; `given` has fields of `LivingRound`."""
    nodes, kinds = len(facts.ring), (*live.payload, *live.control)
    nobody = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    now = LivingRound(
        number=0,
        rounds=1,
        ring=facts.ring,
        overlay=_AllLive(nodes),
        events=Events(),
        quit=nobody,
        deadline=0,
        tally=Tally(kinds, in_buckets=True),
        incarnation=_constant(nodes, NEVER),
        measures=("delay", "node_stress", "link_stress"),
        **given,
    )
    player = SystemPlayer(engine, facts, bounds, _PREFIX, live.reads)
    done = play_own_rounds(partial(live.play_round, player, Tables()), now)
    measured = done.multicasts
    if measured is None:
        remedy = "returns no multicasts in round 0; see rounds.system.SystemRound"
        raise InputError("systems", name, remedy)
    of = SystemTables(name, live, measured)
    player.play(_HandOver(bounds, nodes, live, of, kinds, is_mesh))
    player.free_shared()


@dataclass(frozen=True)
class _HandOver:
    """The program by which buckets write the tables of views, and drop all others."""

    bounds: np.ndarray
    size: int  # the number of nodes, K
    live: SystemOnBuckets
    of: SystemTables
    kinds: tuple[str, ...]  # as observers number them
    is_mesh: bool

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the tables of views, and drop all others; send nothing."""
        made = {
            _COPIES: self._copies(tables),
            _DELIVERIES: self._deliveries(tables),
            _STATE: self._state(tables),
            _CONTROL: self._control(tables),
        }
        for name in list(tables):
            del tables[name]
        tables.update({name: columns for name, columns in made.items() if count_rows(columns)})
        return {}

    def _copies(self, tables: Tables) -> Columns:
        copies = self.of.copies(tables)
        if not count_rows(copies):
            return {}
        if self.is_mesh and (missing := [one for one in _OF_MESHES if one not in copies]):
            remedy = f"leaves copies without the column {missing[0]}, which those of a mesh need"
            raise InputError("systems", self.of.name, remedy)
        mine = self.of.multicasts.find(copies["group"], copies["publication"]) >= 0
        return take(copies, mine)

    def _deliveries(self, tables: Tables) -> Columns:
        multicasts = self.of.multicasts
        found = Reached.by(multicasts, self.of.deliveries(tables, self.size)).to_columns()
        return {"group": multicasts.group[found.pop("of")], **found}

    def _state(self, tables: Tables) -> Columns:
        """Count the entries of tables by (group, node)."""
        parts = []
        for kind, name in enumerate(self.live.state.values()):
            if not tables.has_rows(name):
                continue
            key = tables[name]["key"] // self.size ** self.live.kept_in_buckets.get(name, 0)
            place, entries = np.unique(key, return_counts=True)
            group, node = np.divmod(place, self.size)
            codes = np.full(len(place), kind)
            parts.append({"group": group, "node": node, "kind": codes, "entries": entries})
        return concatenate(parts) if parts else {}

    def _control(self, tables: Tables) -> Columns:
        """Count control messages by kind, sender and receiver."""
        parts = [tables[name] for name in tables if name.startswith(f"{TRAFFIC} ")]
        if not parts:
            return {}
        sent = concatenate(parts)
        code = np.array([self.live.control.index(kind) if kind in self.live.control else NONE
                         for kind in self.kinds])  # fmt: skip
        kind = code[sent["kind"]]
        rows = {"kind": kind, "sender": sent["sender"], "receiver": sent["to"]}
        rows = {name: column[kind >= 0].astype(np.int64) for name, column in rows.items()}
        rows["messages"] = np.ones(len(rows["kind"]), dtype=np.int64)
        added = add_rows("messages", rows, "kind", "sender", "receiver")
        return {**added, "group": np.full(len(added["kind"]), NONE)}


# --- views


def _edges(copies: Columns) -> dict[str, Any]:
    return {**copies, "parent": copies["sender"], "child": copies["to"]}


def _copies(untimed: bool, copies: Columns) -> dict[str, Any]:
    sent_us = pa.nulls(len(copies["to"]), pa.int64()) if untimed else copies["sent_us"]
    renamed = {"receiver": copies["to"], "hop": copies["hops"], "sent_us": sent_us}
    return {**copies, **renamed, "kind": PAYLOAD}


def _named_kinds(kinds: tuple[str, ...], rows: Columns) -> dict[str, Any]:
    return {**rows, "kind": pa.array(list(kinds)).take(pa.array(rows["kind"]))}
