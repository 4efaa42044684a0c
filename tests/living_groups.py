"""Random small worlds with groups, for the oracle in `oracle.scribe_living` and for the kernels.

The oracle asks for every draw; in the rounds it gets those of `scribe_spark`.  A round is played in
this process, with every row that it leaves.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import living_worlds
import numpy as np
from arriving import Kernel
from identifiers import parts
from in_memory import InMemory
from in_tasks import InTasks
from living_worlds import as_snapshot as overlay_snapshot
from oracle.publications import PublicationResult
from oracle.scribe_living.cases import World as Case
from oracle.scribe_living.state import OPERATIONS, Group, Settings
from oracle.scribe_living.world import Event, Run, Snapshot
from overlay_state import OverlayState
from poisoned import PoisonedPlayer
from split_states import empty_state, join_states, state_of, tables_of
from traffic import Traffic
from withholding import Named

from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import WorldConfig
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.engine.in_task import InTask
from scribe_spark.pastry.round import NEW_LEAFS, RoundResult, begin_round, end_round
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.applications import MEMORY, Applications
from scribe_spark.rounds.event_rows import EVENT_NAMES
from scribe_spark.rounds.events import Events, check_events
from scribe_spark.rounds.group_events import (
    MEMBERS,
    GroupEvents,
    Groups,
    change_memberships,
    check_group_events,
)
from scribe_spark.rounds.player import TRAFFIC, RoundPlayer, Tally
from scribe_spark.systems.scribe import end_of_round, figures, heartbeat, join, root, sources
from scribe_spark.systems.scribe.end_of_round import (
    DUE,
    EndOfRound,
    PublicationResults,
    publications_due,
)
from scribe_spark.systems.scribe.measures import (
    GROUPS_MEASURED,
    REPAIRED,
    TREES,
    MeasureGroups,
    SeeTrees,
    lost_groups,
)
from scribe_spark.systems.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.systems.scribe.reliable import Reliable
from scribe_spark.systems.scribe.round import play_groups
from scribe_spark.systems.scribe.scribe import (
    REFUSED,
    REFUSED_KINDS,
    SCRIBE_KINDS,
    ChildLimits,
    RoundOfGroups,
)
from scribe_spark.systems.scribe.sources import FATES, SentPublications
from scribe_spark.systems.scribe.state import CAUSES, STATE_TABLES, ScribeState
from scribe_spark.systems.scribe.upcalls import ScribeApplication

# --- a round

#: Tables with a row for every JOIN, delivery and so on, and counts.
_TAKEN = (
    *(DUE, DELIVERIES, PAYLOADS, REFUSED, REPAIRED, root.MADE, sources.AGAIN, figures.AT_ROOT),
    *(join.JOINS, join.REPAIRING, heartbeat.HERE),
    *(end_of_round.OUTCOMES, end_of_round.ORPHANS, end_of_round.OVERLOADED),
)


@dataclass(frozen=True)
class Kept:
    """One application for the only bucket, in place of `Applications`."""

    application: ScribeApplication

    def of(self, tables: Tables) -> ScribeApplication:
        return self.application

    def put_back(self, application: ScribeApplication, tables: Tables) -> None: ...


@dataclass(frozen=True)
class ScribeResult:
    """The tables that the buckets left in a round, put together."""

    number: int
    groups: int
    tables: Mapping[str, Columns] = field(default_factory=dict)

    def rows(self, table: str, *names: str) -> tuple[np.ndarray, ...]:
        """Return columns of a table, which are empty if the table was not left."""
        empty = np.empty(0, dtype=np.int64)
        return tuple(self.tables[table][one] if table in self.tables else empty for one in names)

    @property
    def deliveries(self) -> tuple[np.ndarray, ...]:
        """Group, publication and node of each delivery, in the order of arrival."""
        return self.rows(DELIVERIES, "group", "publication", "node")

    @property
    def out_of_order(self) -> np.ndarray:
        """True for deliveries after a delivery of a newer publication."""
        return self.rows(DELIVERIES, "out_of_order")[0].astype(bool)

    @property
    def lost(self) -> np.ndarray:
        """The groups of whose state no live node had a copy, before the round's CREATEs."""
        return lost_groups(self.tables, self.groups)

    @property
    def refused(self) -> dict[str, int]:
        """The number of refused messages, by kind."""
        kind, count = self.rows(REFUSED, "kind", "count")
        counts = np.bincount(kind, count, len(REFUSED_KINDS)).astype(np.int64).tolist()
        refused = dict(zip(REFUSED_KINDS, counts, strict=True))
        return {kind: count for kind, count in sorted(refused.items()) if count}

    @property
    def publications(self) -> PublicationResults:
        """The outcomes of the publications whose deadline is this round."""
        return PublicationResults.sum_of(self.tables.get(DUE, {}))


