"""Programs: the interface between a protocol and the engine.

A bucket is an interval of the ring: the positions from its first node to the next bucket's first
node.  In a superstep a bucket receives the messages to its nodes (the inbox), changes its tables,
and returns messages (the outbox), each addressed to the ring position of a node.

References
----------
G. Malewicz et al.: Pregel: a system for large-scale graph processing, SIGMOD 2010.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from scribe_spark.engine.packing import Columns, concatenate, count_rows, take

#: With more bounds than these, positions are searched; else they are compared with each bound.
_MANY_BUCKETS = 33

#: With more bounds than these, messages are sorted by bucket; else each bucket looks for its own.
_FEW_BUCKETS = 5

#: The column of a message with the ring position of the receiving node.
AT = "at"

#: Messages by kind.
Inbox = Mapping[str, Columns]
Outbox = Mapping[str, Columns]


class Tables(MutableMapping[str, Columns]):
    """The tables of a bucket by name, each read by a function at its first use."""

    def __init__(self, readers: Mapping[str, Callable[[], Columns]] | None = None) -> None:
        self._readers = dict(readers or {})
        self._read: dict[str, Columns] = {}
        self.changed: dict[str, Columns] = {}

    @classmethod
    def of(cls, columns: Mapping[str, Columns]) -> Tables:
        """Return an object with tables given as name -> columns; none counts as changed."""
        return cls({name: functools.partial(_given, one) for name, one in columns.items()})

    def __getitem__(self, name: str) -> Columns:
        if name not in self._read:
            self._read[name] = self._readers[name]()
        return self._read[name]

    def __setitem__(self, name: str, columns: Columns) -> None:
        self._readers[name] = lambda: columns
        self._read[name] = self.changed[name] = columns

    def __delitem__(self, name: str) -> None:
        del self._readers[name]
        self._read.pop(name, None)
        self.changed.pop(name, None)

    def put_away(self, name: str, reader: Callable[[], Columns]) -> None:
        """Read a table by `reader` from now on, which counts as unchanged."""
        del self[name]
        self._readers[name] = reader

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def has_rows(self, name: str) -> bool:
        """Return True if the table exists and has rows."""
        return name in self and count_rows(self[name]) > 0


def _given(columns: Columns) -> Columns:
    return columns


def append(tables: Tables, name: str, *parts: Columns) -> None:
    """Append rows (`parts`) to a bucket's table; create the table if it does not exist."""
    before = [tables[name]] if name in tables else []
    tables[name] = concatenate([*before, *parts])


def take_tables(tables: Tables, prefix: str) -> list[Columns]:
    """Remove and return all tables with a name made of `prefix`, a space and a number."""
    return [tables.pop(name) for name in list(tables) if name.startswith(f"{prefix} ")]


class Program(Protocol):
    """A protocol step that is played superstep by superstep until no node sends."""

    @property
    def bounds(self) -> np.ndarray: ...

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Play one superstep of a bucket: change its tables and return the messages it sends.

        The result must not depend on the order of messages of the same kind.
        """


class SilentProgram:
    """The base class of programs that send nothing; a subclass defines :meth:`change`."""

    silent: ClassVar[bool] = True

    def change(self, bucket: int, tables: Tables) -> None:
        """Change the tables of a bucket."""
        raise NotImplementedError

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        self.change(bucket, tables)
        return {}


@dataclass(frozen=True)
class Together:
    """Several programs with different tables that are played in the same supersteps."""

    programs: tuple[Program, ...]

    @property
    def bounds(self) -> np.ndarray:
        return self.programs[0].bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        outbox: dict[str, Columns] = {}
        for index, program in enumerate(self.programs):
            came = messages_to(index, inbox)
            if came or not superstep:
                sent = program.step(bucket, tables, came, superstep)
                outbox |= {f"{index} {kind}": columns for kind, columns in sent.items()}
        return outbox


@dataclass(frozen=True)
class InTurn:
    """A program that plays superstep 0 of several programs; all but the last one are silent.

    The kinds of messages to a program begin with the program's index.
    """

    programs: tuple[Program, ...]

    @property
    def bounds(self) -> np.ndarray:
        return self.programs[0].bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        outbox: Outbox = {}
        for index, program in enumerate(self.programs):
            outbox = program.step(bucket, tables, messages_to(index, inbox), 0)
            if is_silent(program) and any(map(count_rows, outbox.values())):
                raise RuntimeError(f"{name_of(program)} is declared silent, and sends")
        return outbox


def messages_to(index: int, inbox: Inbox) -> Inbox:
    """Return the messages to the program with an index: kinds that begin with it, without it."""
    prefix = f"{index} "
    return {
        kind.removeprefix(prefix): columns
        for kind, columns in inbox.items()
        if kind.startswith(prefix)
    }


class PrefixedTables(Tables):
    """The tables of a protocol in a bucket, by names without the protocol's prefix.

    Tables in `reads` (read only) and `shares` have no prefix.
    """

    def __init__(
        self, tables: Tables, prefix: str, reads: tuple[str, ...] = (), shares: tuple[str, ...] = ()
    ) -> None:
        self._tables, self._prefix, self._reads, self._shares = tables, prefix, reads, shares

    def _full(self, name: str) -> str:
        return prefixed(name, self._prefix, self._reads + self._shares)

    def __getitem__(self, name: str) -> Columns:
        return self._tables[self._full(name)]

    def __setitem__(self, name: str, columns: Columns) -> None:
        if name in self._reads:
            raise RuntimeError(f"{name} is read only")
        self._tables[self._full(name)] = columns

    def __delitem__(self, name: str) -> None:
        if name in self._reads:
            raise KeyError(name)
        del self._tables[self._full(name)]

    def __contains__(self, name: object) -> bool:
        return self._full(f"{name}") in self._tables

    def __iter__(self) -> Iterator[str]:
        prefix = self._prefix
        return (name.removeprefix(prefix) for name in self._tables if name.startswith(prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def prefixed(name: str, prefix: str, others: tuple[str, ...]) -> str:
    """Return the full name of a protocol's table; the names in `others` get no prefix."""
    return name if name in others else prefix + name


