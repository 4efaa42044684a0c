"""Sources: they route a MULTICAST to the root, and cache the root's address.

If the application acknowledges publications, a source also keeps each publication until a root and
at least one of its replicas have it.

JSAC 2002, Sections III.A.3 and III.B.2; NGC 2001, Section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import NONE, Rows, codes, distinct, find_sorted, whole_numbers
from scribe_spark.core.key_limits import most_turns
from scribe_spark.core.keys import key_of, mixed_key
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.rounds.group_events import SOURCE_BITS, Publishing, publication_ids
from scribe_spark.systems.scribe import state
from scribe_spark.systems.scribe.root import become_root, has_replica
from scribe_spark.systems.scribe.scribe import (
    RoundOfGroups,
    RoundProgram,
    Routing,
    Scribe,
    one_hop_on,
)

#: The fates of a publication.  ``kept``: its source sends it again in the next round.  ``source
#: died``: the source died while it kept the publication.
FATES = ("sent", "refused", "no root", "kept", "source died")

_SENT, _REFUSED, _NO_ROOT, _KEPT, _SOURCE_DIED = range(len(FATES))


@dataclass(frozen=True)
class SentPublications(Rows):
    """The publications of a round, by group, round of publication, turn, and nodeId of the source.

    Publications of earlier rounds were kept by their source.  `root` accepted the publication, or
    is NONE; `fate` is an index of :data:`FATES`.  `hops` and `delay_us` count the route to the last
    node, the delay only if `Scribe.timed`.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    source: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    root: np.ndarray = field(default_factory=whole_numbers)
    fate: np.ndarray = field(default_factory=codes)
    hops: np.ndarray = field(default_factory=whole_numbers)
    delay_us: np.ndarray = field(default_factory=whole_numbers)

    @classmethod
    def of(cls, columns: Columns, nodes: int = 0) -> SentPublications:
        """Return the publications of a table with any order of rows."""
        return cls(**columns).in_order(nodes) if columns else cls()

    @classmethod
    def of_buckets(cls, columns: Columns, nodes: int = 0) -> SentPublications:
        """Return the publications of a table in which every bucket has listed all of them."""
        if not columns:
            return cls()
        names = np.column_stack([columns["group"], columns["publication"]])
        return cls.of(take(columns, np.unique(names, axis=0, return_index=True)[1]), nodes)

    def in_order(self, nodes: int = 0) -> SentPublications:
        """Sort by group, round, turn and nodeId; those whose source died come last."""
        died, turn = self.fate == _SOURCE_DIED, turns_of(self.publication, nodes)
        keys = (self.source, turn, self.publication >> SOURCE_BITS, self.group, died)
        return self.take(np.lexsort(keys))

    def taken(self) -> SentPublications:
        """Return the publications that roots accepted."""
        return self.take(self.fate == _SENT)


#: A publication that is sent to a cached address.
_ADDRESSED = "MULTICAST to an address"

#: The table of publications that reached their last node; of those at an address, `addressed` is
#: True.
_ARRIVED = "scribe arrived"

_MULTICAST = Routing("MULTICAST", ends=_ARRIVED)

#: Tables.  SENT: this round's publications of the bucket's sources, with their fates (columns of
#: `SentPublications`).  _AT_ROOT: the publications that roots of the bucket may accept.
SENT, _AT_ROOT = "scribe sent", "scribe publications at roots"

#: The table of acknowledgements that roots owe: ``root, source``.
_ANSWERED = "scribe answered"

#: The message to a source with the fate of its publication: ``group, publication, root, fate``.
FATE = "fate"


#: The columns of publications at roots.
_AT_ROOTS = ("group", "source", "publication", "root", "hops", "delay_us")


def _all(n: int, fate: int) -> np.ndarray:
    return np.full(n, fate, dtype=np.int8)


def _under_way(scribe: Scribe, new: Publishing) -> dict[str, np.ndarray]:
    """Return the publications to send, in order: those of this round, and those kept by sources."""
    kept, ring, nodes = scribe.state.kept, scribe.ring, scribe.round.nodes
    names = publication_ids(scribe.number, ring.node[new.node], new.turn, nodes)
    if scribe.settled:  # each group has one publication, which needs no id
        names = np.zeros_like(names)
    group, publication = np.r_[kept.group, new.group], np.r_[kept.publication, names]
    source = np.r_[ring.positions(source_numbers(scribe, kept.publication)), new.node]
    sent = {"group": group, "source": source, "publication": publication}
    return take(sent, _in_order(sent, nodes))


