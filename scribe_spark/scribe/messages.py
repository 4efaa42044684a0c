"""The messages that an application created in a round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import expand, index_sorted, offsets_of, whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import count_rows
from scribe_spark.scribe.upcalls import NOTHING

#: The tables of a bucket with the messages and their contents.
MESSAGES = _MESSAGES, _CONTENTS = "scribe messages", "scribe contents"

#: Columns of messages.
_OWN = ("number", "start", "floor", "since")


@dataclass
class MessageStore:
    """Messages by index, with their contents.

    `start` and `since` are NOTHING if unset, `floor` is -1 if unset.  Message i has ``lengths[i]``
    contents, which begin at ``offsets[i]`` in the last two arrays.
    """

    number: np.ndarray = field(default_factory=whole_numbers)
    start: np.ndarray = field(default_factory=whole_numbers)
    floor: np.ndarray = field(default_factory=whole_numbers)
    since: np.ndarray = field(default_factory=whole_numbers)
    lengths: np.ndarray = field(default_factory=whole_numbers)
    numbers: np.ndarray = field(default_factory=whole_numbers)
    publications: np.ndarray = field(default_factory=whole_numbers)

    def __post_init__(self) -> None:
        self.offsets = offsets_of(self.lengths)

    @classmethod
    def read(cls, tables: Tables) -> MessageStore:
        """Return the messages of a bucket."""
        if _MESSAGES not in tables:
            return cls()
        return cls(**tables[_MESSAGES], **tables.get(_CONTENTS, {}))

    def write(self, tables: Tables) -> None:
        """Store the messages in the tables of a bucket."""
        own = (*_OWN, "lengths")
        if len(self.number):
            tables[_MESSAGES] = {name: getattr(self, name) for name in own}
        if len(self.numbers):
            names = ("numbers", "publications")
            tables[_CONTENTS] = {name: getattr(self, name) for name in names}

    def own_columns(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of messages without their contents."""
        return {name: getattr(self, name)[index] for name in _OWN}

    def add(self, messages: Columns, contents: Columns) -> np.ndarray:
        """Add messages; return their indices."""
        n = count_rows(messages)
        index = len(self.number) + np.arange(n)
        messages = {"since": np.full(n, NOTHING), **messages}
        for name in _OWN:
            setattr(self, name, np.concatenate([getattr(self, name), messages[name]]))
        of = contents["message"]
        order = np.argsort(of, kind="stable")
        for name, source in (("numbers", "number"), ("publications", "publication")):
            setattr(self, name, np.concatenate([getattr(self, name), contents[source][order]]))
        self.lengths = np.concatenate([self.lengths, np.bincount(of, minlength=n)])
        self.offsets = offsets_of(self.lengths)
        return index

    def add_publications(self, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
        """Add one message per publication, in order within a group; return their indices.

        The number of such a message is its rank among the group's publications.
        """
        n = len(group)
        number = np.arange(n) - np.searchsorted(group, group)
        messages = {"number": number, "start": np.full(n, NOTHING), "floor": np.full(n, -1)}
        of = {"message": np.arange(n), "number": np.full(n, -1), "publication": publication}
        return self.add(messages, of)

    def add_received(self, messages: Columns, contents: Columns | None) -> np.ndarray:
        """Add messages of other buckets, known by ``origin, message``; return their indices."""
        if contents is None:
            nothing = np.empty(0, dtype=np.int64)
            columns = ("origin", "message", "number", "publication")
            contents = dict.fromkeys(columns, nothing)
        span = 1 + max(part["message"].max(initial=0) for part in (messages, contents))
        names, first, which = np.unique(
            messages["origin"] * span + messages["message"],
            return_index=True,
            return_inverse=True,
        )
        of = index_sorted(names, contents["origin"] * span + contents["message"])
        own = {name: messages[name][first] for name in _OWN}
        inside = {"message": of} | {name: contents[name] for name in ("number", "publication")}
        return self.add(own, inside)[which]

    def contents(self, index: np.ndarray) -> Columns:
        """Return ``call, number, publication`` of contents; calls are positions in `index`."""
        call, at = expand(self.offsets[index], self.offsets[index + 1])
        return {"call": call, "number": self.numbers[at], "publication": self.publications[at]}
