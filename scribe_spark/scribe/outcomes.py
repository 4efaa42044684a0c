"""The outcomes of publications, kept from round to round until the deadline.

References
----------
JSAC 2002, Section III.B; docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import (
    Rows,
    codes,
    distinct,
    expand,
    find_sorted,
    run_starts,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.scribe.bottleneck import overloaded
from scribe_spark.scribe.duplicates import (
    AGAIN,
    SOURCE,
    SOURCE_BITS,
    first_copies,
    keep_got,
    pending_keys,
)
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.handlers import keep_used_values
from scribe_spark.scribe.heartbeat import find_orphans
from scribe_spark.scribe.multicast import DELIVERIES
from scribe_spark.scribe.order import out_of_order
from scribe_spark.scribe.paths_to_root import forget_paths
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.sources import FATES, Sent
from scribe_spark.scribe.state import Publications, ScribeState, Undelivered

_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True)
class PublicationResults(Rows):
    """The receivers of publications, counted at the deadline or at the end of the world.

    Refused publications are left out, and those whose source died before a root accepted them.
    Expected are the nodes (the source included) that were members at the end of each round from the
    publication to the deadline; of these, `in_time` received it in its round, and `late` later.
    `first_copies` and `duplicates` count the first and the duplicate deliveries to members, also to
    members that died, up to the deadline.
    """

    group: np.ndarray = field(default_factory=whole_numbers)
    publication: np.ndarray = field(default_factory=whole_numbers)
    fate: np.ndarray = field(default_factory=codes)
    expected: np.ndarray = field(default_factory=whole_numbers)
    in_time: np.ndarray = field(default_factory=whole_numbers)
    late: np.ndarray = field(default_factory=whole_numbers)
    first_copies: np.ndarray = field(default_factory=whole_numbers)
    duplicates: np.ndarray = field(default_factory=whole_numbers)

    @classmethod
    def sum_of(cls, columns: Columns) -> PublicationResults:
        """Add the outcomes of publications at the members of several buckets."""
        if not columns:
            return cls()
        group, publication = columns["group"], columns["publication"]
        order = np.lexsort((publication, group, publication >> SOURCE_BITS))
        group, publication = group[order], publication[order]
        first = run_starts(group, publication)
        counts = ("expected", "in_time", "late", "first_copies", "duplicates")
        sums = [np.add.reduceat(columns[name][order], first) for name in counts]
        return cls(group[first], publication[first], columns["fate"][order][first], *sums)


#: Tables.  DUE: outcomes at the bucket's members of publications whose deadline is this round
#: (columns of `PublicationResults`).  LEFT: outcomes of publications that are still open after the
#: last round.  ORPHANS: ``pair``.  OVERLOADED: nodes with more children than their limit, ``node``.
DUE, LEFT, ORPHANS, OVERLOADED = "scribe due", "scribe left", "scribe orphans", "scribe overloaded"


@dataclass(frozen=True)
class EndOfRound(RoundProgram):
    """Record the outcomes of the round: deliveries, publications, orphans, overloaded nodes."""

    is_last: bool
    writes = (
        *("entries", "copies", "values", "paths", "publications", "missing", "resent", "lacking"),
        *("got", "newest"),
    )

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        sent = Sent.of(tables.get(OUTCOMES, {}))
        came = tables.get(DELIVERIES)
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
            tables[DELIVERIES] = {**came, "out_of_order": wrong}
        keep_got(scribe, tables)
        keep_used_values(scribe)
        forget_paths(scribe)
        scribe.note(ORPHANS, pair=scribe.state.entries.key[find_orphans(scribe)])
        scribe.note(OVERLOADED, node=overloaded(scribe))
        state, number, deadline = scribe.state, scribe.number, scribe.rules.deadline
        scribe.note(DUE, **publications_due(state, number, deadline).to_columns())
        if self.is_last:
            left = publications_due(state, number, deadline, everything=True)
            scribe.note(LEFT, **left.to_columns())


#: The fates of publications that no member expects to receive.
_LEFT_OUT = [FATES.index(fate) for fate in ("refused", "source died")]


def note_deliveries(
    scribe: Scribe,
    sent: Sent,
    got: tuple[np.ndarray, np.ndarray, np.ndarray],
    again: np.ndarray,
    first: np.ndarray | None = None,
) -> None:
    """Record a round's publications, the members that missed them, and late deliveries.

    `got` has group, publication and node of the round's deliveries; `again` and `first` have the
    publication's key (:func:`pending_keys`) of each duplicate and of each first copy at a member,
    by default of each delivery.
    """
    state, number, size = scribe.state, scribe.number, scribe.state.size
    is_new = sent.publication >> SOURCE_BITS == number
    _note_fates(scribe, sent.take(~is_new))
    kept = np.flatnonzero(is_new & ~np.isin(sent.fate, _LEFT_OUT))
    group, publication = sent.group[kept], sent.publication[kept]
    none = np.zeros(len(kept), dtype=np.int64)
    new = Publications(group, publication, sent.fate[kept], none, none)
    state.publications = Publications.join(state.publications, new)
    # number the publications whose deadline has not passed
    keys = pending_keys(scribe, state.publications.group, state.publications.publication)
    order = np.argsort(keys)
    keys = keys[order]
    delivered = _places(scribe, keys, got[0], got[1])
    known = delivered >= 0
    came = delivered[known] if first is None else find_sorted(keys, first)
    state.publications.first_copies[order] += np.bincount(came[came >= 0], minlength=len(keys))
    # 1. publications of this round with fewer deliveries than members
    entries, missing = state.entries, state.missing
    members = np.bincount(entries.key[entries.member] // size, minlength=len(scribe.groups))
    mine = _places(scribe, keys, group, publication)
    short = np.bincount(delivered[known], minlength=len(keys))[mine] < members[group]
    pairs = whole_numbers()
    if len(missing.group) or short.any():
        pairs = key_of([delivered[known], got[2][known]], size)
        pairs.sort()
    del delivered, known
    # 2. late deliveries, duplicates
    at = _places(scribe, keys, missing.group, missing.publication)
    is_late = (find_sorted(pairs, key_of([at, missing.node], size)) >= 0) & (missing.late < 0)
    missing.late[is_late] = number
    twice = find_sorted(keys, again)
    state.publications.duplicates[order] += np.bincount(twice[twice >= 0], minlength=len(keys))
    del at, is_late, twice
    # 3. members that missed a publication of this round
    mine, group, publication = mine[short], group[short], publication[short]
    first = np.searchsorted(entries.key, group * size)
    which, row = expand(first, np.searchsorted(entries.key, (group + 1) * size))
    is_member = entries.member[row]
    which, node = which[is_member], entries.key[row[is_member]] % size
    del row, is_member
    without = find_sorted(pairs, key_of([mine[which], node], size)) < 0
    which, node = which[without], node[without]
    none = np.full(len(which), -1)
    without_it = Undelivered(group[which], publication[which], node, none)
    state.missing = Undelivered.join(missing, without_it)


def _places(
    scribe: Scribe, keys: np.ndarray, group: np.ndarray, publication: np.ndarray
) -> np.ndarray:
    """Return the places of publications among sorted `keys`, NONE for other publications: int32."""
    places = np.empty(len(group), dtype=np.int32)
    for start in range(0, len(group), _ROWS_AT_ONCE):  # millions of rows, few bytes at a time
        some = slice(start, start + _ROWS_AT_ONCE)
        places[some] = find_sorted(keys, pending_keys(scribe, group[some], publication[some]))
    return places


def _note_fates(scribe: Scribe, again: Sent) -> None:
    """Update the fates of publications that were sent again; drop those that are given up."""
    if not len(again.group):
        return
    state = scribe.state
    keys = pending_keys(scribe, again.group, again.publication)
    order = np.argsort(keys)

    def fates(rows: Publications | Undelivered) -> tuple[np.ndarray, np.ndarray]:
        at = find_sorted(keys[order], pending_keys(scribe, rows.group, rows.publication))
        return at >= 0, again.fate[order][at]

    there, fate = fates(state.publications)
    state.publications.fate[there] = fate[there]
    for name in ("publications", "missing"):
        there, fate = fates(getattr(state, name))
        left = np.flatnonzero(~(there & np.isin(fate, _LEFT_OUT)))
        setattr(state, name, getattr(state, name).take(left))


def publications_due(
    state: ScribeState, number: int, deadline: int, everything: bool = False
) -> PublicationResults:
    """Count and remove the publications whose deadline is this round.

    Only members among the nodes of this state are counted.  The deadline is in rounds after the
    publication.  With `everything` (at the end of a world), all open publications are counted.
    """
    results = [PublicationResults()]
    first = state.publications.publication >> SOURCE_BITS
    due = first >= 0 if everything else first <= number - deadline
    order = np.lexsort((state.publications.publication, state.publications.group))
    for published in distinct(first[due]):
        results.append(_results(state, int(published), order[first[order] == published]))
    _forget(state, due)
    return PublicationResults.join(*results)


def _results(state: ScribeState, published: int, rows: np.ndarray) -> PublicationResults:
    """Return outcomes of the publications of one round (rows of `ScribeState.publications`)."""
    entries, missing, due = state.entries, state.missing, state.publications.take(rows)
    stayed = entries.member & (entries.joined <= published)
    expected = np.bincount(entries.key[stayed] // state.size, minlength=len(state.created))
    expected = expected[due.group]
    # members that missed a publication and have stayed members
    some = np.flatnonzero(missing.publication >> SOURCE_BITS == published)
    row = entries.find(missing.group[some] * state.size + missing.node[some])
    there = row >= 0
    there[there] = stayed[row[there]]
    some = some[there]
    own = due.group << SOURCE_BITS | due.publication & SOURCE
    theirs = missing.group[some] << SOURCE_BITS | missing.publication[some] & SOURCE
    order = np.argsort(own)
    which = order[find_sorted(own[order], theirs)]
    is_late = missing.late[some] >= 0
    late = np.bincount(which[is_late], minlength=len(rows))
    missed = np.bincount(which, minlength=len(rows))
    return PublicationResults(
        due.group,
        due.publication,
        due.fate,
        expected,
        expected - missed,
        late,
        due.first_copies,
        due.duplicates,
    )


def _forget(state: ScribeState, due: np.ndarray) -> None:
    """Remove publications that are due."""
    gone = distinct(state.publications.publication[due] >> SOURCE_BITS)
    state.publications = state.publications.take(np.flatnonzero(~due))
    first = state.missing.publication >> SOURCE_BITS
    state.missing = state.missing.take(np.flatnonzero(~np.isin(first, gone)))
