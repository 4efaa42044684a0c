"""One round of a world with groups in this process, and every row that it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from in_memory import InMemory
from overlay_state import OverlayState
from split_states import state_of, tables_of
from traffic import Traffic

from scribe_spark.config import ScribeConfig, WorldConfig
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.in_task import InTask
from scribe_spark.pastry.arrivals.observer import TRAFFIC
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.lookups import Lookups
from scribe_spark.pastry.player import Player
from scribe_spark.pastry.round import RoundResult
from scribe_spark.pastry.tally import MESSAGE_KINDS, Tally
from scribe_spark.scribe.create import MADE
from scribe_spark.scribe.duplicates import AGAIN, SOURCE_BITS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.events import FAILURES, GroupEvents
from scribe_spark.scribe.figures import AT_ROOT
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.join import JOINS, REPAIRING
from scribe_spark.scribe.limits import ChildLimits
from scribe_spark.scribe.multicast import DELIVERIES, PAYLOADS
from scribe_spark.scribe.outcomes import LEFT, ORPHANS, OVERLOADED, PublicationResults
from scribe_spark.scribe.program import Applications, GroupRound
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.repairs import REPAIRED
from scribe_spark.scribe.round import (
    ROWS,
    Measures,
    lost_groups,
    play_groups,
    publication_results,
)
from scribe_spark.scribe.scribe import REFUSED, REFUSED_KINDS, SCRIBE_KINDS, Joins
from scribe_spark.scribe.sources import Sent
from scribe_spark.scribe.state import PARTS, PREFIX, ScribeState
from scribe_spark.scribe.upcalls import Application
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Kept:
    """An application that is no other from superstep to superstep, whatever it remembers.

    It does what `Applications` does for the one bucket there is.
    """

    application: Application

    def of(self, tables: Tables) -> Application:
        """See `Applications`."""
        return self.application

    def put_back(self, application: Application, tables: Tables) -> None:
        """See `Applications`."""


def _no_measures(given, round) -> tuple[()]:
    """A round of which nothing is measured."""
    return ()


@dataclass(frozen=True)
class Repaired:
    """Nodes that died with children, all of which a root reaches again.

    Attributes
    ----------
    died, node : ndarray of int64
    rounds : ndarray of int64
        Rounds from the death to the first at whose end all children that are still in the tree
        were reached.
    """

    died: np.ndarray
    node: np.ndarray
    rounds: np.ndarray


@dataclass(frozen=True)
class ScribeResult:
    """What happened in the trees in a round.

    Attributes
    ----------
    created : (ndarray of int64, ndarray of int64)
        Groups and their creators.
    lost : ndarray of int64
        Groups of whose state no live node had a copy, before the round's CREATEs.
    joins : Joins
        All JOINs that were sent.
    at_root : (ndarray of int64, ndarray of int64)
        Groups and sources of JOINs that roots have answered, whose children these have become.
    sent : Sent
        Publications of the round, and those that were kept before it, and what became of them.
    deliveries : (ndarray of int64, ndarray of int64, ndarray of int64)
        Group, publication, node; in the order in which they came.
    ways : (ndarray of int64, ndarray of int64)
        Hops and delay (microseconds) of each delivery, from the root; the delay where payloads
        are timed.
    payloads : list of (ndarray, ndarray, ndarray, ndarray)
        Group, publication, sender and receiver of the payloads, where they are timed.
    ages : ndarray of int64
        Of each delivery the rounds since the publication was sent; 0: in the same round.
    out_of_order : ndarray of bool
        Which deliveries came after one of a newer publication; see :mod:`.order`.
    refused : dict of str to int
        Messages that were refused, by kind.
    duplicates : (ndarray of int64, ndarray of int64)
        Group and publication of each that a member got again.
    orphans : ndarray of int64
        (group, node): in the tree, not the root, and no live node is both the parent and has it
        as a child.
    publications : PublicationResults
        Of those whose deadline is this round.
    left : PublicationResults
        Of all others, after the last round.
    repaired : Repaired
        Nodes that died, all of whose children are reached again.
    failures : ndarray of int64
        Nodes that died (failed or left) and were the parents of others in at least one tree.
    overloaded : ndarray of int64
        Nodes above their limit of children at the end of the round, where nodes have limits.
    repairing : ndarray of int64
        Nodes that a JOIN that repairs was at, its source too: they have sent it, passed it on or
        answered it.  A JOIN of a node that such a JOIN made a forwarder repairs, too.
    tables : mapping of str to Columns
        All of this, and what measures have left, as the buckets had it.
    """

    created: tuple[np.ndarray, np.ndarray]
    lost: np.ndarray
    joins: Joins
    at_root: tuple[np.ndarray, np.ndarray]
    sent: Sent
    deliveries: tuple[np.ndarray, np.ndarray, np.ndarray]
    ways: tuple[np.ndarray, np.ndarray]
    payloads: list[tuple[np.ndarray, ...]]
    ages: np.ndarray
    out_of_order: np.ndarray
    refused: dict[str, int]
    orphans: np.ndarray
    duplicates: tuple[np.ndarray, np.ndarray]
    publications: PublicationResults
    left: PublicationResults
    repaired: Repaired
    failures: np.ndarray
    overloaded: np.ndarray
    repairing: np.ndarray
    tables: Mapping[str, Columns] = field(default_factory=dict)


def application_of(rules: ScribeConfig, nodes: int) -> Application | None:
    """The application that the rules ask for; None: best effort.

    Parameters
    ----------
    nodes : int
        How many are known.
    """
    return Reliable(rules.buffer, nodes) if rules.reliable else None


def result_of(round: GroupRound, taken: Mapping[str, Columns]) -> ScribeResult:
    """Put together what the buckets have left, of the tables :data:`ROWS`."""

    def rows(table: str, *names: str) -> tuple[np.ndarray, ...]:
        empty = np.empty(0, dtype=np.int64)
        return tuple(taken[table][name] if table in taken else empty for name in names)

    kind, count = rows(REFUSED, "kind", "count")
    kinds = np.bincount(kind, count, len(REFUSED_KINDS)).astype(np.int64).tolist()
    group, publication, node = rows(DELIVERIES, "group", "publication", "node")
    payloads = rows(PAYLOADS, "group", "publication", "sender", "to")
    (wrong,) = rows(DELIVERIES, "out_of_order")
    (orphans,), (failures,) = rows(ORPHANS, "pair"), rows(FAILURES, "node")
    (over,), (repairing,) = rows(OVERLOADED, "node"), rows(REPAIRING, "node")
    died, dead = rows(REPAIRED, "died", "node")
    order = np.lexsort((dead, died))
    refused = dict(zip(REFUSED_KINDS, kinds, strict=True))
    return ScribeResult(
        created=rows(MADE, "group", "creator"),  # type: ignore[arg-type]
        lost=lost_groups(taken, len(round.groups)),
        joins=Joins(**taken[JOINS]) if JOINS in taken else Joins(),
        at_root=rows(AT_ROOT, "group", "source"),  # type: ignore[arg-type]
        sent=Sent.of_buckets(taken.get(OUTCOMES, {})),
        deliveries=(group, publication, node),
        ways=rows(DELIVERIES, "hops", "delay_us"),  # type: ignore[arg-type]
        payloads=[payloads] if len(payloads[0]) else [],
        ages=round.number - (publication >> SOURCE_BITS),
        out_of_order=wrong.astype(bool),
        refused={kind: count for kind, count in sorted(refused.items()) if count},
        orphans=np.sort(orphans),
        duplicates=rows(AGAIN, "group", "publication"),  # type: ignore[arg-type]
        publications=publication_results(taken),
        left=publication_results(taken, LEFT),
        repaired=Repaired(died[order], dead[order], round.number - died[order]),
        failures=np.unique(failures),
        overloaded=np.sort(over),
        repairing=np.unique(repairing),
        tables=taken,
    )


@dataclass(frozen=True)
class RoundInputs:
    """What a round in this process is played with, besides the state.

    Attributes
    ----------
    number : int
        Rounds count from 0.
    events : Events
    group_events : GroupEvents
    groups : Groups
    config : WorldConfig
    kernel : Kernel
        Of the underlay.
    lookups : Lookups or int
        As of Pastry's round; after the publications.
    traffic : Traffic, optional
        Where senders and receivers of all messages are remembered.
    observed : bool
        Whether measures want senders and receivers, in the buckets.
    lan_us : int, optional
        Delay of a node's LAN link, each way; where it is given, payloads are timed.
    is_last : bool
        Whether the world ends with this round.
    limits : ChildLimits, optional
    measures : callable
        See :data:`Measures`.
    tables : tuple of str
        The tables of measures, which are in the result.
    """

    number: int
    events: Events
    group_events: GroupEvents
    groups: Groups
    config: WorldConfig
    kernel: Kernel
    lookups: Lookups | int = 0
    traffic: Traffic | None = None
    observed: bool = False
    lan_us: int | None = None
    is_last: bool = False
    limits: ChildLimits | None = None
    measures: Measures = _no_measures
    tables: tuple[str, ...] = ()


def put_tables(player: Player, tables: list[Tables]) -> None:
    """Add tables to those of a player's buckets."""
    if isinstance(player.engine, InTask):
        for there, mine in zip(player.engine.tables, tables, strict=True):
            there.update(mine)
    else:
        player.engine.put(tables)


