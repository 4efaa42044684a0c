"""An overlay: nodes that route messages towards keys; its users pass and get DataFrames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

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
from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing, read_typed
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows
from scribe_spark.engine.player import Player
from scribe_spark.engine.program import AT, deliver
from scribe_spark.overlay.route import (
    MESSAGE,
    OUTCOMES,
    OWN,
    Application,
    NextHop,
    Route,
    Send,
    starting,
)
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import release, union_tables
from scribe_spark.underlay.protocol import Underlay, node_delays

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

    def routing(
        self, application: Application, payload: Sequence[str] = (), rule: NextHop | None = None
    ) -> Route:
        """Return the program that routes an application's messages over this overlay.

        Parameters
        ----------
        application : Application
            The application whose upcalls the program calls.
        payload : sequence of str
            The columns of the application's messages, besides those of the overlay.
        rule : NextHop, optional
            A rule of routing in place of :attr:`rule`.
        """
        ring, underlay = self.ring, self.underlay
        return Route(
            *(ring.bounds, ring.facts, application, tuple(payload), _empty(_state(application))),
            *(rule or self.rule, underlay.kernel, underlay.lan_us),
        )

    def starting(self, messages: DataFrame, payload: Sequence[str] = ()) -> DataFrame:
        """Return the messages of a table in the packed form that :meth:`routing` reads.

        The result is computed when it is read.

        Parameters
        ----------
        messages : DataFrame
            ``node, key_hi, key_lo`` and payload; messages at unknown nodes are lost.
        """
        names = tuple(payload)

        def begin(facts: Facts, columns: Columns) -> Columns:
            return starting(facts, columns, names)

        return self._packed(MESSAGE, messages, ["node", "key_hi", "key_lo", *names], begin)

    def route(
        self,
        application: Application,
        messages: DataFrame,
        *,
        state: Mapping[str, DataFrame] | None = None,
        rule: NextHop | None = None,
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
        rule : NextHop, optional
            A rule of routing in place of :attr:`rule`.

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
        payload = _payload(messages, ["node", "key_hi", "key_lo"])
        schema = [("node", _BIGINT), ("next", _BIGINT), ("key_hi", _BIGINT), ("key_lo", _BIGINT)]
        way = [("start", _BIGINT), ("hops", IntegerType()), ("delay_us", _BIGINT)]
        fields = [StructField(*one) for one in schema]
        fields += [one for one in messages.schema if one.name in payload]
        fields += [StructField(*one) for one in (*way, ("direct_us", _BIGINT))]
        program = self.routing(application, payload, rule)
        first = self.starting(messages, payload)
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
    return {
        name: {field.name: np.empty(0, dtype=_numpy_type(field.dataType)) for field in schema}
        for name, schema in tables.items()
    }


def _numpy_type(kind: DataType) -> np.dtype:
    text = isinstance(kind, StringType)
    return np.dtype(np.str_ if text else to_arrow_type(kind).to_pandas_dtype())
