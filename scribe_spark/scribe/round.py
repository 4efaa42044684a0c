"""A round of a world with groups: Pastry's and Scribe's, and what is seen of it.

References
----------
JSAC 2002, Section III; NGC 2001, Section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry import one_bucket as pastry
from scribe_spark.pastry.events import Events, ImpossibleRound
from scribe_spark.pastry.lookups import Lookups, drawn_lookups
from scribe_spark.pastry.one_bucket import look_up, play_events
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.round import RoundResult
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import MESSAGE_KINDS, Tally
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.scribe import (
    create,
    heartbeat,
    join,
    leave,
    paths_to_root,
    root,
    sources,
)
from scribe_spark.scribe.bottleneck import overloaded, remove_bottlenecks
from scribe_spark.scribe.collapse import collapse
from scribe_spark.scribe.duplicates import SOURCE_BITS, keep_got
from scribe_spark.scribe.emitting import disseminate_with_upcalls, settle
from scribe_spark.scribe.events import GroupEvents, play_group_events
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.handlers import keep_used_values
from scribe_spark.scribe.lazy import send_lazily
from scribe_spark.scribe.multicast import Payloads, disseminate
from scribe_spark.scribe.order import out_of_order
from scribe_spark.scribe.outcomes import (
    PublicationResults,
    Repaired,
    note_deliveries,
    publications_due,
    repaired,
)
from scribe_spark.scribe.reliable import Reliable
from scribe_spark.scribe.replicas import replicate_changed
from scribe_spark.scribe.rules import ScribeRules
from scribe_spark.scribe.scribe import SCRIBE_KINDS, Joins, Scribe
from scribe_spark.scribe.state import NOTHING, ScribeState
from scribe_spark.scribe.unknown_members import refuse_unknown_members
from scribe_spark.scribe.upcalls import Application
from scribe_spark.underlay.protocol import Kernel

__all__ = ["ScribeResult", "application_of", "play_round"]


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
    at_root : Joins
        Those that roots have answered, whose children the sources have become.
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
    repaired : Repaired
        Nodes that died, all of whose children are reached again.
    failures : ndarray of int64
        Nodes that died (failed or left) and were the parents of others in at least one tree.
    overloaded : ndarray of int64
        Nodes above their limit of children at the end of the round, where nodes have limits.
    repairing : ndarray of int64
        Nodes that a JOIN that repairs was at, its source too: they have sent it, passed it on or
        answered it.  A JOIN of a node that such a JOIN made a forwarder repairs, too.
    """

    created: tuple[np.ndarray, np.ndarray]
    lost: np.ndarray
    joins: Joins
    at_root: Joins
    sent: sources.Sent
    deliveries: tuple[np.ndarray, np.ndarray, np.ndarray]
    ways: tuple[np.ndarray, np.ndarray]
    payloads: list[tuple[np.ndarray, ...]]
    ages: np.ndarray
    out_of_order: np.ndarray
    refused: dict[str, int]
    orphans: np.ndarray
    duplicates: tuple[np.ndarray, np.ndarray]
    publications: PublicationResults
    repaired: Repaired
    failures: np.ndarray
    overloaded: np.ndarray
    repairing: np.ndarray


def application_of(rules: ScribeRules, nodes: int) -> Application | None:
    """The application that the rules ask for; None: best effort.

    Parameters
    ----------
    nodes : int
        How many are known.
    """
    return Reliable(rules.buffer, nodes) if rules.reliable else None


