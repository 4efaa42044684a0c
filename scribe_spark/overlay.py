"""Applications on an overlay, and their operations as programs.

An application has two upcalls, `forward` and `deliver`, and the state of nodes.  Its operations are
`route` to a key, hop by hop, and `send` to a node.

JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from scribe_spark import schemas
from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import listed
from scribe_spark.core.progress import Progress
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, read_typed
from scribe_spark.engine.facts import Facts, KnowsRing
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.player import Player, counted, most_supersteps
from scribe_spark.engine.program import AT, deliver, in_bucket
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import release, union_tables
from scribe_spark.underlay.protocol import Kernel, Underlay, node_delays

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
    """A rule of routing, which gives the next hops of messages; picklable."""

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

    rule: NextHop | None = None
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
        onward = self.rule(first, tables, at, hi, lo)
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


# --- overlays


_BIGINT = LongType()


@dataclass(frozen=True)
class Routed:
    """The results of :meth:`Overlay.route` and :meth:`Overlay.send`.

    Attributes
    ----------
    messages : tuple of int
        The number of messages in each superstep.
    """

    messages: tuple[int, ...]
    _overlay: Overlay
    _tables: BucketTables
    _schema: StructType
    _state: Mapping[str, StructType]

    def outcomes(self) -> DataFrame:
        """Return the outcomes of the application; read them before :meth:`release`.

        Returns
        -------
        DataFrame
            After `Overlay.route`: ``node``, ``next`` (may be NULL), ``key_hi, key_lo``, the
            payload, ``start, hops, delay_us`` (the message's first node, and its hops and delay so
            far) and ``direct_us`` (the delay of the direct route from ``start`` to ``node``).
            After `Overlay.send`: ``node`` and the payload.
        """
        names = [f"{OUTCOMES} {superstep}" for superstep in range(len(self.messages))]
        facts, underlay = self._overlay.ring.facts, self._overlay.underlay
        kernel, lan_us = underlay.kernel, underlay.lan_us
        wanted = to_arrow_schema(self._schema)

        def rows(bucket: int, table: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
            if "start" in table:
                router = facts.ring.router
                ends = [facts.positions(table[name]) for name in ("start", "node")]
                away = ends[0] != ends[1]
                table["direct_us"] = np.zeros(len(away), dtype=np.int64)
                routers = (router[end[away]] for end in ends)
                table["direct_us"][away] = node_delays(kernel, lan_us, *routers)
            yield _batch(table, wanted)

        return read_typed(self._tables.rows(*names), rows, self._schema).frame

    def state(self, name: str) -> DataFrame:
        """Return a table of the application's state by its name; read it before :meth:`release`."""
        wanted = to_arrow_schema(self._state[name])

        def rows(bucket: int, table: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
            yield _batch(table, wanted)

        return read_typed(self._tables.rows(name), rows, self._state[name]).frame

    def release(self) -> None:
        """Free the memory of the results."""
        self._tables.release()


def _batch(table: Columns, wanted: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in wanted:
        column = table[field.name]
        mask = column == NONE if field.name == "next" else None
        arrays.append(pa.array(column, mask=mask).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


class Overlay(ABC):
    """Nodes that route messages to keys over a network of routers.

    A kind of overlay, such as Pastry, defines the next hop of a message by :attr:`rule`, and the
    knowledge of its nodes by :meth:`routing_table`.

    Parameters
    ----------
    nodes : DataFrame or Batches
        The nodes: ``node, id_hi, id_lo, router``.
    underlay : Underlay
        The routes between routers.
    bits : callable, optional
        ``bits(n)``, for n nodes, is the number of first bits of a nodeId that decide its bucket.

    Attributes
    ----------
    underlay : Underlay
        The routes between routers.
    ring : BucketRing
        The nodes in the order of nodeIds, divided into buckets.
    known : sequence of DataFrame
        The knowledge of the nodes in each bucket, in the engine's packed form (`schemas.ROWS`);
        the rule of routing reads it.
    unfilled : callable or None
        ``unfilled(player)`` fills the tables `known`; None if they are filled.  A job of tasks may
        play it before its other work, and then passes its tables to :meth:`filled_in`.
    """

    unfilled: Callable[[Player], None] | None = None

    def __init__(
        self, nodes: Table, underlay: Underlay, bits: Callable[[int], int] | None = None
    ) -> None:
        self._nodes, self.underlay = nodes, underlay
        self.ring = BucketRing.of(nodes, underlay, bits)
        self.known: Sequence[DataFrame] = ()

    @cached_property
    def nodes(self) -> DataFrame:
        """The nodes: ``node, id_hi, id_lo, router``."""
        return Batches.of(self._nodes).frame

    @property
    @abstractmethod
    def rule(self) -> NextHop:
        """The rule by which a node chooses the next hop of a message."""

    @abstractmethod
    def routing_table(self) -> DataFrame:
        """Return the entries of all nodes' routing tables: ``node, row, col, entry``."""

    def with_router(self, frame: DataFrame) -> DataFrame:
        """Return `frame` with a column ``router``: the router of each row's ``node``."""
        facts, kernel = self.ring.facts, self.underlay.kernel

        def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                at = facts.positions(batch.column("node").to_numpy())
                router = pa.array(kernel.ids(facts.ring.router[at]))
                yield batch.append_column("router", router)

        fields = [*frame.schema.fields, StructField("router", LongType())]
        return frame.mapInArrow(add, StructType(fields))

    def rows_of_nodes(self, node: np.ndarray) -> dict[str, np.ndarray]:
        """Return first halves of nodeIds, and routers, of nodes by number: ``id_hi, router``."""
        facts, kernel = self.ring.facts, self.underlay.kernel
        at, ring = facts.positions(node), facts.ring
        return {"id_hi": ring.hi[at].view(np.int64), "router": kernel.ids(ring.router[at])}

    def table_entries(self) -> pa.Table:
        """Return one row ``nodes, entries``: the numbers of nodes, and of entries in all tables."""
        counts = len(self.ring), self.routing_table().count()
        return schemas.arrow_table([counts], schemas.TABLE_ENTRIES)

    def arrival_messages(self) -> pa.Table | None:
        """Return the number of messages of each kind that nodes sent to arrive: ``kind, messages``.

        Returns
        -------
        pyarrow.Table or None
            None if the nodes did not arrive by a protocol.
        """
        return None

    def filled_in(self, tables: BucketTables) -> BucketTables:
        """Take over tables that :attr:`unfilled` has filled; return a copy without them."""
        raise NotImplementedError

    def release(self) -> None:
        """Free the memory of the nodes' knowledge; the overlay cannot be used afterwards."""
        for table in self.known:
            release(table)
        self.ring.release()

    # --- applications

    def route(
        self,
        application: Application,
        messages: DataFrame,
        *,
        state: Mapping[str, DataFrame] | None = None,
        name: str = "route",
        progress: Progress | None = None,
    ) -> Routed:
        """Route messages to the roots of their keys.

        Parameters
        ----------
        application : Application
            The program on every node.
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload columns: numbers, BOOLEANs and STRINGs, without
            NULLs.
        state : mapping of str to DataFrame, optional
            The tables of the application's state at the start, by name; rows of unknown nodes are
            lost.
        name : str
            The name of the Spark jobs.
        progress : Progress, optional
            The object to which supersteps are reported; by default no object.

        Returns
        -------
        Routed
            The outcomes of the application; by default every delivered message.  Messages to
            unknown nodes are lost.

        Raises
        ------
        ValueError
            A column has a name that the overlay uses, or an unsupported type.
        """
        payload = tuple(_payload(messages, ["node", *_KEY]))
        ring, underlay = self.ring, self.underlay
        program = Route(
            *(ring.bounds, ring.facts, application, payload, _empty(_state(application))),
            *(self.rule, underlay.kernel, underlay.lan_us),
        )

        def begin(facts: Facts, columns: Columns) -> Columns:
            return starting(facts, columns, payload)

        first = self._packed(MESSAGE, messages, ["node", *_KEY, *payload], begin)
        fields = [StructField(one, _BIGINT) for one in ("node", "next", *_KEY)]
        fields += [messages.schema[one] for one in payload]
        types = {"start": _BIGINT, "hops": IntegerType(), "delay_us": _BIGINT, "direct_us": _BIGINT}
        fields += [StructField(*one) for one in types.items()]
        return self._play(program, first, state, StructType(fields), name, progress)

    def send(
        self,
        application: Application,
        messages: DataFrame,
        *,
        state: Mapping[str, DataFrame] | None = None,
        name: str = "send",
        progress: Progress | None = None,
    ) -> Routed:
        """Deliver messages directly to their nodes, then all messages that the application sends.

        Parameters
        ----------
        application : Application
            The program on every node.
        messages : DataFrame
            ``node``, the receiver of each message, and payload columns.
        state, name, progress
            The same arguments as in :meth:`route`.

        Returns
        -------
        Routed
            The outcomes of the application; by default every delivered message.
        """
        payload = tuple(_payload(messages, ["node"]))
        ring = self.ring
        program = Send(ring.bounds, ring.facts, application, payload, _empty(_state(application)))

        def begin(facts: Facts, columns: Columns) -> Columns:
            at = facts.find(columns["node"])
            return {AT: at[at >= 0], **{name: columns[name][at >= 0] for name in payload}}

        first = self._packed(MESSAGE, messages, ["node", *payload], begin)
        fields = [messages.schema[name] for name in ("node", *payload)]
        return self._play(program, first, state, StructType(fields), name, progress)

    def _play(
        self,
        program: Route | Send,
        messages: DataFrame,
        state: Mapping[str, DataFrame] | None,
        schema: StructType,
        name: str,
        progress: Progress | None,
    ) -> Routed:
        tables_of_state, first = _state(program.application), [messages]

        def keep(facts: Facts, columns: Columns) -> Columns:
            at = facts.find(columns["node"])
            return {AT: at[at >= 0], **{name: one[at >= 0] for name, one in columns.items()}}

        for table, rows in (state or {}).items():
            first.append(self._packed(table, rows, tables_of_state[table].names, keep))
        tables = BucketTables(self.ring.layout, union_tables(first), self.known)
        counts = tables.play(program, name, progress)
        return Routed(tuple(counts), self, tables, schema, tables_of_state)

    def _packed(
        self,
        kind: str,
        table: DataFrame,
        names: Sequence[str],
        begin: Callable[[Facts, Columns], Columns],
    ) -> DataFrame:
        """Return a table's rows as packed messages of a kind."""
        facts, bounds, wanted = self.ring.facts, self.ring.bounds, list(names)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = {name: _column(batch, name) for name in wanted}
                outbox = {kind: begin(facts, columns)}
                for to, _, packed in deliver(bounds, outbox):
                    yield from pack_rows(to, 0, False, kind, packed)

        return table.select(*names).mapInArrow(run, ROWS)


def _column(batch: pa.RecordBatch, name: str) -> np.ndarray:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name}: has NULLs; messages and state have none")
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.str_) if values.dtype == object else values


def _payload(messages: DataFrame, address: Sequence[str]) -> list[str]:
    """Return the payload columns of messages, after a check of their names and types."""
    payload = [name for name in messages.columns if name not in address]
    taken = sorted(name for name in payload if name.lower() in OWN)
    if taken:
        raise ValueError(f"columns {listed(taken)} are the overlay's own; rename them")
    _check_types(messages.select(*payload).schema)
    return payload


def _check_types(schema: StructType) -> None:
    for field in schema:
        kind = field.dataType
        number = isinstance(kind, NumericType) and not isinstance(kind, DecimalType)
        if not number and not isinstance(kind, BooleanType | StringType):
            found = kind.simpleString()
            raise ValueError(f"column {field.name}: {found}; a number, BOOLEAN or STRING would do")


#: Names that no table of an application's state can have: the tables of messages and of the
#: overlay's knowledge have them.
_TAKEN = frozenset({MESSAGE, "leaf sets", "routing tables", "neighbours"})


def _state(application: Application) -> dict[str, StructType]:
    """Return the columns of the tables of an application's state after a check."""
    tables: dict[str, StructType] = {}
    for name, columns in application.state.items():
        if name in _TAKEN or name.startswith(OUTCOMES):
            raise ValueError(f"state {name}: is the overlay's own name; rename it")
        schema = tables[name] = cast(StructType, StructType.fromDDL(columns))
        if "node" not in schema.names or schema["node"].dataType != _BIGINT:
            raise ValueError(f"state {name}: has no column node BIGINT")
        _check_types(schema)
    return tables


def _empty(tables: Mapping[str, StructType]) -> dict[str, Columns]:
    def column(kind: DataType) -> np.ndarray:
        text = isinstance(kind, StringType)
        return np.empty(0, dtype=np.str_ if text else to_arrow_type(kind).to_pandas_dtype())

    return {
        name: {field.name: column(field.dataType) for field in schema}
        for name, schema in tables.items()
    }
