"""The messages that an application has made in a round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import expand, offsets_of, whole_numbers
from scribe_spark.scribe.upcalls import NOTHING

__all__ = ["MessageStore"]

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

    def add(self, messages: pd.DataFrame, contents: pd.DataFrame) -> np.ndarray:
        """New messages; their indices."""
        index = len(self.number) + np.arange(len(messages))
        messages = messages if "since" in messages else messages.assign(since=NOTHING)
        for name in _OWN:
            both = [getattr(self, name), messages[name].to_numpy(dtype=np.int64)]
            setattr(self, name, np.concatenate(both))
        of = contents["message"].to_numpy(dtype=np.int64)
        order = np.argsort(of, kind="stable")
        for name, source in (("numbers", "number"), ("publications", "publication")):
            both = [getattr(self, name), contents[source].to_numpy(dtype=np.int64)[order]]
            setattr(self, name, np.concatenate(both))
        self.lengths = np.concatenate([self.lengths, np.bincount(of, minlength=len(messages))])
        self.offsets = offsets_of(self.lengths)
        return index

    def add_publications(self, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
        """Publications as their sources sent them, those of a group in their order; their indices.

        They have no number but their place among the group's.
        """
        n = len(group)
        first = np.searchsorted(group, group)
        messages = pd.DataFrame({"number": np.arange(n) - first, "start": NOTHING, "floor": -1})
        of = {"message": np.arange(n), "number": np.full(n, -1), "publication": publication}
        return self.add(messages, pd.DataFrame(of))

    def table(self, index: np.ndarray) -> pd.DataFrame:
        """Messages as a table, a row for each."""
        columns = {name: getattr(self, name)[index] for name in _OWN}
        return pd.DataFrame(columns)

    def contents(self, index: np.ndarray) -> pd.DataFrame:
        """Return what messages hold: ``call, number, publication``; a call is one of `index`."""
        call, at = expand(self.offsets[index], self.offsets[index + 1])
        return pd.DataFrame(
            {"call": call, "number": self.numbers[at], "publication": self.publications[at]}
        )
