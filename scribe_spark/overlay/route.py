"""Applications on an overlay, and their operations as programs.

An application has two upcalls, `forward` and `deliver`, and the state of nodes.  Its operations are
`route` to a key, hop by hop, and `send` to a node.

References
----------
JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import AT, in_bucket
from scribe_spark.underlay.protocol import Kernel, node_delays

# --- applications


@dataclass(frozen=True)
class Step:
    """The results of an upcall: dicts of arrays by name, with one value for each message.

    Attributes
    ----------
    onward : mapping of str to ndarray, optional
        From `forward`: the messages that go on, with all their columns.
    sent : mapping of str to ndarray, optional
        New messages: ``node``, where they start (`Overlay.route`) or arrive (`Overlay.send`),
        ``key_hi, key_lo`` and the payload columns; other columns are ignored.
    outcomes : mapping of str to ndarray, optional
        Messages that `Overlay.route` or `Overlay.send` returns as results, with all columns.
    """

    onward: Columns | None = None
    sent: Columns | None = None
    outcomes: Columns | None = None


class Application:
    """The program on every node of an overlay; each of its two upcalls gets many messages at once.

    Messages are a dict of arrays by name: ``node`` (the node that has the message), ``key_hi,
    key_lo`` (the halves of its 128-bit key), ``next`` (its next hop, or -1), ``start, hops,
    delay_us`` (its first node, and the hops and delay so far) and your payload columns.  Messages
    of `Overlay.send` have ``node`` and the payload only.  An upcall gets the messages of a *bucket*
    of nodes, in any order, and the state of these nodes in `tables`; its result for one node must
    not depend on other nodes.

    An application is copied to the executors, so it must keep no state in its attributes.

    Attributes
    ----------
    state : mapping of str to str
        The tables of state by name, with their columns: ``"node bigint, ..."``.  An upcall reads
        ``tables[name]``, a dict of arrays, and may replace it.
    independent : bool
        True if `forward` treats each message independently.  Then, or without `forward`, a message
        makes all hops inside its bucket in one step of the simulation; otherwise one hop.
    """

    state: Mapping[str, str] = MappingProxyType({})
    independent: bool = False

    def begin(self, tables: Tables) -> Columns | None:
        """Return the messages that nodes send when routing begins, in the form of `Step.sent`.

        Parameters
        ----------
        tables : dict
            The tables of state by name.
        """
        return None

    def forward(self, tables: Tables, messages: Columns) -> Step:
        """Process messages before they go on to the node ``next``.

        The application may drop, merge or change messages, and change ``next``.

        Parameters
        ----------
        tables : dict
            The tables of state by name.
        messages : dict of str to ndarray
            The messages on their way, one value for each message.

        Returns
        -------
        Step
            Its `onward` contains the messages that go on.
        """
        return Step(onward=messages)

    def deliver(self, tables: Tables, messages: Columns) -> Step:
        """Process messages at the root of their key, or at their receiver with `Overlay.send`.

        Parameters
        ----------
        tables : dict
            The tables of state by name.
        messages : dict of str to ndarray
            The delivered messages, one value for each message.
        """
        return Step(outcomes=messages)


# --- the programs


class NextHop(Protocol):
    """A rule of routing, which gives the next hops of messages; picklable.

    A rule that draws random values has an attribute `drawn_by`: the names of the payload columns
    that key its draws.  Such a rule gets these columns as arguments after the keys.
    """

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """Return the positions of the next hops of messages: int64, shape (m,).

        Parameters
        ----------
        first : int
            The position of the bucket's first node.
        tables : Tables
            The tables of the bucket.
        at : ndarray of int64, shape (m,)
            The positions of the nodes that have the messages.
        key_hi, key_lo : ndarray of uint64, shape (m,)
            Halves of the messages' keys.

        Returns
        -------
        ndarray of int64
            The node itself if it is the root of the key; -1 if the node knows no next hop.
        """


#: The kind of the messages, and the beginning of the names of the tables with outcomes.
MESSAGE, OUTCOMES = "message", "outcomes"

_KEY = ("key_hi", "key_lo")

#: The columns of a message's way.
_WAY = ("start", "hops", "delay_us")

#: Names that no payload column can have.
OWN = frozenset({AT, "node", "next", "direct_us", *_KEY, *_WAY})


class Finds(KnowsRing, Protocol):
    """The type of objects that know all nodes and find them by number."""

    def find(self, number: np.ndarray) -> np.ndarray:
        """Return the positions of nodes from their numbers; -1 for unknown numbers."""


@dataclass(frozen=True)
class _Upcalls:
    """The common part of the programs `Route` and `Send`, which call an application."""

    bounds: np.ndarray  # the first position of each bucket, and the number of nodes
    facts: Finds
    application: Application
    payload: tuple[str, ...] = ()  # the message columns of the application
    state: Mapping[str, Columns] | None = None  # the application's tables without rows, by name

    def _open(self, tables: Tables, inbox: Inbox) -> list[Columns]:
        """Return the received messages (a list of one table, or none)."""
        for name, empty in (self.state or {}).items():
            if name in inbox:
                tables[name] = {column: inbox[name][column] for column in empty}
            elif name not in tables:
                tables[name] = empty
        return [inbox[MESSAGE]] if MESSAGE in inbox else []

    def _keep(self, tables: Tables, steps: list[Step], superstep: int) -> None:
        """Store the outcomes of a superstep's upcalls in a table that is written only once."""
        found = [step.outcomes for step in steps if step.outcomes and count_rows(step.outcomes)]
        if found:
            tables[f"{OUTCOMES} {superstep}"] = concatenate(found)


