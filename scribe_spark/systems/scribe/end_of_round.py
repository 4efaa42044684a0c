"""The end of a round: replicas, acknowledgements, heartbeats, and the outcomes of publications.

JSAC 2002, Sections III.B.1 and III.B.2; docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.exchange import add_rows
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.rounds.group_events import SOURCE_BITS
from scribe_spark.systems.scribe import figures, heartbeat, multicast, root, sources
from scribe_spark.systems.scribe.bottleneck import overloaded
from scribe_spark.systems.scribe.scribe import RoundOfGroups, RoundProgram, Scribe
from scribe_spark.systems.scribe.sources import (
    AGAIN,
    first_copies,
    first_parts,
    keep_got,
    key_in_round,
    pending_keys,
    publication_keys,
    publications_of,
    source_numbers,
    turns_of,
)
from scribe_spark.systems.scribe.state import (
    AcceptedLate,
    ScribeState,
    StoredPublications,
    Undelivered,
)

#: The table of the round's publications with their fates, equal in every bucket: the columns of
#: `SentPublications`.
OUTCOMES = "scribe outcomes"

#: The message with publications and fates; it serves the measures and is not counted.
_OUTCOME = "outcome"


def _keep_outcomes(scribe: Scribe, came: Columns) -> None:
    scribe.tables[OUTCOMES] = {name: one for name, one in came.items() if name != AT}


class EndRound(RoundProgram):
    """Roots update replicas and acknowledge publications; parents send heartbeats and paths."""

    writes = ("entries", "children", "copies", "replicas", "paths", "kept", "questions")

    handlers = (
        *root.REPLICATING,
        (heartbeat.HEARTBEAT, heartbeat.hear_parents),
        (multicast.ASK, heartbeat.keep_questions),
        (figures.PATH, figures.take_paths),
        (_OUTCOME, _keep_outcomes),
    )

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        root.replicate_changed(scribe, tables)
        sources.acknowledge(scribe, tables)
        heartbeat.send_heartbeats(scribe)
        figures.tell_paths(scribe)
        scribe.tell_all(_OUTCOME, **sources.finish_publications(scribe, tables))


# --- the outcomes of publications, kept from round to round until the deadline

_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True)
class PublicationResults(arrays.Rows):
    """The receivers of publications, counted at the deadline or at the end of the world.

    Refused publications are left out, and those whose source died before a root accepted them.
    Expected are the nodes (the source included) that were members at the end of each round from the
    publication to the deadline; of these, `in_time` received it in its round, and `late` later.
    `first_copies` and `duplicates` count the first and the duplicate deliveries to members, also to
    members that died, up to the deadline.
    """

    group: np.ndarray = field(default_factory=arrays.whole_numbers)
    publication: np.ndarray = field(default_factory=arrays.whole_numbers)
    expected: np.ndarray = field(default_factory=arrays.whole_numbers)
    in_time: np.ndarray = field(default_factory=arrays.whole_numbers)
    late: np.ndarray = field(default_factory=arrays.whole_numbers)
    first_copies: np.ndarray = field(default_factory=arrays.whole_numbers)
    duplicates: np.ndarray = field(default_factory=arrays.whole_numbers)

    @classmethod
    def sum_of(cls, columns: Columns) -> PublicationResults:
        """Return the sum of the outcomes of publications, which several buckets counted."""
        if not columns:
            return cls()
        counts = ("expected", "in_time", "late", "first_copies", "duplicates")
        key = {"round": columns["publication"] >> SOURCE_BITS, **columns}
        return cls.from_columns(add_rows(counts, key, "round", "group", "publication"))


#: Tables.  DUE: outcomes at the bucket's members of publications whose deadline is this round, and
#: after the last round of all open ones (columns of `PublicationResults`).  ORPHANS: ``pair``.
#: OVERLOADED: nodes with more children than their limit, ``node``.
DUE, ORPHANS, OVERLOADED = "scribe due", "scribe orphans", "scribe overloaded"


@dataclass(frozen=True)
class EndOfRound(RoundProgram):
    """Record the outcomes of the round: deliveries, publications, orphans, overloaded nodes."""

    is_last: bool
    writes = ("entries", "paths", "publications", "missing", "resent", "newest", "got")

    def begin(self, scribe: Scribe, tables: Tables) -> None:
        sent = sources.SentPublications.of(tables.get(OUTCOMES, {}), scribe.round.nodes)
        came = tables.get(multicast.DELIVERIES)
        nothing = np.empty(0, dtype=np.int64)
        got = nothing, nothing, nothing
        if came is not None:
            got = came["group"], came["publication"], came["node"]
        again = tables.get(AGAIN, {"group": nothing, "publication": nothing})
        copies = pending_keys(scribe, again["group"], again["publication"])
        first = None if scribe.best_effort else first_copies(scribe, tables)
        note_deliveries(scribe, sent, got, copies, first)
        wrong = out_of_order(scribe, sent, got)
        if came is not None:
            tables[multicast.DELIVERIES] = {**came, "out_of_order": wrong}
        keep_got(scribe, tables)
        figures.forget_paths(scribe)
        entries = scribe.state.entries
        scribe.note(ORPHANS, pair=entries.key[entries.are_orphans()])
        scribe.note(OVERLOADED, node=overloaded(scribe))
        due = publications_due(scribe.state, scribe.round, everything=self.is_last)
        scribe.note(DUE, **due.to_columns())


#: The fates of publications that no member expects to receive.
_LEFT_OUT = [sources.FATES.index(fate) for fate in ("refused", "source died")]


def note_deliveries(
    scribe: Scribe,
    sent: sources.SentPublications,
    got: tuple[np.ndarray, np.ndarray, np.ndarray],
    again: np.ndarray,
    first: np.ndarray | None = None,
) -> None:
    """Record a round's publications, the members that missed them, and late deliveries.

    `got` has group, publication and node of the round's deliveries; `again` and `first` have the
    publication's key (:func:`pending_keys`) of each duplicate and of each first copy at a member.
    By default, each delivery counts as a first copy.
    """
    state, number, size = scribe.state, scribe.number, scribe.state.size
    is_new = sent.publication >> SOURCE_BITS == number
    _give_up(scribe, sent.take(~is_new))
    kept = np.flatnonzero(is_new & ~np.isin(sent.fate, _LEFT_OUT))
    group, publication = sent.group[kept], sent.publication[kept]
    none = np.zeros(len(kept), dtype=np.int64)
    new = StoredPublications(group, publication, none, none)
    state.publications = StoredPublications.join(state.publications, new)
    # number the publications whose deadline has not passed
    keys = pending_keys(scribe, state.publications.group, state.publications.publication)
    order = np.argsort(keys)
    keys = keys[order]
    delivered = _places(scribe, keys, got[0], got[1])
    known = delivered >= 0
    came = delivered[known] if first is None else arrays.find_sorted(keys, first)
    state.publications.first_copies[order] += np.bincount(came[came >= 0], minlength=len(keys))
    # 1. publications of this round with fewer deliveries than members
    entries, missing = state.entries, state.missing
    members = np.bincount(entries.key[entries.member] // size, minlength=len(scribe.groups))
    mine = _places(scribe, keys, group, publication)
    short = np.bincount(delivered[known], minlength=len(keys))[mine] < members[group]
    pairs = arrays.whole_numbers()
    if len(missing.group) or short.any():
        pairs = key_of([delivered[known], got[2][known]], size)
        pairs.sort()
    del delivered, known
    # 2. late deliveries, duplicates
    at = _places(scribe, keys, missing.group, missing.publication)
    is_late = (arrays.find_sorted(pairs, key_of([at, missing.node], size)) >= 0) & (
        missing.late < 0
    )
    missing.late[is_late] = number
    twice = arrays.find_sorted(keys, again)
    state.publications.duplicates[order] += np.bincount(twice[twice >= 0], minlength=len(keys))
    del at, is_late, twice
    # 3. members that missed a publication of this round
    mine, group, publication = mine[short], group[short], publication[short]
    first = np.searchsorted(entries.key, group * size)
    which, row = arrays.expand(first, np.searchsorted(entries.key, (group + 1) * size))
    is_member = entries.member[row]
    which, node = which[is_member], entries.key[row[is_member]] % size
    del row, is_member
    without = arrays.find_sorted(pairs, key_of([mine[which], node], size)) < 0
    which, node = which[without], node[without]
    none = np.full(len(which), -1)
    without_it = Undelivered(group[which], publication[which], node, none)
    state.missing = Undelivered.join(missing, without_it)


def _places(
    scribe: Scribe, keys: np.ndarray, group: np.ndarray, publication: np.ndarray
) -> np.ndarray:
    """Return the index of each publication in the sorted `keys`, NONE without one: int32."""
    places = np.empty(len(group), dtype=np.int32)
    for start in range(0, len(group), _ROWS_AT_ONCE):  # millions of rows, few bytes at a time
        some = slice(start, start + _ROWS_AT_ONCE)
        places[some] = arrays.find_sorted(
            keys, pending_keys(scribe, group[some], publication[some])
        )
    return places


def _give_up(scribe: Scribe, again: sources.SentPublications) -> None:
    """Drop publications that were sent `again` and that no member expects any more."""
    state, left = scribe.state, again.take(np.isin(again.fate, _LEFT_OUT))
    keys = np.sort(pending_keys(scribe, left.group, left.publication))
    for name in ("publications", "missing") if len(keys) else ():
        rows = getattr(state, name)
        gone = arrays.find_sorted(keys, pending_keys(scribe, rows.group, rows.publication)) >= 0
        setattr(state, name, rows.take(np.flatnonzero(~gone)))


def publications_due(
    state: ScribeState, round: RoundOfGroups, everything: bool = False
) -> PublicationResults:
    """Count and remove the publications due in a round, or all; members are of this state alone."""
    results = [PublicationResults()]
    first = state.publications.publication >> SOURCE_BITS
    due = first >= 0 if everything else first <= round.number - round.rules.deadline
    order = np.lexsort((state.publications.publication, state.publications.group))
    for published in arrays.distinct(first[due]):
        rows = order[first[order] == published]
        results.append(_results(state, round, int(published), rows))
    _forget(state, due)
    return PublicationResults.join(*results)


def _results(
    state: ScribeState, round: RoundOfGroups, published: int, rows: np.ndarray
) -> PublicationResults:
    """Return outcomes of one round's publications, in the given rows."""
    entries, missing, due = state.entries, state.missing, state.publications.take(rows)
    stayed = entries.member & (entries.joined <= published)
    expected = np.bincount(entries.key[stayed] // state.size, minlength=len(state.created))
    # the publications, and how many of their parts a member may lack
    name = first_parts(round, due.publication)
    own, first, of = np.unique(
        key_in_round(due.group, name), return_index=True, return_inverse=True
    )
    spare = np.bincount(of) - round.parts.needed
    # members that missed parts and have stayed members
    some = np.flatnonzero(missing.publication >> SOURCE_BITS == published)
    row = entries.find(missing.group[some] * state.size + missing.node[some])
    there = row >= 0
    there[there] = stayed[row[there]]
    some = some[there]
    theirs = key_in_round(missing.group[some], first_parts(round, missing.publication[some]))
    missed: Columns = {
        **{"of": arrays.index_sorted(own, theirs), "node": missing.node[some]},
        **{"parts": np.ones_like(some), "late": (missing.late[some] >= 0).astype(np.int64)},
    }
    if round.parts.sent > 1:
        missed = add_rows(("parts", "late"), missed, "of", "node")
    missed = take(missed, missed["parts"] > spare[missed["of"]])
    is_late = missed["parts"] - missed["late"] <= spare[missed["of"]]
    expected = expected[due.group[first]]
    late, without = (
        np.bincount(one, minlength=len(own)) for one in (missed["of"][is_late], missed["of"])
    )
    return PublicationResults(
        due.group[first],
        name[first],
        expected,
        np.where(spare < 0, 0, expected - without),
        late,
        *(arrays.sums_at(of, copies, len(own)) for copies in (due.first_copies, due.duplicates)),
    )


def _forget(state: ScribeState, due: np.ndarray) -> None:
    """Remove the publications that `due` marks, and what is stored about them."""
    gone = arrays.distinct(state.publications.publication[due] >> SOURCE_BITS)
    state.publications = state.publications.take(np.flatnonzero(~due))
    first = state.missing.publication >> SOURCE_BITS
    state.missing = state.missing.take(np.flatnonzero(~np.isin(first, gone)))


# --- detection of deliveries out of order
#
# A delivery is out of order if the member has received a newer publication of the group before.  A
# publication is newer if the root numbered it later.  In a round, roots accept publications sorted
# by the round of publication, those of one round by the nodeId of the source.  Deliveries before a
# member's last join do not count.  (On a broken ring, a group may have two roots that number
# publications at the same time; these are compared in the same order.)
#
# Best-effort delivery has no numbers; there, a publication is newer if it was sent in a later
# round. Because nothing is delivered after the round of its publication, nothing can be out of
# order.
#
# Between rounds, the module keeps the newest publication of each member, and the publications that
# roots accepted in a later round than that of publication.


def out_of_order(
    scribe: Scribe, sent: sources.SentPublications, got: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return which deliveries of a round are out of order; update the state for later rounds.

    `got` has group, publication and node of the round's deliveries, in order of arrival.
    """
    group, name, node = got
    if scribe.best_effort:
        return np.zeros(len(name), dtype=bool)
    state, newest, entries = scribe.state, scribe.state.newest, scribe.state.entries
    late = sent.taken()
    late = late.take(late.publication >> SOURCE_BITS < scribe.number)
    late_now = AcceptedLate(late.group, late.publication, np.full(len(late), scribe.number))
    state.resent = AcceptedLate.join(state.resent, late_now)
    # 1. forget members that quit or died, or joined in this round
    row = entries.find(newest.key)
    stays = row >= 0
    stays[stays] = (entries.member & (entries.joined < scribe.number))[row[stays]]
    newest.keep(stays)
    # 2. for each member, compare each delivery with the newest one before it
    pairs = scribe.key(group, node)
    order = np.argsort(pairs, kind="stable")  # deliveries at a member stay in their order
    starts = arrays.run_starts(pairs[order])
    pair, lengths = pairs[order[starts]], np.diff(starts, append=len(order))
    row, had = newest.find(pair), np.full(len(pair), arrays.NONE)
    had[row >= 0] = newest.publication[row[row >= 0]]
    names = np.r_[had, name]
    ranks = _ranks(scribe, np.r_[pair // state.size, group], names)
    span = int(ranks.max(initial=0)) + 1
    least = np.arange(len(pair)) * span  # ranks at a later member are greater
    before = np.repeat(least + ranks[: len(pair)], lengths)
    came = np.repeat(least, lengths) + ranks[len(pair) :][order]
    highest = np.maximum.accumulate(np.maximum(came, before))
    wrong = np.zeros(len(name), dtype=bool)
    wrong[order] = came < np.maximum(before, np.r_[arrays.NONE, highest[:-1]])
    # 3. the newest one now
    by_rank = np.full(span, arrays.NONE)
    by_rank[ranks] = names
    newest.put(pair, publication=by_rank[highest[starts + lengths - 1] - least])
    return wrong


def _ranks(scribe: Scribe, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
    """Return the rank of publications, given by id, in the order of acceptance, from 1."""
    starts = arrays.run_starts(group, publication)  # neighbours mostly have the same one
    lengths = np.diff(starts, append=len(group))
    keys = publication_keys(scribe, group[starts], publication[starts], 0)
    each = arrays.distinct(np.append(keys, arrays.NONE))  # the first one is NONE
    group, publication = publications_of(scribe, each[1:])
    position = scribe.ring.positions(source_numbers(scribe, publication))
    turn = turns_of(publication, scribe.round.nodes)
    published = publication >> SOURCE_BITS
    # the round in which a root accepted each one
    resent, taken = scribe.state.resent, published.copy()
    of_resent = publication_keys(scribe, resent.group, resent.publication, 0)
    row = arrays.find_sorted(each[1:], of_resent)
    taken[row[row >= 0]] = resent.taken[row >= 0]
    rank = np.zeros(len(each), dtype=np.int64)
    rank[1 + np.lexsort((position, turn, published, taken))] = np.arange(1, len(each))
    return np.repeat(rank[arrays.index_sorted(each, keys)], lengths)
