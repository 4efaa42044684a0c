"""The clock and its kernels exchange messages, timers and commands; a kernel reads their events.

Rules: docs/rules.md, K1 to K5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE

#: The `sender` of timers and of commands; commands come first.
TIMER, COMMAND = NONE, -2

#: The commands of a round: a member comes; a node fails; a node or a member leaves; a member
#: refreshes what it knows; a source publishes.  Kernels of groups have these commands.
COMMANDS_OF_GROUPS = ARRIVE, FAIL, LEAVE, REFRESH, PUBLISH = (
    *("arrive", "fail", "leave", "refresh", "publish"),
)

#: The kind of message that the clock returns to the sender of a message to a dead node.
DOWN = "down"

#: A column of an event: its name, or its name and its width; a wide one has two dimensions.
Column = str | tuple[str, int]


@dataclass(frozen=True)
class Control:
    """A kind of message without payload: links need no time for it but the delay.

    If it `announces` a publication, the first column is ``publication``.
    """

    columns: tuple[Column, ...] = ()
    bytes: int = 64
    announces: bool = False


@dataclass(frozen=True)
class Payload:
    """A kind of message that is a copy of a publication: it waits for uplinks and downlinks.

    ``round`` is the number of hops to the sender.
    """

    columns: tuple[Column, ...] = ("publication", "round")


# --- the rows of events: int32, of which the first two are one time

NODE, SENDER, KIND, ROOM, FIELDS = 2, 3, 4, 5, 6


def times(rows: np.ndarray) -> np.ndarray:
    """Return the times (us) of packed rows: a view, int64."""
    return rows.view(np.int64)[:, 0]


class ClockEvents:
    """Events of one kind at different places: time, node and room of each, and who sent it.

    `place` is the index of the place (a node in a room, which is a group) in its bucket; `sender`
    may be :data:`TIMER` or :data:`COMMAND`.
    """

    def __init__(
        self, rows: np.ndarray, place: np.ndarray, columns: Mapping[str, int | slice]
    ) -> None:
        self._rows, self._columns, self.place = rows, columns, place
        self.node, self.sender, self.room = rows[:, NODE], rows[:, SENDER], rows[:, ROOM]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def time_us(self) -> np.ndarray:
        return times(self._rows)

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a column of the messages, timers or commands, by its name."""
        return self._rows[:, self._columns[name]]

    def take(self, index: np.ndarray) -> ClockEvents:
        """Return some of the events, by indices or by a mask."""
        if index.dtype == bool:
            (index,) = index.nonzero()
        return ClockEvents(self._rows.take(index, axis=0), self.place.take(index), self._columns)

    def pick(self, seed: int, purpose: str, members: np.ndarray) -> np.ndarray:
        """Return one drawn member for each event, :data:`NONE` without members (rule K5).

        `members` (k, m) has the nodes among which each of k events draws; :data:`NONE` is no node.
        """
        if not len(members):
            return members[:, 0]
        drawn = self.draw(seed, purpose, members).argmin(axis=1)
        return members[np.arange(len(members)), drawn]

    def picks(self, seed: int, purpose: str, members: np.ndarray, count: int) -> np.ndarray:
        """Return `count` drawn members of each event, in the order of the draws: (k, `count`)."""
        missing = count - members.shape[1]
        if missing > 0:
            members = np.pad(members, ((0, 0), (0, missing)), constant_values=NONE)
        if not len(members):
            return members[:, :count]
        order = self.draw(seed, purpose, members).argsort(axis=1)[:, :count]
        return np.take_along_axis(members, order, axis=1)

    def draw(self, seed: int, purpose: str, members: np.ndarray) -> np.ndarray:
        """Return the random bits of each member (rule K5): uint64; no node has the greatest."""
        event = draws.bits_np(seed, purpose, self.time_us, self.node, self.sender)
        return np.where(members >= 0, draws.more_bits(event[:, None], members), _LAST)


_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Kinds:
    """The names, numbers and columns of all kinds of events of a kernel."""

    names: tuple[str, ...]
    columns: tuple[dict[str, int | slice], ...]
    payload: np.ndarray  # bool, by number
    announces: np.ndarray  # bool, by number
    width: int

    @classmethod
    def of(cls, kernel: Any) -> Kinds:
        """Return the kinds of events of a kernel, in order: `DOWN`, messages, timers, commands."""
        declared: dict[str, Sequence[Column]] = {DOWN: ()}
        declared |= {name: one.columns for name, one in kernel.messages.items()}
        declared |= {**kernel.timers, **dict.fromkeys(kernel.commands, ("value",))}
        sent = [kernel.messages.get(name) for name in declared]
        payload = [isinstance(one, Payload) for one in sent]
        announces = [isinstance(one, Control) and one.announces for one in sent]
        columns, width = [], FIELDS
        for names in declared.values():
            found: dict[str, int | slice] = {}
            end = FIELDS
            for one in names:
                name, wide = (one, 0) if isinstance(one, str) else one
                found[name] = slice(end, end + wide) if wide else end
                end += max(1, wide)
            columns.append(found)
            width = max(width, end)
        return cls(tuple(declared), tuple(columns), np.array(payload), np.array(announces), width)