@dataclass(frozen=True)
class Route(_Upcalls):
    """The program that moves messages hop by hop to the roots of their keys."""

    rule: Callable[..., np.ndarray] | None = None  # a `NextHop`
    kernel: Kernel | None = None
    lan_us: int = 0  # the delay of a node's LAN link in each direction

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Move messages by one hop, or to the edge of the bucket, and call the application."""
        came = self._open(tables, inbox)
        first = int(self.bounds[bucket])
        steps: list[Step] = []
        sent: list[Columns] = []
        arrived: list[Columns] = []
        if superstep == 0 and (begun := self.application.begin(tables)):
            came.append(starting(self.facts, begun, self.payload))
        moving = concatenate(came) if came else {}
        most = most_supersteps(int(self.bounds[-1]))
        for _ in counted("overlay route", most, "hops inside a bucket"):
            if not count_rows(moving):
                break
            passing, ending = self._hop(first, tables, moving)
            arrived.append(ending)
            if not count_rows(passing):
                break
            steps.append(self.application.forward(tables, passing))
            if not steps[-1].onward:
                break
            moving = self._onward(steps[-1].onward)
            inside = in_bucket(self.bounds, bucket, moving[AT])
            if not self._alone:
                inside[:] = False
            sent.append(take(moving, ~inside))
            moving = take(moving, inside)
        if any(map(count_rows, arrived)):
            steps.append(self.application.deliver(tables, concatenate(arrived)))
        self._keep(tables, steps, superstep)
        new = [starting(self.facts, step.sent, self.payload) for step in steps if step.sent]
        return {MESSAGE: concatenate([*sent, *new])} if sent or new else {}

    @property
    def _alone(self) -> bool:
        """Return True if the fate of a message does not depend on other messages at its node."""
        unchanged = type(self.application).forward is Application.forward
        return unchanged or self.application.independent

    def _hop(self, first: int, tables: Tables, moving: Columns) -> tuple[Columns, Columns]:
        """Return messages as upcalls see them: those that go on, and those at their root."""
        assert self.rule is not None
        at = moving[AT]
        hi, lo = (moving[name].view(np.uint64) for name in _KEY)
        drawn_by = [moving[name] for name in getattr(self.rule, "drawn_by", ())]
        onward = self.rule(first, tables, at, hi, lo, *drawn_by)
        number, goes = self.facts.ring.node, (onward >= 0) & (onward != at)
        messages = {
            "node": number[at],
            "next": np.where(goes, number[onward], NONE),
            **{name: moving[name] for name in (*_KEY, *self.payload, *_WAY)},
        }
        return take(messages, goes), take(messages, ~goes)

    def _onward(self, onward: Columns) -> dict[str, np.ndarray]:
        """Return the messages that an application lets go on, moved to their next hop."""
        assert self.kernel is not None
        to = self.facts.find(onward["next"])
        messages, to = take(onward, to >= 0), to[to >= 0]
        router, at = self.facts.ring.router, self.facts.find(messages["node"])
        away = at != to
        delay_us = messages["delay_us"].copy()
        ends = router[at[away]], router[to[away]]
        delay_us[away] += node_delays(self.kernel, self.lan_us, *ends)
        return {
            AT: to,
            **{name: messages[name] for name in (*_KEY, *self.payload, "start")},
            "hops": messages["hops"] + 1,
            "delay_us": delay_us,
        }


@dataclass(frozen=True)
class Send(_Upcalls):
    """The program that delivers messages directly to their receivers."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Deliver messages, and send the messages that the application returns."""
        came = self._open(tables, inbox)
        if not came:
            return {}
        names = {name: came[0][name] for name in self.payload}
        messages = {"node": self.facts.ring.node[came[0][AT]], **names}
        step = self.application.deliver(tables, messages)
        self._keep(tables, [step], superstep)
        if not step.sent:
            return {}
        at = self.facts.find(step.sent["node"])
        sent = {AT: at, **{name: step.sent[name] for name in self.payload}}
        return {MESSAGE: take(sent, at >= 0)}


def starting(facts: Finds, messages: Columns, payload: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return messages for :class:`Route` at their first nodes; without those of unknown nodes."""
    at = facts.find(messages["node"])
    there = at >= 0
    none = np.zeros(np.count_nonzero(there), dtype=np.int64)
    carried = {name: messages[name][there] for name in (*_KEY, *payload)}
    return {
        AT: at[there],
        **carried,
        "start": messages["node"][there],
        **dict.fromkeys(_WAY[1:], none),
    }