def put_tables(player: RoundPlayer, tables: list[Tables]) -> None:
    """Add tables to those of a player's buckets."""
    if isinstance(player.engine, InTask):
        for there, mine in zip(player.engine.tables, tables, strict=True):
            there.update(mine)
    else:
        player.engine.put(tables)


def read_tables(player: RoundPlayer) -> list[Tables]:
    """The tables of a player's buckets."""
    engine = player.engine
    return engine.tables if isinstance(engine, InTask) else engine.read()


@dataclass
class Buckets:
    """The tables of a world's buckets in this process, played with or without applications."""

    tables: list[Tables]
    applications: Applications | Kept | None = None
    player: type[InMemory] = InMemory


def _stays(name: str) -> bool:
    return name.startswith(MEMORY) or name in {*STATE_TABLES, TREES, MEMBERS}


# --- worlds

#: What all rounds leave besides: counts of groups, and all trees.
MEASURED = (GROUPS_MEASURED, TREES)

_SOURCE = 2**32


@dataclass(frozen=True)
class LossyKernel(Kernel):
    """A network in which each node has a router, and packets are lost."""

    loss: np.ndarray

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.loss[a, b]


@dataclass
class World:
    """A case of the oracle, and the same for the kernels."""

    case: Case
    run: Run
    pastry: living_worlds.World
    groups: Groups
    overlay: OverlayState
    state: ScribeState
    application: ScribeApplication | None = None
    results: list[ScribeResult] = field(default_factory=list)
    traffic: Traffic | None = None
    lan_us: int | None = None
    buckets: Buckets | None = None

    @property
    def config(self) -> WorldConfig:
        """The config of the world."""
        return self.pastry.config

    @property
    def limits(self) -> ChildLimits | None:
        """The limits of children."""
        return limits_of(self.case.settings)

    def in_buckets(self, count: int) -> World:
        """The same, played on some buckets, whose tables only they can read."""
        return self._in(count, PoisonedPlayer)

    def in_tasks(self, count: int) -> World:
        """The same, played as Spark's tasks do."""
        return self._in(count, InTasks)

    def with_losses(self, withholds: bool = False) -> World:
        """The same in a network that loses copies (N1); and perhaps nodes forward nothing (N6)."""
        draw, overlay, nodes = self.pastry.draw, self.run.scribe.overlay, self.case.count
        drawn = random.Random(f"losses {self.case.seed}")
        share = np.array(drawn.choices((0, 0, 0.1, 0.4), k=nodes))
        loss = np.maximum(share[:, None], share) / 2

        def is_lost(publication: tuple[int, int, int], sender: int, receiver: int) -> bool:
            number, group, source = publication
            again = [overlay.round] if number < overlay.round else []
            bits = draw("loss", group, number * _SOURCE + source, *again, sender, receiver)
            return bits % 2**64 < loss[sender, receiver] * 2**64

        self.run.scribe.is_lost = is_lost
        self.run.scribe.withholds = drawn.sample(range(nodes), nodes // 8 * withholds)
        known = self.pastry.kernel.delay_us, np.arange(nodes), loss
        self.pastry.kernel = LossyKernel(*known, withheld=Named.of(self.run.scribe.withholds))
        return self

    def _in(self, count: int, player: type[RoundPlayer]) -> World:
        made, buffer = None, self.case.buffer
        if buffer is not None:
            make = functools.partial(Reliable, buffer)
            made = Applications(make, len(self.overlay.states.known))
        self.buckets = Buckets([Tables() for _ in range(count)], made, player)
        return self

    def step(self, number: int, events: list[Event]) -> tuple[Snapshot, Snapshot]:
        """Kernels and oracle play a round; counts that are 0 are left out."""
        self.pastry.first_wave = self.pastry.overlay.waves
        theirs = self.run.step(number, events)
        without_zeros(theirs)
        return self.play(number, events), theirs

    def play(self, number: int, events: list[Event]) -> Snapshot:
        """The kernels play a round."""
        pastry, result = self.play_kernels(number, events)
        self.results.append(result)
        return as_snapshot(self, pastry, result)

    def play_kernels(self, number: int, events: list[Event]) -> tuple[RoundResult, ScribeResult]:
        """The kernels play a round."""
        known = self.overlay.states.known
        rows = [(node, EVENT_NAMES.index(kind), *group) for _, node, kind, *group in events]
        given = Events.of(known, *_columns([row for row in rows if len(row) == 2], 2))
        of_groups = _columns([row for row in rows if len(row) == 3], 3)
        group_given = GroupEvents.of(known, self.groups, *of_groups)
        buckets, state = self.buckets, self.state
        if buckets is None:
            kept = None if self.application is None else Kept(self.application)
            members = state.entries.key[state.entries.member]
            buckets = Buckets([Tables.of({**tables_of(state), MEMBERS: {"key": members}})], kept)
        played = self._play(buckets, number, given, group_given)
        of = (state.size, state.incarnation, len(self.groups))
        self.state = join_states([state_of(tables, *of) for tables in buckets.tables])
        return played

    def _play(
        self, buckets: Buckets, number: int, events: Events, group_events: GroupEvents
    ) -> tuple[RoundResult, ScribeResult]:
        """Play one round on buckets, whose tables are others afterwards."""
        kinds, config, kernel = MESSAGE_KINDS + SCRIBE_KINDS, self.config, self.pastry.kernel
        player = buckets.player.of(self.overlay, config, kernel, len(buckets.tables), kinds)
        player.observe(traffic=self.traffic is not None)
        put_tables(player, buckets.tables)
        # 1. the nodes
        check_events(player.lives, player.environment.facts.ring, number, events)
        check_group_events(player, number, self.groups, events, group_events)
        changes = change_memberships(player, self.groups, events, group_events)
        begin_round(player, number, events, changes)
        incarnation = self.state.incarnation
        incarnation[events.entering] = number
        # 2. Scribe
        round = RoundOfGroups(
            *(number, self.groups, config.scribe, config.trees, incarnation),
            *(buckets.applications, self.lan_us is not None, self.lan_us or 0, self.limits),
            source=config.groups.source,
        )
        play_groups(player, round, events, group_events)
        # 3. what is seen of the round
        given, every = player.environment, np.arange(len(self.groups))
        ends = (EndOfRound(given, round, False), MeasureGroups(given, round))
        seen, taken = end_round(
            *(player, number, events, 0, Tally(kinds), (*ends, SeeTrees(given, round, every))),
            (*_TAKEN, NEW_LEAFS, *MEASURED, *([] if self.traffic is None else [TRAFFIC])),
        )
        if self.traffic is not None:
            self.traffic.take(taken, kinds)
        buckets.tables = [
            Tables.of({name: there[name] for name in there if _stays(name)})
            for there in read_tables(player)
        ]
        return seen, ScribeResult(number, len(self.groups), taken)


def _columns(rows: list[tuple], count: int) -> list[np.ndarray]:
    parts = zip(*rows, strict=True) if rows else [()] * count
    return [np.array(part, dtype=np.int64) for part in parts]


def world_of(case: Case) -> World:
    """A case before round 0, for both."""
    return _world(case, case.begin())


def world_of_run(run: Run, seed: int, rounds: int, buffer: int | None = None) -> World:
    """A world that the oracle has not begun to play, for both; without events.

    Parameters
    ----------
    buffer : int, optional
        Messages that a node keeps; without it delivery is best effort.
    """
    scribe = run.scribe
    idents, overlay = scribe.overlay.idents, scribe.overlay
    assert sorted(idents) == list(range(len(idents)))
    of = (scribe.groups, scribe.settings, buffer, [], rounds)
    return _world(Case(seed, len(idents), len(idents), True, overlay.rules, *of), run)


def _world(case: Case, run: Run) -> World:
    overlay = run.scribe.overlay
    known = _ring(overlay.idents)
    nodes = range(case.count)
    delays = np.array([[overlay.delay(a, b) for b in nodes] for a in nodes], dtype=np.int32)
    config = living_worlds.config_of(case.rules, case.seed, **_scribe_of(case))
    kernel = Kernel(delays, np.arange(case.count))
    made = living_worlds.World(overlay, config, known, kernel, [], 0)
    overlay.draw = made.draw
    groups = groups_of(case.groups, known)
    state = empty_state(len(known), len(groups))
    application = None if case.buffer is None else Reliable(case.buffer, len(known))
    overlay_state = living_worlds.state_of(made)
    return World(case, run, made, groups, overlay_state, state, application)


def _scribe_of(case: Case) -> dict[str, Any]:
    """The oracle's settings as fields of a config."""
    settings = case.settings
    group, child, table = settings.shed
    chosen = {name: getattr(settings, of) for name, of in _VARIANTS.items()}
    chosen["bottleneck"] &= settings.limit is not None
    return {
        "groups": len(case.groups),
        "replicas": settings.replicas,
        "parent_timeout": settings.parent_timeout,
        "refresh": settings.refresh,
        "child_timeout": settings.child_timeout,
        "lost_after": settings.deadline,
        "delivery": "best-effort" if case.buffer is None else "reliable",
        "buffer": case.buffer or 1,
        "source": settings.source,
        "variants": tuple(name for name, chosen in chosen.items() if chosen),
        "shed_group": group,
        "shed_child": child,
        "shed_table": table,
    }


_VARIANTS = {"bottleneck": "remover", "collapse": "collapse", "lazy": "lazy"}


def limits_of(settings: Settings) -> ChildLimits | None:
    """The oracle's limits for the kernels."""
    if settings.limit is None or not (settings.remover or settings.lazy):
        return None
    capacities = None if settings.capacities is None else np.array(settings.capacities)
    return ChildLimits(settings.limit, capacities)


def _ring(idents: dict[int, int]) -> Ring:
    hi, lo = parts(idents[node] for node in range(len(idents)))
    return Ring(hi, lo, np.arange(len(idents)), np.arange(len(idents))).in_order()


def groups_of(groups: dict[int, Group], known: Ring) -> Groups:
    """The oracle's groups for the kernels."""
    number = np.array(sorted(groups))
    key = [groups[group].key for group in sorted(groups)]
    hi, lo = parts(key)
    return Groups.of(number, Keys(hi, lo), known, access_of(groups))


def access_of(groups: dict[int, Group]) -> dict[str, tuple[np.ndarray, ...]]:
    """The oracle's access lists, as of `Groups.of`."""
    lists = {}
    for operation in OPERATIONS:
        of = {group: getattr(groups[group].access, operation) for group in groups}
        listed = [group for group in of if of[group] is not None]
        rows = [(group, node) for group in listed for node in of[group]]
        lists[operation] = (np.array(listed, dtype=int), *_columns(rows, 2))
    return lists


def as_snapshot(world: World, pastry: RoundResult, result: ScribeResult) -> Snapshot:
    """The kernels' state as the oracle writes its own."""
    overlay, state = world.overlay, world.state
    node = [*overlay.states.known.node.tolist(), -1]  # what -1 indexes is -1
    group = world.groups.number.tolist()
    size = state.size

    def named(key: int) -> tuple[int, int]:
        return group[key // size], node[key % size]

    def edge(key: int) -> tuple[int, int, int]:
        return (*named(key // size), node[key % size])

    def publication(at: int, number: int) -> tuple[int, int, int]:
        return number // _SOURCE, group[at], number % _SOURCE

    def left(table: str, *names: str) -> zip:
        return zip(*[column.tolist() for column in result.rows(table, *names)], strict=True)

    seen = overlay_snapshot(overlay, pastry)
    deliveries = [
        (publication(at, one), node[to])
        for at, one, to in left(DELIVERIES, "group", "publication", "node")
    ]
    sent = SentPublications.of_buckets(result.tables.get(end_of_round.OUTCOMES, {}))
    again = left(sources.AGAIN, "group", "publication")
    return Snapshot(
        round=pastry.number,
        live=seen.live,
        entries=sorted(
            (*named(key), member, root, node[up], number, "" if up >= 0 or root else CAUSES[why])
            for key, member, root, up, number, why in _rows(
                state.entries, "key", "member", "root", "parent", "number", "cause"
            )
        ),
        children=sorted(
            (*edge(key), *rest)
            for key, *rest in _rows(state.children, "key", "number", "refreshed")
        ),
        copies=sorted(
            (*named(key), epoch, version, node[root], node[creator])
            for key, epoch, version, root, creator in _rows(
                state.copies, "key", "epoch", "version", "root", "creator"
            )
        ),
        addresses=sorted(
            (*named(key), node[root]) for key, root in _rows(state.addresses, "key", "root")
        ),
        kept=sorted(publication(*one) for one in _rows(state.kept, "group", "publication")),
        deliveries=sorted(deliveries),
        ordered=deliveries,
        fates=sorted(
            (publication(at, one), FATES[fate])
            for at, one, fate in _rows(sent, "group", "publication", "fate")
        ),
        joins=sorted(
            (group[at], node[source], CAUSES[why])
            for at, source, why in left(join.JOINS, "group", "source", "cause")
        ),
        created=sorted((group[at], node[by]) for at, by in left(root.MADE, "group", "creator")),
        lost_groups=[group[at] for at in result.lost],
        refused=result.refused,
        duplicates=dict(Counter(publication(*one) for one in again)),
        orphans=sorted(named(key) for (key,) in left(end_of_round.ORPHANS, "pair")),
        counts=pastry.messages,
        at_root=sorted(
            (group[at], node[by]) for at, by in left(figures.AT_ROOT, "group", "source")
        ),
        repairing=sorted({node[at] for (at,) in left(join.REPAIRING, "node")}),
        overloaded=sorted(node[at] for (at,) in left(end_of_round.OVERLOADED, "node")),
        overlay=seen,
    )


def deliveries_out_of_order(world: World, number: int) -> list[tuple[tuple[int, int, int], int]]:
    """Of a round: the publications and the members."""
    result = world.results[number]
    node, group = world.overlay.states.known.node, world.groups.number
    rows = zip(*[part[result.out_of_order].tolist() for part in result.deliveries], strict=True)
    return sorted(
        ((one // _SOURCE, int(group[at]), one % _SOURCE), int(node[to])) for at, one, to in rows
    )


def _rows(table: object, *names: str) -> zip:
    return zip(*[getattr(table, name).tolist() for name in names], strict=True)


def without_zeros(seen: Snapshot) -> None:
    """Leave the counts out that are 0."""
    for name in ("refused", "duplicates", "counts"):
        setattr(seen, name, {kind: n for kind, n in getattr(seen, name).items() if n})


def publication_results(world: World) -> list[PublicationResult]:
    """What became of all publications, as the oracle writes it; at the end of the world."""
    deadline, last = world.config.scribe.deadline, world.case.rounds - 1
    parts = [result.publications for result in world.results]
    of_round: Any = SimpleNamespace(parts=Parts(), nodes=0)
    parts.append(publications_due(world.state, of_round, everything=True))
    names = ("group", "publication", "expected", "in_time", "late")
    found = []
    for part in parts:
        rows = _rows(part, *names, "first_copies", "duplicates")
        for at, number, expected, in_time, late, *copies in rows:
            published, source = divmod(number, _SOURCE)
            name, missing = (
                (published, int(world.groups.number[at]), source),
                expected - in_time - late,
            )
            open_or_lost = [0, missing] if published + deadline > last else [missing, 0]
            counts = expected, in_time, late, *open_or_lost, *copies
            found.append(PublicationResult(name, *counts, published))
    return found


def repair_results(world: World) -> dict[tuple[int, int], int]:
    """(round, node that died) -> rounds until all its children were reached again."""
    node = world.overlay.states.known.node
    return {
        (int(died), int(node[at])): result.number - died
        for result in world.results
        for died, at in zip(*result.rows(REPAIRED, "died", "node"), strict=True)
    }
