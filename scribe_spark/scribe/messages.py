"""The messages that an application has made in a round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import expand, offsets_of, whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.packing import count_rows
from scribe_spark.scribe.upcalls import NOTHING

#: Tables of a bucket.
MESSAGES = _MESSAGES, _CONTENTS = "scribe messages", "scribe contents"

#: Columns of messages.
_OWN = ("number", "start", "floor", "since")


@dataclass
class MessageStore:
    """Messages by their index, and what is in them.

    Attributes
    ----------
    number, start, floor, since : ndarray of int64
        As of `upcalls.Emitted`; NOTHING where a message has no start or no since, -1 where it has
        no floor.
    lengths, offsets : ndarray of int64
        How many contents each has, and where they begin in the other two.
    numbers, publications : ndarray of int64
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
        """The messages of a bucket."""
        if _MESSAGES not in tables:
            return cls()
        return cls(**tables[_MESSAGES], **tables.get(_CONTENTS, {}))

    def write(self, tables: Tables) -> None:
        """Write them into the tables of a bucket."""
        own = (*_OWN, "lengths")
        if len(self.number):
            tables[_MESSAGES] = {name: getattr(self, name) for name in own}
        if len(self.numbers):
            names = ("numbers", "publications")
            tables[_CONTENTS] = {name: getattr(self, name) for name in names}

    def own_columns(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """The columns of messages, but what is in them."""
        return {name: getattr(self, name)[index] for name in _OWN}

    def add(self, messages: Columns, contents: Columns) -> np.ndarray:
        """New messages; their indices."""
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
        """Publications as their sources sent them, those of a group in their order; their indices.

        They have no number but their rank among the group's.
        """
        n = len(group)
        number = np.arange(n) - np.searchsorted(group, group)
        messages = {"number": number, "start": np.full(n, NOTHING), "floor": np.full(n, -1)}
        of = {"message": np.arange(n), "number": np.full(n, -1), "publication": publication}
        return self.add(messages, of)

    def add_received(self, messages: Columns, contents: Columns | None) -> np.ndarray:
        """Messages of other buckets, ``origin, message`` of which name them; their indices.

        Parameters
        ----------
        contents : Columns
            ``origin, message, number, publication``: what is in them, in order.
        """
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
        of = np.searchsorted(names, contents["origin"] * span + contents["message"])
        own = {name: messages[name][first] for name in _OWN}
        inside = {"message": of} | {name: contents[name] for name in ("number", "publication")}
        return self.add(own, inside)[which]

    def contents(self, index: np.ndarray) -> Columns:
        """Return what messages hold: ``call, number, publication``; a call is one of `index`."""
        call, at = expand(self.offsets[index], self.offsets[index + 1])
        return {"call": call, "number": self.numbers[at], "publication": self.publications[at]}