def _addresses(scribe: Scribe, group: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the roots whose addresses sources have cached; without one, the source itself."""
    if scribe.settled and scribe.round.source == "direct":  # all sources know the roots
        assert scribe.roots is not None
        return scribe.roots[group]
    row, at = scribe.state.addresses.find(scribe.key(group, source)), source.copy()
    at[row >= 0] = scribe.state.addresses.root[row[row >= 0]]
    return at


def _in_order(sent: Columns, nodes: int) -> np.ndarray:
    """Return the indices that sort publications in the order in which roots accept them."""
    publication, turn = sent["publication"], turns_of(sent["publication"], nodes)
    return np.lexsort((sent["source"], turn, publication >> SOURCE_BITS, sent["group"]))


def _arrive(scribe: Scribe, came: Columns) -> None:
    """Record the messages that are at roots; route the others from where they are."""
    root = scribe.is_root(came["group"], came[AT])
    ends = {"delivered": root, "circled": ~root, "addressed": root}
    scribe.note(_ARRIVED, **take({**came, **ends}, root))
    routed = take({**came, "addressed": root}, ~root)
    _MULTICAST.begin(scribe, routed.pop(AT), **routed)


@dataclass(frozen=True)
class FindRoots(RoundProgram):
    """Send MULTICASTs to the roots: those of this round, and those that sources kept.

    First, each message goes to the address that its source has cached.  Messages that do not reach
    a root are then routed: from the source if the address did not answer, otherwise from the node
    that turned out not to be the root.  Roots do not change during the program.
    """

    publish: Publishing
    handlers = ((_MULTICAST.kind, _MULTICAST.receive), (_ADDRESSED, _arrive))

    @property
    def silent(self) -> bool:
        return self.round.settled and self.round.source == "root"

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        sent = _under_way(scribe, self.publish.take(scribe.is_own(self.publish.node)))
        group, source = sent["group"], sent["source"]
        n = len(group)
        began = {"hops": np.zeros(n, np.int64), "delay_us": np.zeros(n, np.int64)}
        scribe.note(SENT, **sent, **began, root=np.full(n, NONE), fate=_all(n, _NO_ROOT))
        sizes = sizes_of(scribe, group, sent["publication"])
        sent |= began | ({} if sizes is None else {"size": sizes})
        at = _addresses(scribe, group, source)
        own = scribe.is_root(group, source)
        at[own] = source[own]
        away = np.flatnonzero(at != source)
        of_away = None if sizes is None else sizes[away]
        arrives = scribe.send("MULTICAST", source[away], at[away], size=of_away)
        there = away[arrives]
        addressed = one_hop_on(scribe, {**take(sent, there), AT: source[there]}, at[there])
        scribe.tell(_ADDRESSED, addressed.pop(AT), **addressed)
        here = np.ones(n, dtype=bool)
        here[there] = False
        _arrive(scribe, {**take(sent, here), AT: source[here]})


def receive_publications(scribe: Scribe, tables: Tables) -> None:
    """Let nodes accept or refuse the publications that reached them, and tell sources the fates."""
    if _ARRIVED not in tables:
        return
    came = tables.pop(_ARRIVED)
    group, source, at = came["group"], came["source"], came[AT]
    pair = scribe.key(group, at)
    found = came["delivered"] & (came["addressed"] | scribe.state.copies.has(pair))
    become_root(scribe, distinct(pair[found & ~came["addressed"]]))
    root = np.where(found, at, NONE)
    if scribe.round.source != "routed":
        told = found & (root != source) & ~came["addressed"]
        scribe.send("address", root[told], source[told])
    sent = {name: {**came, "root": root}[name] for name in _AT_ROOTS}
    refused = found & ~scribe.groups.allows("multicast", group, source)
    scribe.refuse("MULTICAST", refused.sum())
    fate = np.where(found, np.where(refused, _REFUSED, _SENT), _NO_ROOT).astype(np.int8)
    _tell_fates(scribe, sent, fate)
    scribe.note(_AT_ROOT, **take(sent, fate == _SENT))
    _answer(scribe, take(sent, refused))


def _tell_fates(scribe: Scribe, sent: Columns, fate: np.ndarray) -> None:
    """Send the fates of publications to their sources, except in a settled round."""
    if scribe.settled:
        return
    columns = {name: sent[name] for name in _AT_ROOTS if name != "source"}
    scribe.tell(FATE, sent["source"], **columns, fate=fate)


def hear_fates(scribe: Scribe, came: Columns) -> None:
    """Sources record the fates of their publications, and cache the addresses of roots."""
    sent = scribe.tables[SENT]
    keys, of = (
        publication_keys(scribe, one["group"], one["publication"], 0) for one in (sent, came)
    )
    row = np.argsort(keys)[find_sorted(np.sort(keys), of)]
    heard = {name: sent[name].copy() for name in ("fate", "root", "hops", "delay_us")}
    for name, column in heard.items():
        column[row] = came[name]
    scribe.tables[SENT] = {**sent, **heard}
    # all publications of a source to a group reached the same node
    pair, first = np.unique(scribe.key(came["group"], came[AT]), return_index=True)
    fate, root = came["fate"][first], came["root"][first]
    addresses = scribe.state.addresses
    addresses.discard(pair[(fate == _NO_ROOT) & (root < 0)])
    if scribe.round.source != "routed":
        addresses.put(pair[fate == _SENT], root=root[fate == _SENT])


# ---- what sources keep


#: The table of publications that were lost because the source that kept them died in this round.
DIED_WITH_SOURCE = "scribe died with source"


def forget_kept(scribe: Scribe, dead: np.ndarray) -> None:
    """Drop the publications that sources marked in `dead` kept; record them for measures."""
    kept = scribe.state.kept
    lost = dead[scribe.ring.positions(source_numbers(scribe, kept.publication))]
    scribe.note(DIED_WITH_SOURCE, **kept.take(lost).to_columns())
    scribe.state.kept = kept.take(~lost)


def take_publications(scribe: Scribe, tables: Tables) -> Columns:
    """Return the publications that roots accept, in order; acknowledged ones need a replica."""
    sent = tables.pop(_AT_ROOT, None)
    if sent is None:
        empty = np.empty(0, dtype=np.int64)
        return dict.fromkeys(_AT_ROOTS, empty)
    if scribe.acknowledged:
        there = has_replica(scribe, sent["group"], sent["root"])
        left = take(sent, np.flatnonzero(~there))
        _tell_fates(scribe, left, _all(len(left["root"]), _NO_ROOT))
        sent = take(sent, np.flatnonzero(there))
    _answer(scribe, sent)
    return take(sent, _in_order(sent, scribe.round.nodes))


def _answer(scribe: Scribe, sent: Columns) -> None:
    """Record which roots owe an acknowledgement to which sources, for their publications."""
    if scribe.acknowledged:
        scribe.note(_ANSWERED, root=sent["root"], source=sent["source"])


def acknowledge(scribe: Scribe, tables: Tables) -> None:
    """Count acknowledgements of roots: for what replicas have, and for what was refused."""
    answered = tables.pop(_ANSWERED, None)
    if answered is not None:
        root, source = answered["root"], answered["source"]
        away = root != source
        scribe.send("acknowledgement", root[away], source[away])


def finish_publications(scribe: Scribe, tables: Tables) -> Columns:
    """Return the publications of the bucket's sources with fates; sources keep some."""
    sent = tables.pop(SENT, None)
    parts = [] if sent is None else [dict(sent)]
    if scribe.acknowledged:
        if sent is not None:
            fate = sent["fate"].copy()
            young = (sent["publication"] >> SOURCE_BITS) + scribe.rules.deadline > scribe.number
            fate[young & (fate == _NO_ROOT)] = _KEPT
            parts = [{**sent, "fate": fate}]
            scribe.state.kept = state.Unacknowledged.from_columns(sent).take(fate == _KEPT)
        elif len(scribe.state.kept):
            scribe.state.kept = state.Unacknowledged()
    if DIED_WITH_SOURCE in tables:
        died = tables[DIED_WITH_SOURCE]
        n = len(died["group"])
        source = scribe.ring.positions(source_numbers(scribe, died["publication"]))
        del tables[DIED_WITH_SOURCE]
        nowhere, fate = np.full(n, NONE), _all(n, _SOURCE_DIED)
        none = np.zeros(n, dtype=np.int64)
        way = {"hops": none, "delay_us": none}
        parts.append({**died, **way, "source": source, "root": nowhere, "fate": fate})
    return concatenate(parts) if parts else {}


# --- ids of publications, and the count of duplicate deliveries up to a publication's deadline


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


def note_got(scribe: Scribe, group: np.ndarray, node: np.ndarray, publication: np.ndarray) -> None:
    """Record publications that nodes received, each once; count those a member had before."""
    tables = scribe.tables
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
    tables[GOT] = {"key": _merged(now, keys[~again])}


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
    """Return all keys, ascending; a stable sort is quick, since both parts are mostly ascending."""
    return np.sort(np.concatenate([keys, more]), kind="stable")
