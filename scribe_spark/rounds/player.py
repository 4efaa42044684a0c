"""The player of a round's programs, with the environment of nodes; counts of messages and values.

A message is counted by kind in the bucket of its sender; dead nodes that messages met are recorded.
For each measured value, a bucket counts the things (nodes, groups, deliveries) that have it, so the
sums over buckets are integers that do not depend on the number of buckets.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import shown
from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.engine import Columns, Program, Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.on_spark import OnSpark, SharedInFiles
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.player import Player
from scribe_spark.engine.program import Prefixed, append, prefixed
from scribe_spark.rounds.events import KnowsLives, Lives, is_node
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:
    from scribe_spark.config.overlay import OverlayConfig
    from scribe_spark.config.rounds import RoundsConfig


# --- counts of messages


#: Returns the senders and receivers (positions) of messages; called only if they are recorded.
Between = Callable[[], tuple[np.ndarray, np.ndarray]]

#: Returns the groups (indices) of messages, NONE for those of no group; called only if they are
#: recorded.
Groups = Callable[[], np.ndarray]

#: Returns the sizes of messages in bytes, NONE for the usual size of their kind; called only if
#: senders and receivers are recorded.
Sizes = Callable[[], np.ndarray]

#: The table of counts, with a row for each kind: ``messages`` and ``lost``.
MESSAGES = "messages"

#: The prefix of the tables of senders and receivers (``kind``, ``sender``, ``to``; in a run also
#: ``group``, ``messages``; of messages with sizes of their own also ``bytes``).  They are called
#: ``traffic 0``, ``traffic 1`` and so on: no table is rewritten.
TRAFFIC = "traffic"

#: The table of dead nodes that nodes of the bucket met: pairs ``node``, ``dead``, perhaps repeated.
FOUND = "found dead"


@dataclass(frozen=True)
class Observer:
    """Counts the messages of a bucket's nodes by kind; may record senders, receivers and groups.

    `kinds` are all kinds of messages.  `recorded` are the kinds whose senders and receivers are
    recorded and, with `groups`, also the groups.
    """

    kinds: tuple[str, ...]
    recorded: tuple[str, ...] = ()
    groups: bool = False

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return {kind: index for index, kind in enumerate(self.kinds)}

    def count(
        self,
        tables: Tables,
        kind: str,
        messages: int | np.integer,
        lost: int | np.integer = 0,
        *,
        between: Between,
        groups: Groups | None = None,
        times: np.ndarray | None = None,
        sizes: Sizes | None = None,
    ) -> None:
        """Count `messages` of a kind that a bucket's nodes send; `lost` of them meet a dead node.

        The function `between` returns the sender and the receiver of each message, in any order;
        `groups` returns the groups of these messages, by default NONE.  If only groups are
        recorded, rows may stand for several messages: `times` has their numbers.  `sizes` returns
        the sizes of these messages in bytes, if they have sizes of their own.
        """
        if kind not in self._index:
            raise ValueError(f"{shown(kind)} is not among the kinds of messages")
        if not (messages or lost):
            return
        counts = np.zeros((2, len(self.kinds)), dtype=np.int64)
        if MESSAGES in tables:
            counts += tables[MESSAGES]["messages"], tables[MESSAGES]["lost"]
        counts[:, self._index[kind]] += int(messages), int(lost)
        tables[MESSAGES] = {"messages": counts[0], "lost": counts[1]}
        if messages and kind in self.recorded:
            sender, to = ends_of(kind, messages if times is None else len(times), between)
            more: dict[str, np.ndarray] = {}
            if self.groups:
                group = np.full(len(sender), NONE) if groups is None else groups()
                more["group"] = group.astype(np.int32)
                more["messages"] = np.ones(len(sender), dtype=np.int32) if times is None else times
            if sizes is not None:
                more["bytes"] = sizes()
            self.record(tables, kind, sender, to, **more)

    def record(
        self, tables: Tables, kind: str, sender: np.ndarray, to: np.ndarray, **more: np.ndarray
    ) -> None:
        """Record senders and receivers of messages of a kind in a new table :data:`TRAFFIC`."""
        before = sum(name.startswith(f"{TRAFFIC} ") for name in tables)
        tables[f"{TRAFFIC} {before}"] = {
            "kind": np.full(len(sender), self._index[kind], dtype=np.int8),
            "sender": sender.astype(np.int32),
            "to": to.astype(np.int32),
            **more,
        }

    def send(
        self,
        tables: Tables,
        kind: str,
        arrives: np.ndarray,
        sender: np.ndarray,
        to: np.ndarray,
        group: np.ndarray | None = None,
        times: np.ndarray | None = None,
        size: np.ndarray | None = None,
    ) -> None:
        """Count a message of a kind for each element of `arrives`; False marks a lost message.

        `times` has the number of messages that each row stands for, if no message is lost; `size`
        are the sizes in bytes, by default those of kinds.
        """
        lost = arrives.size - np.count_nonzero(arrives)
        messages = arrives.size if times is None else int(times.sum())
        groups = None if group is None else lambda: group
        sizes = None if size is None else lambda: size
        between = sender, to
        self.count(
            *(tables, kind, messages, lost),
            between=lambda: between,
            groups=groups,
            times=times,
            sizes=sizes,
        )

    def meet(self, tables: Tables, node: np.ndarray, dead: np.ndarray) -> None:
        """Record that live nodes of a bucket met dead nodes; both are positions."""
        if len(node):
            append(tables, FOUND, {"node": node, "dead": dead})


def ends_of(
    kind: str, messages: int | np.integer, between: Between
) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and the receivers of `messages`; refuse other numbers of them."""
    sender, to = between()
    if not len(sender) == len(to) == messages:
        raise ValueError(f"{messages} {kind}, from {len(sender)} nodes to {len(to)}")
    return sender, to