def read_tables(player: Player) -> list[Tables]:
    """The tables of a player's buckets."""
    engine = player.engine
    return engine.tables if isinstance(engine, InTask) else engine.read()


class Buckets:
    """What the nodes of a world know of groups, and their applications, in this process.

    Attributes
    ----------
    tables : list of Tables
        Of the buckets.
    applications : Applications, optional
        Without them delivery is best effort.
    player : type of InMemory
    """

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
        player.observe(traffic=given.observed or given.traffic is not None)
        put_tables(player, self.tables)
        timed = given.lan_us is not None
        of_round = given.number, given.groups, config.scribe, config.trees, incarnation
        timing = timed, given.lan_us or 0
        round = GroupRound(*of_round, self.applications, *timing, given.limits)
        seen, taken = play_groups(
            *(player, round, given.events, given.group_events, given.lookups),
            *(Tally(kinds), given.is_last, given.measures),
            (*ROWS, *given.tables, *([] if given.traffic is None else [TRAFFIC])),
        )
        if given.traffic is not None:
            given.traffic.take(taken, kinds)
        self.tables = [
            Tables.of({name: there[name] for name in there if name.startswith(PREFIX)})
            for there in read_tables(player)
        ]
        return seen, result_of(round, taken)


def play_round(
    overlay: OverlayState,
    state: ScribeState,
    given: RoundInputs,
    application: Application | None = None,
) -> tuple[RoundResult, ScribeResult]:
    """Play one round on one bucket; writes into `overlay` and `state`.

    Parameters
    ----------
    application : Application, optional
        On Scribe's upcalls; without one delivery is best effort.

    Raises
    ------
    ImpossibleRound
        For an event that cannot be, or if no node is left.
    """
    kept = None if application is None else Kept(application)
    buckets = Buckets([tables_of(state)], kept)
    played = buckets.play(overlay, state.incarnation, given)
    after = state_of(buckets.tables[0], state.size, state.incarnation, len(given.groups))
    for name in PARTS:
        setattr(state, name, getattr(after, name))
    return played
