"""Names of publications, and nodes that get one again; counted up to its deadline."""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import find_sorted
from scribe_spark.engine import Tables
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import Got

__all__ = [
    "AGAIN",
    "GOT",
    "SOURCE",
    "SOURCE_BITS",
    "keep_got",
    "note_got",
    "pending_keys",
    "publication_ids",
    "publication_keys",
]

#: Bits of the source's number in the name of a publication, and a mask of them.
SOURCE_BITS = 32
SOURCE = 2**SOURCE_BITS - 1


def publication_ids(number: int, source: np.ndarray) -> np.ndarray:
    """Names of publications to a group: of their round and their source's number."""
    return (np.int64(number) << SOURCE_BITS) | source


def pending_keys(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Numbers of publications whose deadline has not come; negative for others."""
    return publication_keys(scribe, group, publication, scribe.number - scribe.rules.deadline)


def publication_keys(
    scribe: Scribe, group: np.ndarray, publication: np.ndarray, since: int
) -> np.ndarray:
    """Numbers of publications from a round on, each another one; negative for older ones."""
    numbers = _numbers(scribe)
    age = (publication >> SOURCE_BITS) - since
    keys = (age * len(scribe.groups) + group) * numbers + (publication & SOURCE)
    return np.where(age >= 0, keys, -1)


def _numbers(scribe: Scribe) -> int:
    return int(scribe.ring.node.max()) + 1


#: Tables of who has had what in a round (``key``, ascending), and of duplicates at members
#: (``group, publication``).
GOT, AGAIN = "scribe got now", "scribe again"


def note_got(
    scribe: Scribe, tables: Tables, group: np.ndarray, node: np.ndarray, publication: np.ndarray
) -> None:
    """Nodes got publications, each pair once; members that had one already are counted."""
    if GOT in tables:
        got = tables[GOT]["key"]
    else:
        old = scribe.state.got
        keys = pending_keys(scribe, old.group, old.publication)
        got = np.sort((keys * scribe.state.size + old.node)[keys >= 0])
    keys = pending_keys(scribe, group, publication)
    young = keys >= 0
    group, node, publication = group[young], node[young], publication[young]
    keys = keys[young] * scribe.state.size + node
    again = find_sorted(got, keys) >= 0
    twice = np.flatnonzero(again)
    entries = scribe.state.entries
    twice = twice[entries.member[scribe.entry(group[twice], node[twice])]]
    scribe.note(AGAIN, group=group[twice], publication=publication[twice])
    new = np.sort(keys[~again])
    tables[GOT] = {"key": np.insert(got, np.searchsorted(got, new), new)}


def keep_got(scribe: Scribe, tables: Tables) -> None:
    """Write who has had what into the state, for the next round."""
    if GOT not in tables:
        return
    numbers = _numbers(scribe)
    keys, node = scribe.split(tables[GOT]["key"])
    keys, source = np.divmod(keys, numbers)
    age, group = np.divmod(keys, len(scribe.groups))
    publication = publication_ids(scribe.number - scribe.rules.deadline, source)
    publication += age << SOURCE_BITS
    kept = age > 0
    scribe.state.got = Got(group[kept], node[kept], publication[kept])
    del tables[GOT]
