"""JOINs of a round: all start together and go up hop by hop.

A JOIN repairs if its cause is that the parent or the root failed; so does that of a node that
enters the tree because such a JOIN has come to it, and which sends its own instead.

References
----------
JSAC 2002, Section III.A.2, Figure 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.scribe.living.chains import on_chain
from scribe_spark.scribe.living.figures import deliver_join, forward
from scribe_spark.scribe.living.handlers import call_fault_handler
from scribe_spark.scribe.living.roots import become_root
from scribe_spark.scribe.living.scribe import Joins, Scribe
from scribe_spark.scribe.living.state import FAILED, cause

__all__ = ["send_joins"]


@dataclass(frozen=True)
class _Routed:
    """JOINs on their way.

    Attributes
    ----------
    joins : Joins
    at : ndarray of int64, shape (m,)
        Where they are.
    path : ndarray of int64, shape (m, longest path)
        The nodes that they were at, NONE after the end.
    repairs : ndarray of bool, shape (m,)
        Which of them repair.
    """

    joins: Joins
    at: np.ndarray
    path: np.ndarray
    repairs: np.ndarray

    @classmethod
    def of(cls, joins: Joins, repairs: np.ndarray) -> _Routed:
        """JOINs at their sources."""
        return cls(joins, joins.source, joins.source[:, None], repairs)

    def take(self, index: np.ndarray) -> _Routed:
        """Some of them."""
        return _Routed(
            self.joins.take(index), self.at[index], self.path[index], self.repairs[index]
        )

    @staticmethod
    def join(*parts: _Routed) -> _Routed:
        """Those of several."""
        width = max(part.path.shape[1] for part in parts)
        paths = [
            np.pad(part.path, ((0, 0), (0, width - part.path.shape[1])), constant_values=NONE)
            for part in parts
        ]
        joins = Joins.join(*[part.joins for part in parts])
        at, repairs = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("at", "repairs")
        )
        return _Routed(joins, at, np.concatenate(paths), repairs)


def send_joins(scribe: Scribe) -> None:
    """Every waiting node sends a JOIN, until all are answered or lost."""
    entries = scribe.state.entries
    rows = entries.waiting()
    group, node = scribe.split(entries.key[rows])
    joins = Joins.of(group, node, scribe.number, entries.cause[rows])
    # 1. who has sent one before lets faultHandler add to it
    tried = np.flatnonzero(entries.tried[rows])
    extra = joins.extra.copy()
    extra[tried] = call_fault_handler(scribe, joins.take(tried)).extra
    joins = joins.with_extra(extra)
    _note(scribe, joins)
    # 2. all JOINs take a hop; some are delivered where they began
    repairs = np.isin(joins.cause, FAILED)
    scribe.repairing.append(joins.source[repairs])
    moving, delivered = _onward(scribe, _Routed.of(joins, repairs))
    group, node = group[delivered], node[delivered]
    place = scribe.key(group, node)
    knows = scribe.state.copies.has(place)
    scribe.refused["no group"] += int((~knows).sum())
    become_root(scribe, place[knows])
    # 3. they arrive, are answered or go on, until none is under way
    while len(moving.at):
        moving = _superstep(scribe, moving)


def _note(scribe: Scribe, joins: Joins) -> None:
    """Nodes remember the JOINs that they send."""
    entries = scribe.state.entries
    row = scribe.entry(joins.group, joins.source)
    entries.number[row], entries.tried[row], entries.extra[row] = joins.number, True, joins.extra
    scribe.joins.append(joins)


def _onward(scribe: Scribe, routed: _Routed) -> tuple[_Routed, np.ndarray]:
    """One hop; what ends without an answer is forgotten.

    Returns
    -------
    moving : _Routed
    delivered : ndarray of bool
        Which of `routed` Pastry delivers where they are.
    """
    onward = scribe.hop("JOIN", routed.at, routed.joins.group)
    delivered = onward == routed.at
    circled = (routed.path == onward[:, None]).any(axis=1) & ~delivered
    goes = np.flatnonzero((onward >= 0) & ~delivered & ~circled)
    path = np.concatenate([routed.path[goes], onward[goes, None]], axis=1)
    return _Routed(routed.joins.take(goes), onward[goes], path, routed.repairs[goes]), delivered


def _superstep(scribe: Scribe, moving: _Routed) -> _Routed:
    """All JOINs under way arrive; who is on whose chain is as it was before."""
    joins, at = moving.joins, moving.at
    scribe.repairing.append(at[moving.repairs])
    place = scribe.key(joins.group, at)
    row = scribe.state.entries.find(place)
    # 1. those of nodes on the receiver's own chain go on
    circular = on_chain(scribe, row, joins.source)
    parts = [_onward(scribe, moving.take(circular))[0]]
    # 2. nodes that are not in the tree yet send JOINs of their own with the least extra that they
    #    got, unless Pastry delivers there
    stranger = np.flatnonzero(row < 0)
    new, which = np.unique(place[stranger], return_inverse=True)
    own = Joins.of(*scribe.split(new), scribe.number, cause("forwarder"))
    np.minimum.at(own.extra, which, joins.extra[stranger])
    repairs = np.zeros(len(new), dtype=bool)
    repairs[which[moving.repairs[stranger]]] = True
    own_moving, delivered = _onward(scribe, _Routed.of(own, repairs))
    ends = np.zeros(len(at), dtype=bool)
    ends[stranger] = delivered[which]

    def route(entered: np.ndarray) -> None:
        _note(scribe, own.take(np.searchsorted(new, entered)))
        parts.append(own_moving)

    answered = ~ends
    answered[circular] = False
    forward(scribe, at[answered], joins.take(answered), route)
    # 3. where Pastry delivers: at the root, or nowhere
    knows = ends & scribe.state.copies.has(place)
    scribe.refused["no group"] += int((ends & ~knows).sum())
    become_root(scribe, np.unique(place[knows]))
    deliver_join(scribe, at[knows], joins.take(knows))
    return _Routed.join(*parts)
