"""The state of a bucket's nodes, and the four steps of a window of time.

A copy that starts at time s is not complete before s + L, where L is the least delay plus the least
transmission time of a message.  Nodes react only to complete copies.  So everything that happens in
the window from t to t + L depends only on copies that started before t.

References
----------
docs/rules.md, W1 to W8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.bandwidth.downlinks import Downlinks
from scribe_spark.bandwidth.growing import Calendar, Collected
from scribe_spark.bandwidth.setting import (
    INTERLEAVED,
    ROOMS,
    Discipline,
    Nodes,
    Rule,
    TimedLinks,
    TimedPublications,
    transmission_us,
)
from scribe_spark.bandwidth.uplinks import QueuedBatches, Started, Uplinks
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    run_starts,
)
from scribe_spark.core.keys import common_keys, key_of, order_of
from scribe_spark.engine.packing import Columns, smallest

#: The number of reverse links that are searched in one step.
_AT_ONCE = 2**18

#: A time later than any other: the node does not know that a peer has a publication.
_NEVER = np.iinfo(np.int64).max

#: Columns of copies in transit.  The first byte of a copy arrives at `_ARRIVES` and the last one at
#: `_ENDS`; `_BACK` is the receiver's link to the sender.
_ARRIVES, _ENDS, _PUBLICATION, _PLACE, _BACK, _SENDER, _HOPS, _START = range(8)
_WIDTH = 8

#: The columns of copies that can be kept as results.
_KEPT = {
    "publication": _PUBLICATION,
    "place": _PLACE,
    "sender": _SENDER,
    "hops": _HOPS,
    "sent_us": _START,
    "at_us": _ENDS,
}

#: The columns of first copies.
_AT, _OF, _AT_PLACE, _FROM, _AFTER, _FROM_LINK = range(6)
_FIRST_WIDTH = 6

#: The columns of `ClockBucket.copies` that can be kept, besides the carried ones.
ALL_OF_COPIES = (
    *("publication", "room", "node", "sender", "hops"),
    *("sent_us", "at_us", "first"),
)


@dataclass(frozen=True)
class ClockSetting:
    """The input of all buckets.

    Attributes
    ----------
    nodes : Nodes
    publications : TimedPublications
    discipline : Discipline
    rule : callable or None
        ``rule(first, links)`` returns True for links on which a node sends, given its first copy;
        None for all links.
    carried : tuple of str
        Columns of links that copies carry to the receiver.
    kept : tuple of str
        The columns of copies that are results, out of :data:`ALL_OF_COPIES` and `carried`; copies
        take most of a bucket's memory.
    """

    nodes: Nodes
    publications: TimedPublications
    discipline: Discipline
    rule: Rule | None = None
    carried: tuple[str, ...] = ()
    kept: tuple[str, ...] = ALL_OF_COPIES

    def __len__(self) -> int:
        return len(self.nodes)

    def least_time_us(self) -> int:
        """Return a lower bound of the transmission time of every copy, in microseconds."""
        size = int(self.publications.size.min(initial=0))
        ends = (transmission_us(size, rate) for rate in (self.nodes.up, self.nodes.down))
        return max(int(taken.min(initial=0)) if len(taken) else 0 for taken in ends)


class ClockBucket:
    """The nodes of a bucket.

    Parameters
    ----------
    given : ClockSetting
    columns : Columns
        The links of the bucket's nodes (`TimedLinks`), and further columns for the rule.
    first, last : int
        The positions of the bucket's nodes.
    """

    def __init__(self, given: ClockSetting, columns: Columns, first: int, last: int) -> None:
        self.given, self.first, size = given, first, len(given)
        columns = _by_place(columns, size)
        self.links = links = TimedLinks.from_columns(columns)
        starts = run_starts(links.room, links.node)
        self._senders = key_of([links.room[starts], links.node[starts]], size)
        self._starts, self._ends = starts, np.append(starts[1:], len(links))
        columns = {name: _compact(column) for name, column in columns.items()}
        self.links = TimedLinks.from_columns(columns)
        extra = set(columns) - set(TimedLinks.__dataclass_fields__)
        self._extra = {name: columns[name] for name in sorted(extra)}
        source = given.publications.source
        self._mine = np.flatnonzero((source >= first) & (source < last))
        self._copies = _empty_copies(given)
        self._arrivals: list[np.ndarray] = []

    # --- before the first window: both ends of a link exchange the link's numbers

    def offer(self) -> dict[str, np.ndarray]:
        """Return this bucket's links as messages to their receivers."""
        links = self.links
        number = np.arange(len(links), dtype=np.int32)
        return {"room": links.to_room, "from_room": links.room, "tail": links.node, "link": number}

    def answer(self, node: np.ndarray, offered: Columns) -> dict[str, np.ndarray]:
        """Return the places of receivers, and their links back to the senders.

        Parameters
        ----------
        node : ndarray of int
            The receiver of each link.
        """
        given, size = self.given, len(self.given)
        head = key_of([offered["room"], node], size)
        published = given.publications
        sources = key_of([published.room[self._mine], published.source[self._mine]], size)
        others = [keys[find_sorted(self._senders, keys) < 0] for keys in (head, sources)]
        self.places = distinct(np.concatenate([self._senders, *others]))
        place = find_sorted(self.places, head).astype(np.int32)
        back = np.full(len(head), NONE, dtype=np.int32)
        if given.discipline.held_back and len(self._senders):
            back = self._ways_back(place, offered["from_room"], offered["tail"])
        return {"link": offered["link"], "place": place, "back": back}

    def _ways_back(self, place: np.ndarray, room: np.ndarray, peer: np.ndarray) -> np.ndarray:
        """Return the links from places to peers in rooms; :data:`NONE` if there is none."""
        links, at = self.links, find_sorted(self.places, self._senders).astype(np.int32)
        at = np.repeat(at, self._ends - self._starts)
        sizes = len(self.places), ROOMS, len(self.given)  # the two rooms are of one topic
        here, there = (at, links.to_room % ROOMS, links.peer), (place, room % ROOMS, peer)
        mine, wanted = common_keys(sizes, here, there)
        order = np.argsort(mine) if (mine[1:] < mine[:-1]).any() else None
        mine = mine if order is None else mine[order]
        back = np.empty(len(wanted), dtype=np.int32)
        for start in range(0, len(wanted), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            sort = np.argsort(wanted[rows])  # searching sorted keys is much faster
            back[rows][sort] = find_sorted(mine, wanted[rows][sort])
        return back if order is None else np.where(back >= 0, order[back], NONE).astype(np.int32)

    def begin(self, answered: Columns | None, window_us: int, least_delay_us: int) -> None:
        """Store the answers, and let sources publish.

        Parameters
        ----------
        window_us : int
            L, the length of a window in microseconds.
        least_delay_us : int
            The least delay of all links of all buckets, in microseconds.
        """
        given, links, size = self.given, self.links, len(self.given)
        self.window_us, self._least_delay_us = window_us, least_delay_us
        self._head, self._back = (np.full(len(links), NONE, dtype=np.int32) for _ in range(2))
        if answered is not None:
            self._head[answered["link"]] = answered["place"]
            self._back[answered["link"]] = answered["back"]
        # 1. the links of each place
        sends = find_sorted(self._senders, self.places)
        self._first_link, self._end_link = (
            np.where(sends >= 0, ends[sends], 0) if len(ends) else np.zeros_like(sends)
            for ends in (self._starts, self._ends)
        )
        self._room, self._node = np.divmod(self.places, size)
        # 2. number the pairs (publication, place) and (publication, link), by publication
        topic = given.publications.topic
        self._place_base, places = _bases(self._room // ROOMS, topic)
        self._link_base, slots = _bases(links.room // ROOMS, topic)
        self._has = np.zeros(places, dtype=bool)
        holds = given.discipline.held_back
        self._known = np.full(slots if holds else 0, _NEVER, dtype=np.int64)
        # 3. queues
        node = self._node
        self._link_of = node - node.min(initial=0) if given.discipline.shared else None
        count = int(self._link_of.max(initial=-1)) + 1 if self._link_of is not None else len(node)
        interleaved = given.discipline.uplink == INTERLEAVED
        self.uplinks = Uplinks(count, places, slots, interleaved)
        self._downlinks = Downlinks(count)
        self._limited = bool((given.nodes.down > 0).any() and (given.publications.size > 0).any())
        width = _WIDTH + len(given.carried)
        self._coming, self._complete = Calendar(width), Calendar(width)
        self._enqueued = Calendar(_FIRST_WIDTH + len(given.carried))
        # 4. rule W1
        mine = self._mine
        source = key_of([given.publications.room[mine], given.publications.source[mine]], size)
        rows = np.full((len(mine), _FIRST_WIDTH + len(given.carried)), NONE, dtype=np.int64)
        rows[:, _AT], rows[:, _OF] = given.publications.at_us[mine], mine
        rows[:, _AT_PLACE], rows[:, _AFTER] = find_sorted(self.places, source), 0
        self._has[self._place_base[mine] + rows[:, _AT_PLACE]] = True
        self._arrivals.append(rows)
        self._enqueued.add(rows[:, _AT] // window_us, rows)

    def first_window(self) -> int | None:
        """Return the first window in which something happens in this bucket."""
        waits = self._coming, self._complete, self._enqueued, self.uplinks
        return min((due for one in waits if (due := one.first()) is not None), default=None)

    # --- steps 1 and 2 of a window

    def receive(self, window: int, copies: np.ndarray | None) -> dict[str, np.ndarray]:
        """Receive copies and those in transit; return the IDONTWANTs for first copies.

        Parameters
        ----------
        copies : ndarray of int64 or None
            The copies that started since the last window.
        """
        if copies is not None:
            self._coming.add(self.due(copies), copies)
        self._scan(window, self._coming.take(window))
        came = self._complete.take(window)
        if not len(came):
            return {}
        self._note(came)
        return self._unwanted(self._firsts(came))

    def due(self, copies: np.ndarray) -> np.ndarray:
        """Return for each copy the window after which no earlier copy can arrive."""
        return (copies[:, _ARRIVES] - self._least_delay_us) // self.window_us + 1

    def _scan(self, window: int, copies: np.ndarray) -> None:
        """Compute when copies are complete at their receivers' downlinks (rule W5)."""
        if not len(copies):
            return
        if self._limited:
            given = self.given
            place = copies[:, _PLACE]
            downlink = place if self._link_of is None else self._link_of[place]
            at_us = copies[:, _ARRIVES] - copies[:, _ARRIVES].min()
            ranks = downlink, at_us, copies[:, _PUBLICATION], copies[:, _SENDER]
            order = order_of(*ranks, *copies[:, _WIDTH:].T)
            copies, downlink = copies[order], downlink[order]
            size = given.publications.size[copies[:, _PUBLICATION]]
            takes_us = transmission_us(size, given.nodes.down[self._node[copies[:, _PLACE]]])
            done = self._downlinks.take(downlink, copies[:, _ARRIVES], takes_us)
            copies[:, _ENDS] = np.maximum(copies[:, _ENDS], done)
        self._complete.add(np.maximum(copies[:, _ENDS] // self.window_us, window), copies)

    def _note(self, came: np.ndarray) -> None:
        """Record what receivers of complete copies know about the senders (rule W7)."""
        back = came[:, _BACK] >= 0
        if back.any():
            came = came[back]
            self._know(came[:, _PUBLICATION], came[:, _BACK], came[:, _ENDS])

    def _know(self, publication: np.ndarray, link: np.ndarray, at_us: np.ndarray) -> None:
        slot = self._link_base[publication] + link
        self._known[slot] = np.minimum(self._known[slot], at_us)

    def _firsts(self, came: np.ndarray) -> np.ndarray:
        """Return the first copies among complete ones; their nodes enqueue batches (rule W6)."""
        slot = self._place_base[came[:, _PUBLICATION]] + came[:, _PLACE]
        row = np.flatnonzero(~self._has[slot])
        if len(row):
            new = came[row]
            at_us = new[:, _ENDS] - new[:, _ENDS].min()
            ranks = slot[row], at_us, new[:, _HOPS], new[:, _SENDER]
            row = row[order_of(*ranks, *new[:, _WIDTH:].T)]
            row = row[run_starts(slot[row])]
        self._has[slot[row]] = True
        self._keep(came, row)
        columns = [_ENDS, _PUBLICATION, _PLACE, _SENDER, _HOPS, _BACK]
        first = came[row][:, columns + [_WIDTH + n for n in range(len(self.given.carried))]]
        self._arrivals.append(first)
        waits = self.given.nodes.validation_us[self._node[first[:, _AT_PLACE]]]
        self._enqueued.add((first[:, _AT] + waits) // self.window_us, first)
        return first

    def _keep(self, came: np.ndarray, firsts: np.ndarray) -> None:
        """Store copies as results; the rows `firsts` are first copies."""
        first = np.zeros(len(came), dtype=bool)
        first[firsts] = True
        columns = {name: came[:, column] for name, column in _KEPT.items()}
        columns |= {name: came[:, _WIDTH + n] for n, name in enumerate(self.given.carried)}
        self._copies.add({**columns, "first": first})

    def _unwanted(self, first: np.ndarray) -> dict[str, np.ndarray]:
        """Return IDONTWANTs to all peers except the first copy's sender (rule W7)."""
        least = self.given.discipline.idontwant
        if least is None:
            return {}
        first = first[self.given.publications.size[first[:, _OF]] >= least]
        of, link = self._links_of(first[:, _AT_PLACE])
        links = self.links
        told = links.mesh[link] & (link != first[of, _FROM_LINK])
        told &= self._back[link] >= 0
        of, link = of[told], link[told]
        return {
            "peer": links.peer[link],
            "publication": first[of, _OF],
            "link": self._back[link],
            "at_us": first[of, _AT] + links.delay_us[link],
        }

    def _links_of(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return expand(self._first_link[place], self._end_link[place])

    # --- steps 3 and 4 of a window

    def send(self, window: int, unwanted: Columns | None) -> tuple[np.ndarray, np.ndarray]:
        """Enqueue batches and start copies; return the receivers and the copies."""
        if unwanted is not None:
            self._know(unwanted["publication"], unwanted["link"], unwanted["at_us"])
        self._enqueue(self._enqueued.take(window))
        return self._leave(self.uplinks.start(window, self.window_us, self._when_known))

    def _when_known(self, publication: np.ndarray, link: np.ndarray) -> np.ndarray:
        if not len(self._known):
            return np.full(len(link), _NEVER)
        return self._known[self._link_base[publication] + link]

    def _enqueue(self, first: np.ndarray) -> None:
        """Enqueue the batches of nodes with a new first copy, and of sources (rule W2)."""
        if not len(first):
            return
        given, place = self.given, first[:, _AT_PLACE]
        node, publication = self._node[place], first[:, _OF]
        uplink = place if self._link_of is None else self._link_of[place]
        waits = np.where(first[:, _AFTER] > 0, given.nodes.validation_us[node], 0)
        at_us = first[:, _AT] + waits
        order = order_of(uplink, at_us - at_us.min(), publication)
        first, uplink, at_us = first[order], uplink[order], at_us[order]
        place, node, publication = place[order], node[order], publication[order]
        of, link = self._links_of(place)
        sends = self._sends(first, of, link)
        of, link = of[sends], link[sends]
        if given.discipline.uplink != INTERLEAVED:  # interleaved copies of a batch start together
            rank = self._rank(publication[of], node[of], link)
            in_turn = np.lexsort((rank, of))  # a place's links are sorted by receiver
            of, link = of[in_turn], link[in_turn]
        copies = np.bincount(of, minlength=len(first))
        takes_us = transmission_us(given.publications.size[publication], given.nodes.up[node])
        can_be_held = np.bincount(of[self._back[link] >= 0], minlength=len(first)) > 0
        whole = ~can_be_held | (takes_us == 0)
        batches = QueuedBatches(
            uplink, publication, at_us, takes_us, first[:, _AFTER], copies, whole
        )
        self.uplinks.enqueue(batches.take(copies > 0), link, self.window_us)

    def _rank(self, publication: np.ndarray, node: np.ndarray, link: np.ndarray) -> np.ndarray:
        """Return the numbers by which the copies of a batch are sorted; rule W2."""
        given = self.given
        if given.discipline.seed is None:
            return self.links.order[link]
        peer = self.links.peer[link]
        return given.discipline.order_of(given.nodes.number, publication, node, peer)

    def _sends(self, first: np.ndarray, of: np.ndarray, link: np.ndarray) -> np.ndarray:
        """Return True for links on which nodes send."""
        links, given = self.links, self.given
        published = given.publications
        floods = (first[:, _AFTER] == 0) & published.flood[first[:, _OF]]
        sends = links.mesh[link] | floods[of]
        if given.discipline.spares:
            sends &= link != first[of, _FROM_LINK]
            to_source = links.peer[link] == published.source[first[of, _OF]]
            sends &= ~(to_source & (links.to_room[link] == published.room[first[of, _OF]]))
        if given.rule is not None:
            named = {"group": links.room[link] // ROOMS, "node": links.node[link]}
            edges = {**named, "peer": links.peer[link]}
            edges |= {name: column[link] for name, column in self._extra.items()}
            edges = {name: column.astype(np.int64) for name, column in edges.items()}
            label = {**named, "at_us": first[of, _AT], "sender": first[of, _FROM]}
            label |= {"hops": first[of, _AFTER]}
            label |= {name: first[of, _FIRST_WIDTH + n] for n, name in enumerate(given.carried)}
            sends &= given.rule(label, edges)
        return sends

    def _leave(self, started: Started) -> tuple[np.ndarray, np.ndarray]:
        """Return the receivers of started copies, and the copies."""
        link = started.link
        copies = np.empty((len(link), _WIDTH + len(self.given.carried)), dtype=np.int64)
        copies[:, _ARRIVES] = started.start_us + self.links.delay_us[link]
        copies[:, _ENDS] = copies[:, _ARRIVES] + started.spans_us
        copies[:, _PUBLICATION], copies[:, _PLACE] = started.publication, self._head[link]
        copies[:, _BACK], copies[:, _SENDER] = self._back[link], self.links.node[link]
        copies[:, _HOPS], copies[:, _START] = started.hops + 1, started.start_us
        for n, name in enumerate(self.given.carried):
            copies[:, _WIDTH + n] = self._extra[name][link]
        return self.links.peer[link], copies

    # --- results

    def arrivals(self) -> dict[str, np.ndarray]:
        """Return first copies (at sources, too), sorted by publication, room and node."""
        rows = np.concatenate(self._arrivals)
        self._arrivals.clear()
        rows = rows[np.lexsort((rows[:, _AT_PLACE], rows[:, _OF]))]
        place = rows[:, _AT_PLACE]
        return {
            "publication": rows[:, _OF],
            "room": self._room[place],
            "node": self._node[place],
            "at_us": rows[:, _AT],
            "hops": rows[:, _AFTER],
            "sender": rows[:, _FROM],
            **{name: rows[:, _FIRST_WIDTH + n] for n, name in enumerate(self.given.carried)},
        }

    def copies(self) -> dict[str, np.ndarray]:
        """Return all copies, in any order, in the types in which they are stored."""
        kept = self.given.kept
        columns = {name: self._copies.take(name) for name in kept if name in self._copies}
        if "place" in self._copies:
            place = self._copies.take("place")
            names = {"room": self._room, "node": self._node}
            columns |= {name: of[place] for name, of in names.items() if name in kept}
        return columns


def _empty_copies(given: ClockSetting) -> Collected:
    """Return a table for the columns of copies that are results.

    Rooms and nodes are stored as places.
    """
    kept = {"place" if name in ("room", "node") else name for name in given.kept}
    numbers = dict.fromkeys(("publication", "place", "sender", "hops"), np.int32)
    times = dict.fromkeys(("sent_us", "at_us", *given.carried), np.int64)
    kinds: dict[str, DTypeLike] = {**numbers, **times, "first": np.bool_}
    return Collected(**{name: kind for name, kind in kinds.items() if name in kept})


def _by_place(columns: Columns, size: int) -> Columns:
    """Sort links by room, node and peer."""
    rooms = 1 + int(columns["room"].max(initial=0))
    parts = [columns[name] for name in ("room", "node", "peer")]
    (key,) = common_keys((rooms, size, size), parts)
    if (key[1:] >= key[:-1]).all():
        return columns
    order = np.argsort(key, kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _compact(column: np.ndarray) -> np.ndarray:
    """Return a column in the smallest type that holds its values."""
    return np.broadcast_to(smallest(column), column.shape)


def _bases(topic: np.ndarray, published: np.ndarray) -> tuple[np.ndarray, int]:
    """Return offsets that turn indices into numbers by publication, and the number of these.

    Index i belongs to publication p with the number ``offset[p] + i``.

    Parameters
    ----------
    topic : ndarray of int64
        The topics of the rows, ascending.
    published : ndarray of int64, shape (P,)
        The topic of each publication.
    """
    first, last = np.searchsorted(topic, published), np.searchsorted(topic, published, side="right")
    ends = np.cumsum(last - first)
    return ends - (last - first) - first, int(ends[-1]) if len(ends) else 0
