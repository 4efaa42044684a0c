"""One round of a world with groups in this process, and every row that it leaves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from in_memory import InMemory
from overlay_state import OverlayState
from split_states import state_of, tables_of
from traffic import Traffic

from scribe_spark.config import WorldConfig
from scribe_spark.engine import Columns, Program, Tables
from scribe_spark.engine.in_task import InTask
from scribe_spark.pastry.round import NEW_LEAFS, Lookups, RoundResult, begin_round, end_round
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.applications import MEMORY, Applications
from scribe_spark.rounds.events import Events, check_events
from scribe_spark.rounds.group_events import (
    MEMBERS,
    GroupEvents,
    Groups,
    change_memberships,
    check_group_events,
)
from scribe_spark.rounds.player import TRAFFIC, Environment, RoundPlayer, Tally
from scribe_spark.systems.scribe import end_of_round, figures, heartbeat, join, root, sources
from scribe_spark.systems.scribe.end_of_round import DUE, EndOfRound, PublicationResults
from scribe_spark.systems.scribe.measures import REPAIRED, TREES, lost_groups
from scribe_spark.systems.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.systems.scribe.round import play_groups
from scribe_spark.systems.scribe.scribe import (
    REFUSED,
    REFUSED_KINDS,
    SCRIBE_KINDS,
    ChildLimits,
    RoundOfGroups,
)
from scribe_spark.systems.scribe.state import PARTS, STATE_TABLES, ScribeState
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from scribe_spark.underlay.protocol import Kernel

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


@dataclass(frozen=True)
class RoundInputs:
    """The inputs of a round in this process, besides the state.

    `traffic` gets senders and receivers of all messages.  With `lan_us`, payloads are timed.  The
    result has the `tables` of measures, too.
    """

    number: int
    events: Events
    group_events: GroupEvents
    groups: Groups
    config: WorldConfig
    kernel: Kernel
    lookups: Lookups | int = 0
    traffic: Traffic | None = None
    lan_us: int | None = None
    limits: ChildLimits | None = None
    measures: Callable[[Environment, RoundOfGroups], Sequence[Program]] = lambda given, round: ()
    tables: tuple[str, ...] = ()


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


class Buckets:
    """The tables of a world's buckets in this process, played with or without applications."""

    def __init__(
        self,
        tables: list[Tables],
        applications: Applications | None = None,
        player: type[InMemory] = InMemory,
    ) -> None:
        self.tables, self.applications, self.player = tables, applications, player

    def play(
        self, overlay: OverlayState, incarnation: np.ndarray, given: RoundInputs
    ) -> tuple[RoundResult, ScribeResult]:
        """Play one round, as :func:`play_round`; writes into `incarnation`, too."""
        kinds = MESSAGE_KINDS + SCRIBE_KINDS
        config, kernel = given.config, given.kernel
        player = self.player.of(overlay, config, kernel, len(self.tables), kinds)
        player.observe(traffic=given.traffic is not None)
        put_tables(player, self.tables)
        # 1. the nodes
        happened = given.events, given.group_events
        check_events(player.lives, player.environment.facts.ring, given.number, given.events)
        check_group_events(player, given.number, given.groups, *happened)
        changes = change_memberships(player, given.groups, *happened)
        begin_round(player, given.number, given.events, changes)
        incarnation[given.events.entering] = given.number
        # 2. Scribe
        timed = given.lan_us is not None
        of_round = given.number, given.groups, config.scribe, config.trees, incarnation
        timing = timed, given.lan_us or 0
        round = RoundOfGroups(
            *(*of_round, self.applications, *timing, given.limits), source=config.groups.source
        )
        play_groups(player, round, *happened)
        # 3. lookups, and what is seen of the round
        ends = (
            EndOfRound(player.environment, round, False),
            *given.measures(player.environment, round),
        )
        seen, taken = end_round(
            *(player, given.number, given.events, given.lookups, Tally(kinds), ends),
            (*_TAKEN, NEW_LEAFS, *given.tables, *([] if given.traffic is None else [TRAFFIC])),
        )
        if given.traffic is not None:
            given.traffic.take(taken, kinds)
        self.tables = [
            Tables.of({name: there[name] for name in there if _stays(name)})
            for there in read_tables(player)
        ]
        return seen, ScribeResult(round.number, len(round.groups), taken)


def play_round(
    overlay: OverlayState,
    state: ScribeState,
    given: RoundInputs,
    application: ScribeApplication | None = None,
) -> tuple[RoundResult, ScribeResult]:
    """Play one round on one bucket; writes into `overlay` and `state`."""
    kept = None if application is None else Kept(application)
    members = state.entries.key[state.entries.member]
    buckets = Buckets([Tables.of({**tables_of(state), MEMBERS: {"key": members}})], kept)
    played = buckets.play(overlay, state.incarnation, given)
    after = state_of(buckets.tables[0], state.size, state.incarnation, len(given.groups))
    for name in PARTS:
        setattr(state, name, getattr(after, name))
    return played


def _stays(name: str) -> bool:
    return name.startswith(MEMORY) or name in {*STATE_TABLES, TREES, MEMBERS}
