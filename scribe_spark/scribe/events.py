"""Events of groups in a round: create, join, quit, publish; and what Pastry's do to trees.

References
----------
JSAC 2002, Section III.A.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.events import Events, ImpossibleRound
from scribe_spark.scribe.departures import say_goodbye
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.leave import Gone, take_away
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import Repairs

__all__ = ["GroupEvents", "play_group_events"]

#: (group, node) of events of one kind, ascending.
_Pairs = tuple[np.ndarray, np.ndarray]


def _none() -> _Pairs:
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class GroupEvents:
    """The events of groups in one round, each as indices of groups and positions of nodes.

    The nodes are alive after Pastry's events; at most one of each kind for (group, node).

    Attributes
    ----------
    create, join, quit, publish : (ndarray of int64, ndarray of int64)
    """

    create: _Pairs = field(default_factory=_none)
    join: _Pairs = field(default_factory=_none)
    quit: _Pairs = field(default_factory=_none)
    publish: _Pairs = field(default_factory=_none)

    @classmethod
    def of(
        cls, known: Ring, groups: Groups, node: np.ndarray, event: np.ndarray, group: np.ndarray
    ) -> GroupEvents:
        """Events of known nodes and groups, given by their numbers; others are passed over."""
        kinds = [one.name for one in fields(cls)]
        some = np.isin(event, kinds)
        event, position = event[some], known.positions(node[some])
        index = np.searchsorted(groups.number, group[some])
        order = np.lexsort((position, index))
        event, index, position = event[order], index[order], position[order]
        return cls(**{kind: (index[event == kind], position[event == kind]) for kind in kinds})


def play_group_events(scribe: Scribe, events: Events, group_events: GroupEvents) -> Gone:
    """What died is forgotten, goodbyes go out, joins and quits are marked; writes the state.

    Pastry's events have been played.  CREATEs and publications come later in the round.

    Returns
    -------
    Gone
        What all had that died.

    Raises
    ------
    ImpossibleRound
        For an event that cannot be.
    """
    # 1. who is gone, and what was under it
    gone = take_away(scribe, np.concatenate([events.fail, events.leave]))
    _remember_dead_roots(scribe, gone)
    _remember_repairs(scribe, gone)
    scribe.state.incarnation[np.concatenate([events.arrive, events.recover])] = scribe.number
    say_goodbye(scribe, gone, events.leave)
    # 2. joins and quits
    check(scribe, group_events)
    _join(scribe, *group_events.join)
    entries = scribe.state.entries
    entries.member[scribe.entry(*group_events.quit)] = False
    return gone


def _remember_dead_roots(scribe: Scribe, gone: Gone) -> None:
    """Roots that died, as long as a child can still suspect one of them."""
    dead = scribe.state.dead_roots
    dead.keep(dead.died >= scribe.number - scribe.rules.parent_timeout)
    dead.put(gone.entries.key[gone.entries.root], died=scribe.number)


def _remember_repairs(scribe: Scribe, gone: Gone) -> None:
    """The children of who is gone, of which these nodes were the parents."""
    place, child = scribe.split(gone.children.key)
    group, node = scribe.split(place)
    row = scribe.entry(group, child)
    under = row >= 0
    under[under] = scribe.state.entries.parent[row[under]] == node[under]
    scribe.failures = np.unique(node[under])
    old = scribe.state.repairs
    scribe.state.repairs = Repairs(
        np.r_[old.died, np.full(under.sum(), scribe.number)],
        np.r_[old.node, node[under]],
        np.r_[old.place, scribe.key(group, child)[under]],
    )


def check(scribe: Scribe, events: GroupEvents) -> None:
    """Refuse events that cannot be.

    Raises
    ------
    ImpossibleRound
    """
    number, known = scribe.number, scribe.overlay.states.known
    for kind in (one.name for one in fields(events)):
        group, node = getattr(events, kind)
        place = scribe.key(group, node)
        if len(np.unique(place)) < len(place):
            raise ImpossibleRound(number, f"{kind} twice")
        refused = ~scribe.overlay.alive[node]
        if kind == "join":
            refused |= _is_member(scribe, place) | scribe.state.strangers.has(place)
        if kind == "quit":
            refused |= ~_is_member(scribe, place)
        if refused.any():
            at = int(np.argmax(refused))
            which = f"node {known.node[node[at]]} cannot {kind}"
            raise ImpossibleRound(number, f"{which} group {scribe.groups.number[group[at]]}")


def _is_member(scribe: Scribe, place: np.ndarray) -> np.ndarray:
    entries = scribe.state.entries
    row = entries.find(place)
    member = row >= 0
    member[member] = entries.member[row[member]]
    return member


def _join(scribe: Scribe, group: np.ndarray, node: np.ndarray) -> None:
    """Nodes of a tree are members at once; others send JOINs later, strangers apart."""
    allowed = scribe.groups.allows("join", group, node)
    place = scribe.key(group, node)
    scribe.state.strangers.insert(place[~allowed])
    entries, place = scribe.state.entries, place[allowed]
    entries.enter(place[~entries.has(place)], scribe.number, "own")
    row = entries.find(place)
    entries.member[row], entries.joined[row] = True, scribe.number
