"""Ids of publications, and the count of duplicate deliveries up to a publication's deadline."""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, find_sorted, whole_numbers
from scribe_spark.core.key_limits import most_turns
from scribe_spark.core.keys import key_of, mixed_key
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_events import SOURCE_BITS, publication_ids
from scribe_spark.systems.scribe.scribe import RoundOfGroups, Scribe

#: The bits of a publication's id that are its turn and the source's node number.
SOURCE = 2**SOURCE_BITS - 1


def turns_of(publication: np.ndarray, nodes: int) -> np.ndarray:
    """Return how many publications of one source, group and round came before each one."""
    return (publication & SOURCE) // nodes if nodes else np.zeros_like(publication)


def first_parts(round: RoundOfGroups, publication: np.ndarray) -> np.ndarray:
    """Return the ids of the first parts of the publications to which parts belong: rule W13."""
    return publication - turns_of(publication, round.nodes) % round.parts.sent * round.nodes


def source_numbers(scribe: Scribe, publication: np.ndarray) -> np.ndarray:
    """Return the numbers of the sources of publications, given by id."""
    nodes = scribe.round.nodes
    return (publication & SOURCE) % nodes if nodes else publication & SOURCE


def key_in_round(group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Return keys of publications that are unique in a round; see `RoundOfGroups.sizes`."""
    return group << SOURCE_BITS | publication & SOURCE


def sizes_of(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray | None:
    """Return sizes of publications (bytes; NONE: an earlier round), or None without a schedule."""
    sizes = scribe.round.sizes
    if sizes is None:
        return None
    row = find_sorted(sizes["key"], key_in_round(group, publication))
    found = np.full(len(group), NONE, dtype=np.int64)
    there = (row >= 0) & (publication >> SOURCE_BITS == scribe.number)
    found[there] = sizes["size"][row[there]]
    return found


def pending_keys(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Return keys of publications before their deadline; negative for the others."""
    return publication_keys(scribe, group, publication, scribe.number - scribe.rules.deadline)


def publication_keys(
    scribe: Scribe, group: np.ndarray, publication: np.ndarray, since: int
) -> np.ndarray:
    """Return keys (round, group, source) of publications since the round `since`; older: NONE."""
    age = (publication >> SOURCE_BITS) - since
    parts = age, group, publication & SOURCE
    keys = mixed_key(parts, (len(scribe.groups), _names(scribe)))
    return np.where(age >= 0, keys, NONE)


def publications_of(scribe: Scribe, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups and ids of publications from :func:`publication_keys` since round 0."""
    key, name = np.divmod(keys, _names(scribe))
    round, group = np.divmod(key, len(scribe.groups))
    return group, publication_ids(round, name)


def _names(scribe: Scribe) -> int:
    """Return how many publications of one group in one round the ids can tell apart."""
    round = scribe.round
    if not round.nodes:
        return node_numbers(scribe.ring)
    return round.nodes * most_turns(len(round.groups), round.nodes, round.rules.deadline)


def node_numbers(known: Ring) -> int:
    """Return the least number greater than all numbers of nodes."""
    return int(known.node.max()) + 1


#: Tables of a round.  GOT has the publications that nodes received in it: ``key``, sorted, made of
#: the publication's key (:func:`pending_keys`) and the node.  AGAIN has the duplicates at members:
#: ``group, publication``.
GOT, AGAIN = "scribe got now", "scribe again"


def note_got(
    scribe: Scribe, tables: Tables, group: np.ndarray, node: np.ndarray, publication: np.ndarray
) -> None:
    """Record publications that nodes received, each once; count those a member had before."""
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


def first_copies(scribe: Scribe, tables: Tables) -> np.ndarray:
    """Return the key (:func:`pending_keys`) of each first copy that a member got this round."""
    if GOT not in tables:
        return whole_numbers()
    keys, node = np.divmod(tables[GOT]["key"], scribe.state.size)
    group, _ = publications_of(scribe, keys)
    return keys[scribe.is_member(group, node)]


def keep_got(scribe: Scribe, tables: Tables) -> None:
    """Keep the records of received publications whose deadline is after this round."""
    got = scribe.state.got
    if GOT in tables:
        got.key = _merged(got.key, tables.pop(GOT)["key"])
    a_round = len(scribe.groups) * _names(scribe) * scribe.state.size
    got.key = got.key[np.searchsorted(got.key, a_round) :] - a_round


def _merged(keys: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.insert(keys, np.searchsorted(keys, more), more)