def play_round(
    overlay: OverlayState,
    state: ScribeState,
    number: int,
    events: Events,
    group_events: GroupEvents,
    groups: Groups,
    world: WorldRules,
    rules: ScribeRules,
    kernel: Kernel,
    lookups: Lookups | int = 0,
    application: Application | None = None,
    traffic: Traffic | None = None,
    lan_us: int | None = None,
) -> tuple[RoundResult, ScribeResult]:
    """Play one round; writes into `overlay` and `state`.

    Parameters
    ----------
    number : int
        Rounds count from 0.
    kernel : Kernel
        Of the underlay.
    lookups : Lookups or int
        As of Pastry's round; after the publications.
    application : Application, optional
        On Scribe's upcalls; without one delivery is best effort.
    traffic : Traffic, optional
        Where senders and receivers of all messages are remembered.
    lan_us : int, optional
        Delay of a node's LAN link, each way; where it is given, payloads are timed.

    Raises
    ------
    ImpossibleRound
        For an event that cannot be, or if no node is left.
    """
    tally = Tally(MESSAGE_KINDS + SCRIBE_KINDS, traffic)
    scribe = Scribe(
        *(overlay, world, kernel, groups, rules, state, number, application, tally),
        timed=lan_us is not None,
        lan_us=lan_us or 0,
    )
    leaves, was_alive = overlay.states.leaves.copy(), overlay.alive.copy()
    state.entries.extra[:] = NOTHING  # JOINs of this round alone are asked about
    # 1. events
    play_events(overlay, number, events, world, kernel, scribe.tally)
    if not overlay.alive.any():
        raise ImpossibleRound(number, "no node is left")
    play_group_events(scribe, events, group_events)
    # 2. Pastry's detection and repair
    pastry.repair(overlay, number, world, kernel, scribe.tally)
    # 3. maintenance of trees
    lost, made = _maintain(scribe, group_events.create)
    # 4. publications, heartbeats
    sent = _publish(scribe, group_events.publish)
    orphans = heartbeat.send_heartbeats(scribe)
    if isinstance(lookups, int):
        lookups = drawn_lookups(overlay, lookups, number, world.seed)
    found = look_up(overlay, lookups, world, kernel, scribe.tally)
    # 5. what is seen
    new_leafs = pastry.changed_leaf_sets(overlay, leaves, was_alive)
    of_overlay = RoundResult(number, scribe.tally.by_kind(), new_leafs, found)
    return of_overlay, _look(scribe, group_events.create, made, lost, sent, orphans)


def _maintain(
    scribe: Scribe, creates: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Roots, soft state, suspicion, LEAVE, CREATE, JOIN; lost groups, CREATEs that succeeded."""
    root.new_leafs(scribe)
    lost = root.lost_groups(scribe)
    heartbeat.refresh(scribe)
    heartbeat.expire(scribe)
    heartbeat.suspect(scribe)
    leave.leave_up(scribe)
    made = create.create_groups(scribe, *creates)
    if scribe.rules.lazy is None:
        join.send_joins(scribe)
    else:
        send_lazily(scribe)
    remove_bottlenecks(scribe)
    collapse(scribe)
    paths_to_root.break_cycles(scribe)
    refuse_unknown_members(scribe)
    scribe.close_phase()
    replicate_changed(scribe)
    settle(scribe)
    return lost, made


def _publish(scribe: Scribe, published: tuple[np.ndarray, np.ndarray]) -> sources.Sent:
    """Publications go to the roots and down the trees."""
    sent = sources.find_roots(scribe, *published)
    scribe.close_phase()
    settle(scribe)
    sent = sources.keep(scribe, sent)
    taken = sent.taken()
    group, publication, root = taken.group, taken.publication, taken.root
    if scribe.application is None:
        disseminate(scribe, Payloads.of(publication, group, root, root))
    else:
        disseminate_with_upcalls(scribe, scribe.application, group, publication, root)
    replicate_changed(scribe)
    sources.acknowledge(scribe, sent)
    return sources.with_lost_sources(scribe, sent)


def _look(
    scribe: Scribe,
    creates: tuple[np.ndarray, np.ndarray],
    made: np.ndarray,
    lost: np.ndarray,
    sent: sources.Sent,
    orphans: np.ndarray,
) -> ScribeResult:
    """The measurement; writes what it keeps for later rounds."""
    deliveries, again = scribe.deliveries.arrays(), scribe.deliveries.duplicates()
    note_deliveries(scribe, sent, deliveries, again)
    wrong = out_of_order(scribe, sent, deliveries)
    keep_got(scribe)
    keep_used_values(scribe)
    return ScribeResult(
        created=(creates[0][made], creates[1][made]),
        lost=lost,
        joins=Joins.join(Joins(), *scribe.joins),
        at_root=Joins.join(Joins(), *scribe.at_root),
        sent=sent,
        deliveries=deliveries,
        ways=scribe.deliveries.ways(),
        payloads=scribe.payloads,
        ages=scribe.number - (deliveries[1] >> SOURCE_BITS),
        out_of_order=wrong,
        refused={kind: count for kind, count in sorted(scribe.refused.items()) if count},
        orphans=scribe.state.entries.key[orphans],
        duplicates=again,
        publications=publications_due(scribe.state, scribe.number, scribe.rules.deadline),
        repaired=repaired(scribe, orphans),
        failures=scribe.failures,
        overloaded=overloaded(scribe),
        repairing=np.unique(np.concatenate([scribe.failures[:0], *scribe.repairing])),
    )
