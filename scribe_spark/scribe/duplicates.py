"""Names of publications, and nodes that get one again; counted up to its deadline."""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, find_sorted, whole_numbers
from scribe_spark.core.keys import key_of, mixed_key
from scribe_spark.engine import Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.scribe.scribe import Scribe

#: Bits of the source's number in the name of a publication, and a mask of them.
SOURCE_BITS = 32
SOURCE = 2**SOURCE_BITS - 1


def publication_ids(number: int | np.ndarray, source: np.ndarray) -> np.ndarray:
    """Names of publications to a group: of their round and their source's number."""
    return (np.asarray(number, dtype=np.int64) << SOURCE_BITS) | source


def pending_keys(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Return numbers of publications whose deadline has not come; negative for others."""
    return publication_keys(scribe, group, publication, scribe.number - scribe.rules.deadline)


def publication_keys(
    scribe: Scribe, group: np.ndarray, publication: np.ndarray, since: int
) -> np.ndarray:
    """Return the numbers of publications from a round on; negative for older ones."""
    age = (publication >> SOURCE_BITS) - since
    parts = age, group, publication & SOURCE
    keys = mixed_key(parts, (len(scribe.groups), _numbers(scribe.ring)))
    return np.where(age >= 0, keys, NONE)


def publications_of(scribe: Scribe, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group and publication of numbers that :func:`publication_keys` gave since round 0."""
    key, source = np.divmod(keys, _numbers(scribe.ring))
    round, group = np.divmod(key, len(scribe.groups))
    return group, publication_ids(round, source)


def _numbers(known: Ring) -> int:
    return int(known.node.max()) + 1


#: Tables of who has had what in a round (``key``, ascending), and of duplicates at members
#: (``group, publication``).  A key is that of the publication (:func:`pending_keys`) and the node.
GOT, AGAIN = "scribe got now", "scribe again"


def note_got(
    scribe: Scribe, tables: Tables, group: np.ndarray, node: np.ndarray, publication: np.ndarray
) -> None:
    """Nodes got publications, each pair once; members that had one already are counted."""
    now = tables[GOT]["key"] if GOT in tables else whole_numbers()
    keys = pending_keys(scribe, group, publication)
    young = keys >= 0
    group, node, publication = group[young], node[young], publication[young]
    keys = key_of([keys[young], node], scribe.state.size)
    again = (find_sorted(now, keys) >= 0) | scribe.state.got.has(keys)
    twice = np.flatnonzero(again)
    entries = scribe.state.entries
    twice = twice[entries.member[scribe.entry(group[twice], node[twice])]]
    scribe.note(AGAIN, group=group[twice], publication=publication[twice])
    tables[GOT] = {"key": _merged(now, np.sort(keys[~again]))}


def keep_got(scribe: Scribe, tables: Tables) -> None:
    """Remember the publications of each node that the next round still asks for."""
    got = scribe.state.got
    if GOT in tables:
        got.key = _merged(got.key, tables.pop(GOT)["key"])
    a_round = len(scribe.groups) * _numbers(scribe.ring) * scribe.state.size
    got.key = got.key[np.searchsorted(got.key, a_round) :] - a_round


def _merged(keys: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.insert(keys, np.searchsorted(keys, more), more)