@dataclass(frozen=True)
class Prefixed:
    """A program whose table names get a prefix; see `PrefixedTables` for `reads` and `shares`."""

    program: Program
    prefix: str
    reads: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()

    @property
    def bounds(self) -> np.ndarray:
        return self.program.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        own = PrefixedTables(tables, self.prefix, self.reads, self.shares)
        return self.program.step(bucket, own, inbox, superstep)


def is_silent(program: Program) -> bool:
    """Return True if a program declares by an attribute `silent` that it never sends."""
    if isinstance(program, Prefixed):
        return is_silent(program.program)
    if isinstance(program, Together):
        return all(map(is_silent, program.programs))
    return getattr(program, "silent", False)


def name_of(program: Program) -> str:
    """Return the name of a program for progress lines: ``EndRound, LiveRoute`` if together."""
    if isinstance(program, Prefixed):
        return program.prefix + name_of(program.program)
    if isinstance(program, Together):
        return ", ".join(name_of(one) for one in program.programs)
    return type(program).__name__.strip("_")


def step_of(program: Program) -> str:
    """Return the name of a program with that of its system, or of its package, for errors."""
    if isinstance(program, Prefixed):  # the prefix is that of the system
        return name_of(program)
    one = program.programs[0] if isinstance(program, Together) else program
    package = type(one).__module__.removeprefix("scribe_spark.").partition(".")[0]
    return f"{package} {name_of(program)}"


def bucket_of(bounds: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the bucket of each position by the `bounds` (B + 1,) of buckets: int64."""
    if len(bounds) > _MANY_BUCKETS:
        return np.searchsorted(bounds[1:-1], position, side="right")
    bucket = np.zeros(position.shape, dtype=np.int64)
    for first in bounds[1:-1].tolist():  # a comparison takes a tenth of the time of a search
        bucket += position >= first
    return bucket


def in_bucket(bounds: np.ndarray, bucket: int, position: np.ndarray) -> np.ndarray:
    """Return True for each position that is in a bucket; `bounds` as in :func:`bucket_of`."""
    first, last = bounds[bucket : bucket + 2].tolist()
    return (position >= first) & (position < last)


def once_a_bucket(bounds: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the messages that send each row of a table once to each bucket with its receivers.

    `positions`, shape (m, k), has the receivers of each row; -1 is none.  The first result has the
    row of each message, the second its address: the row's greatest receiver in the bucket.
    """
    if len(bounds) == 2:
        greatest = positions.max(axis=1, initial=-1)
        row = np.flatnonzero(greatest >= 0)
        return row, greatest[row].astype(np.int64)
    rows, at = [], []
    for bucket in range(len(bounds) - 1):
        greatest = np.where(in_bucket(bounds, bucket, positions), positions, -1)
        greatest = greatest.max(axis=1, initial=-1)
        rows.append(np.flatnonzero(greatest >= 0))
        at.append(greatest[rows[-1]].astype(np.int64))
    return np.concatenate(rows), np.concatenate(at)


def deliver(bounds: np.ndarray, outbox: Outbox) -> Iterator[tuple[int, str, dict]]:
    """Split an outbox by the buckets of the receivers; yield (bucket, kind, columns)."""
    for kind, columns in outbox.items():
        if not count_rows(columns):
            continue
        if len(bounds) == 2:
            yield 0, kind, dict(columns)
            continue
        for to, rows in _by_bucket(bounds, columns[AT]):
            yield to, kind, take(columns, rows)


def _by_bucket(bounds: np.ndarray, position: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each bucket that has positions, and the indices of these positions, ascending."""
    to = bucket_of(bounds, position)
    if len(bounds) <= _FEW_BUCKETS:
        found = ((bucket, np.flatnonzero(to == bucket)) for bucket in range(len(bounds) - 1))
        yield from ((bucket, rows) for bucket, rows in found if len(rows))
        return
    order = np.argsort(to.astype(np.int16), kind="stable")
    cuts = np.flatnonzero(np.diff(to[order])) + 1
    for rows in np.split(order, cuts):
        yield int(to[rows[0]]), rows


def merge_inbox(parts: Iterable[tuple[int, str, Columns]]) -> dict[str, dict[str, np.ndarray]]:
    """Return the messages of several senders by kind, from parts (sender, kind, columns)."""
    kinds: dict[str, list[tuple[int, Columns]]] = {}
    for sender, kind, columns in parts:
        kinds.setdefault(kind, []).append((sender, columns))
    return {
        kind: concatenate([columns for _, columns in sorted(found, key=lambda one: one[0])])
        for kind, found in sorted(kinds.items())
    }