def both_ways(asker: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the senders and receivers of questions, followed by those of their answers."""
    return np.r_[asker, asked], np.r_[asked, asker]


def counted(table: Columns, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the messages and the lost messages by kind, from all buckets' :data:`MESSAGES`."""
    sums = [table[name].reshape(-1, kinds).sum(axis=0) for name in ("messages", "lost")]
    return sums[0], sums[1]


class Tally:
    """The number of messages of each kind in a round; ``lost KIND`` are those that met a dead node.

    `kinds` are the kinds that are counted; buckets record the senders and receivers of those in
    `recorded` and, with `groups`, also the groups of messages.
    """

    def __init__(
        self, kinds: tuple[str, ...], recorded: tuple[str, ...] = (), groups: bool = False
    ) -> None:
        self.kinds, self._recorded, self._groups = kinds, recorded, groups
        self._counts: Counter[str] = Counter()

    @property
    def observer(self) -> Observer:
        """The observer that counts these kinds in buckets; :meth:`take` adds its counts here."""
        return Observer(self.kinds, self._recorded, self._groups)

    def take(self, taken: Mapping[str, Columns]) -> None:
        """Add the counts of all buckets, from their tables `MESSAGES` in `taken`."""
        if MESSAGES in taken:
            sums = counted(taken[MESSAGES], len(self.kinds))
            for kind, messages, lost in zip(self.kinds, *sums, strict=True):
                self._counts[kind] += int(messages)
                self._counts[f"lost {kind}"] += int(lost)

    def by_kind(self) -> dict[str, int]:
        """Return the number of messages by kind, without kinds that did not occur."""
        return {kind: count for kind, count in sorted(self._counts.items()) if count}


class Counts:
    """Histograms of a bucket by name: how many things (nodes, groups, ...) have each value."""

    def __init__(self) -> None:
        self._parts: list[Columns] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Add the number of times that each whole number occurs in `values` to a histogram."""
        self.add_counts(name, *np.unique(values, return_counts=True))

    def add_counts(self, name: str, values: np.ndarray, counts: np.ndarray) -> None:
        """Add ``counts[i]`` things with the whole number ``values[i]`` to a histogram."""
        if len(values):
            value, count = values.astype(np.int64), counts.astype(np.int64)
            names = np.full(len(values), name)
            self._parts.append({"name": names, "value": value, "count": count})

    def add_total(self, name: str, count: int | np.integer) -> None:
        """Add `count` things with the value 0 to a histogram in which only their number matters."""
        self.add_counts(name, np.zeros(min(int(count), 1), np.int64), np.array([count]))

    def columns(self) -> dict[str, np.ndarray]:
        """Return all histograms as rows ``name, value, count``; no columns if there are no rows."""
        return concatenate(self._parts) if self._parts else {}


class Counted:
    """The histograms of all buckets, summed, from the rows of :meth:`Counts.columns`."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def total(self, name: str) -> int:
        """Return the number of things in a histogram, whatever their value."""
        return int(self.histogram(name).counts.sum())

    def by_value(self, name: str) -> dict[int, int]:
        """Return a histogram as a dict: value -> number of things, sorted by value."""
        found = self.histogram(name)
        return dict(zip(found.values.astype(int).tolist(), found.counts.tolist(), strict=True))

    def histogram(self, name: str) -> Histogram:
        """Return the histogram with a name, summed over buckets."""
        if not self._columns:
            return Histogram()
        named = self._columns["name"] == name
        return add_counts(self._columns["value"][named], self._columns["count"][named])


# --- the player


@dataclass(frozen=True)
class Environment:
    """The knowledge of all programs: nodes, lives, the network and the config's rules."""

    facts: KnowsRing  # all nodes, also those that arrive later
    bounds: np.ndarray  # int64, shape (B + 1,)
    rules: OverlayConfig  # of arrivals
    kernel: Kernel
    observer: Observer
    lives: KnowsLives | None = None  # in a world; None if all nodes are alive
    seed: int = 0  # of random draws
    world: RoundsConfig | None = None  # the rules of detection, repair and maintenance

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Return True for positions (an array of any shape) of live nodes; NONE is False."""
        return is_node(positions) if self.lives is None else self.lives.is_alive(positions)

    @property
    def world_rules(self) -> RoundsConfig:
        """The config's rules of detection, repair and maintenance; only in a world."""
        assert self.world is not None, "not a world"
        return self.world

    @property
    def in_round(self) -> KnowsLives:
        """The lives of all nodes; only in a world."""
        assert self.lives is not None, "not a world"
        return self.lives


class BucketPlayer:
    """A player of programs on buckets that also have tables of other protocols.

    The names of a program's tables begin with `prefix`; it also reads the tables `reads` of other
    protocols, and writes those in `shares`.  The methods are those of `engine.player.Player`.
    """

    def __init__(
        self,
        engine: Player,
        prefix: str = "",
        reads: tuple[str, ...] = (),
        shares: tuple[str, ...] = (),
    ) -> None:
        self.engine, self._prefix, self._reads, self._shares = engine, prefix, reads, shares

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        return self.engine.play(self._own(program), first)

    def _own(self, program: Program) -> Program:
        if not self._prefix:
            return program
        return Prefixed(program, self._prefix, self._reads, self._shares)

    def _full(self, name: str) -> str:
        return prefixed(name, self._prefix, self._reads + self._shares)

    def has(self, name: str) -> bool:
        return self.engine.has(self._full(name))

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        return self._named(self.engine.take(*(self._prefix + name for name in names)))

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        return self._named(self.engine.gather(*(self._prefix + name for name in names)))

    def _named(self, tables: dict[str, dict[str, np.ndarray]]) -> dict[str, dict[str, np.ndarray]]:
        return {name.removeprefix(self._prefix): columns for name, columns in tables.items()}

    def forget(self, match: Callable[[str], bool]) -> None:
        prefix = self._prefix
        self.engine.forget(
            lambda name: name.startswith(prefix) and match(name.removeprefix(prefix))
        )


class RoundPlayer(BucketPlayer):
    """The player of an orchestrator's programs in a round, with the lives of all nodes.

    The orchestrator sees of the nodes' tables only what it takes or gathers.  It changes the lives
    of all nodes between programs; `lives` is None if all nodes are alive and there are no rounds.
    """

    def __init__(
        self, engine: Player, environment: Environment, lives: Lives | None = None
    ) -> None:
        super().__init__(engine)
        self._environment, self._lives = environment, lives
        self._shared: list[SharedInFiles] = []
        self._changes = -1

    @property
    def lives(self) -> Lives:
        """The lives of all nodes, which the orchestrator may change; only in a world."""
        assert self._lives is not None, "not a world"
        return self._lives

    @property
    def environment(self) -> Environment:
        """The environment of nodes as it is now; a program that is made now should get it."""
        if self._lives is None:
            return self._environment
        if self._changes != self.lives.changes:
            self._changes = self.lives.changes
            shared = self.engine.share(**self.lives.arrays())
            if isinstance(shared, SharedInFiles):
                self._shared.append(shared)
                self._environment = replace(self._environment, lives=_LivesInFiles(shared))
            else:
                self._environment = replace(self._environment, lives=self.lives)
        return self._environment

    def begin_round(self, number: int) -> None:
        """Begin round `number`, and free data that only the previous round needed."""
        self.engine.begin_round(number)
        for old in self._shared[:-1]:
            assert isinstance(self.engine, OnSpark)
            self.engine.free(old)
        del self._shared[:-1]

    def observe(self, *, traffic: bool) -> None:
        """Set whether programs record senders and receivers of messages from now on."""
        observer = self._environment.observer
        observer = replace(observer, recorded=observer.kinds if traffic else ())
        self._environment = replace(self._environment, observer=observer)

    def release(self) -> None:
        """See `engine.player.Player`."""
        self.engine.release()


@dataclass(frozen=True)
class _LivesInFiles(KnowsLives):
    """The lives of all nodes in files of each machine, for jobs on Spark."""

    shared: SharedInFiles

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in KnowsLives.__annotations__:
            raise AttributeError(name)
        return self.shared[name]

    @functools.lru_cache(maxsize=4)  # noqa: B019  (there are few handles)
    def known_dead(self, number: int) -> np.ndarray:
        """See `KnowsLives.known_dead`."""
        return super().known_dead(number)
