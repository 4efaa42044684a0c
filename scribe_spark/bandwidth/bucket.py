"""The state of a bucket's nodes, and the four steps of a *window*, an interval of simulated time.

A copy that starts at time s is not complete before s + L, where L is the least delay plus the least
transmission time of a message.  Nodes react only to complete copies.  So everything that happens in
the window from t to t + L depends only on copies that started before t.  A *place* is a node in a
room (:mod:`.setting`).  A *batch* is the copies that a node enqueues at its uplink for one first
copy.  Rules: docs/rules.md, W1 to W8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.bandwidth.queues import Calendar, Downlinks, Started, Uplinks
from scribe_spark.bandwidth.setting import (
    INTERLEAVED,
    ROOMS,
    Discipline,
    Nodes,
    Parts,
    Rule,
    TimedLinks,
    TimedPublications,
    transmission_us,
)
from scribe_spark.core.arrays import NONE, distinct, expand, find_sorted, index_in_run, run_starts
from scribe_spark.core.keys import common_keys, key_of, order_of
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.packing import Columns, smallest, take

#: A time later than any other: the node does not know that a peer has a publication.
_NEVER = np.iinfo(np.int64).max

#: A copy in transit is a row of eight int32.  The first four are two times (:func:`_times`): the
#: first byte of the copy arrives at `_ARRIVES` and the last one at `_ENDS`.  `_LINK` is the number
#: of the link among the links to the receiver's bucket; NONE for the publication of a source.
_ARRIVES, _ENDS = range(2)
_PUBLICATION, _LINK, _HOPS, _PLACE = range(4, 8)
_WIDTH = 8

#: An IDONTWANT is a row of four int32: a time, the publication and the link of the sender.
_OF, _TO = 2, 3
_UNWANTED_WIDTH = 4

#: The columns of copies that are kept without a calculation.
_KEPT = {"publication": _PUBLICATION, "place": _PLACE, "hops": _HOPS}

#: The columns of `ClockBucket.copies` that can be kept, besides the carried ones.
ALL_OF_COPIES = (*("publication", "room", "node", "sender", "hops"), *("sent_us", "at_us", "first"))


@dataclass(frozen=True)
class ClockSetting:
    """The input of the clock of all buckets: nodes, publications, rules of sending, and results."""

    nodes: Nodes
    publications: TimedPublications
    discipline: Discipline
    #: ``rule(first, links)`` returns True for links on which a node sends, given its first copy;
    #: None for all links.
    rule: Rule | None = None
    carried: tuple[str, ...] = ()  # Columns of links that copies carry to the receiver
    #: The columns of copies that are results, out of :data:`ALL_OF_COPIES` and `carried`; copies
    #: take most of a bucket's memory.
    kept: tuple[str, ...] = ALL_OF_COPIES
    #: The copies that the network loses; if there are any, kept copies also have the column
    #: ``lost``.  A lost copy takes its sender's uplink only.
    lost: Lost | None = None
    #: ``narrowest(node, peer)`` returns the rates of the narrowest links of routes (0: no limit);
    #: None if links between routers have no rates.
    narrowest: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    late: Late | None = None  # the jitter of copies but those on ways from sources to roots
    parts: Parts = field(default_factory=Parts)
    #: ``useful(message, sender, receiver)`` returns True for useful copies, by numbers of nodes, if
    #: nodes recode parts: rule W15; None: nodes forward the parts that they get.
    useful: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def least_time_us(self) -> int:
        """Return a lower bound of the transmission time of every copy, in microseconds."""
        size = int(self.publications.size.min(initial=0))
        ends = (transmission_us(size, rate) for rate in (self.nodes.up, self.nodes.down))
        return max(int(taken.min(initial=0)) if len(taken) else 0 for taken in ends)


class ClockBucket:
    """The nodes of a bucket, with the positions `first` to `last`, in windows of time.

    `columns` has the links on which these nodes send (`TimedLinks`), and columns for the rule.
    """

    def __init__(self, given: ClockSetting, columns: Columns, first: int, last: int) -> None:
        self.given, self.first, size = given, first, len(given)
        columns = _by_place(columns, size)
        self.links = links = TimedLinks.from_columns(columns)
        starts = run_starts(links.room, links.node)
        self._senders = key_of([links.room[starts], links.node[starts]], size)
        self._starts, self._ends = starts, np.append(starts[1:], len(links))
        self._narrowest = given.narrowest and given.narrowest(links.node, links.peer)
        columns = {name: compact(column) for name, column in columns.items()}
        self.links = TimedLinks.from_columns(columns)
        extra = set(columns) - set(TimedLinks.__dataclass_fields__)
        self._extra = {name: columns[name] for name in sorted(extra)}
        source = given.publications.source
        self._mine = np.flatnonzero((source >= first) & (source < last))
        self._copies = _empty_copies(given)
        self._arrivals: list[np.ndarray] = []

    # --- before the first window: both ends of a link exchange the link's numbers

    def offer(self) -> dict[str, np.ndarray]:
        """Return a message for each link that begins in this bucket, to its other end."""
        links = self.links
        number = np.arange(len(links), dtype=np.int32)
        told = {"room": links.to_room, "from_room": links.room, "tail": links.node, "link": number}
        if "sent_us" in self.given.kept:
            told["delay_us"] = links.delay_us
        return told | {f"carried {name}": self._extra[name] for name in self.given.carried}

    def answer(self, node: np.ndarray, offered: Columns) -> dict[str, np.ndarray]:
        """Record and number the links to nodes of this bucket; return both numbers of each link."""
        given, size = self.given, len(self.given)
        head = key_of([offered["room"], node], size)
        order = order_of(head)
        starts = run_starts(head[order])
        heads, counts = head[order[starts]], np.diff(starts, append=len(head))
        published = given.publications
        sources = key_of([published.room[self._mine], published.source[self._mine]], size)
        others = [keys[find_sorted(self._senders, keys) < 0] for keys in (heads, sources)]
        self.places = distinct(np.concatenate([self._senders, *others]))
        place = np.repeat(find_sorted(self.places, heads).astype(np.int32), counts)
        self._back = np.full(len(head), NONE, dtype=np.int32)
        if given.discipline.held_back and len(self._senders):
            room, peer = offered["from_room"][order], offered["tail"][order]
            self._back[order] = self._ways_back(place, room, peer)
        self._can_be_told = np.zeros(len(self.links), dtype=bool)
        self._can_be_told[self._back[self._back >= 0]] = True
        self._to_place = np.empty(len(head), dtype=np.int32)
        self._to_place[order] = place
        self._from, self._delay_us = offered["tail"], offered.get("delay_us")
        self._from_room = offered["from_room"]
        self._carried = [offered[f"carried {name}"] for name in given.carried]
        return {"link": offered["link"], "number": np.arange(len(head), dtype=np.int32)}

    def _ways_back(self, place: np.ndarray, room: np.ndarray, peer: np.ndarray) -> np.ndarray:
        """Return the link from each place (ascending) to a peer in a room; NONE without link."""
        links, at = self.links, find_sorted(self.places, self._senders).astype(np.int32)
        at = np.repeat(at, self._ends - self._starts)
        sizes = len(self.places), ROOMS, len(self.given)  # the two rooms are of one topic
        here, there = (at, links.to_room % ROOMS, links.peer), (place, room % ROOMS, peer)
        mine, wanted = common_keys(sizes, here, there)
        if (mine[1:] >= mine[:-1]).all():
            return find_sorted(mine, wanted).astype(np.int32)
        order = np.argsort(mine)
        return np.append(order, NONE)[find_sorted(mine[order], wanted)].astype(np.int32)

    def begin(self, answered: Columns | None, window_us: int, least_delay_us: int) -> None:
        """Store the receivers' numbers of links (from :meth:`answer`), and let sources publish."""
        given, links, size = self.given, self.links, len(self.given)
        self.window_us, self._least_delay_us = window_us, least_delay_us
        self._number = np.full(len(links), NONE, dtype=np.int32)
        if answered is not None:
            self._number[answered["link"]] = answered["number"]
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
        self._parts = np.zeros(places if given.useful else 0, dtype=np.int32)  # by first part
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
        calendars = (Calendar(_WIDTH, np.int32) for _ in range(3))
        self._coming, self._complete, self._enqueued = calendars
        # 4. rule W1
        mine = self._mine
        source = key_of([given.publications.room[mine], given.publications.source[mine]], size)
        rows = np.zeros((len(mine), _WIDTH), dtype=np.int32)
        _times(rows)[:, _ENDS] = given.publications.at_us[mine]
        rows[:, _PUBLICATION], rows[:, _LINK] = mine, NONE
        rows[:, _PLACE] = find_sorted(self.places, source)
        self._has[self._place_base[mine] + rows[:, _PLACE]] = True
        if given.useful is not None:
            first = given.parts.publication(mine)
            self._parts[self._place_base[first] + rows[:, _PLACE]] = given.parts.needed
        self._arrivals.append(rows)
        self._enqueued.add(given.publications.at_us[mine] // window_us, rows)

    def first_window(self) -> int | None:
        """Return the first window (its number) in which something happens here; None without."""
        waits = self._coming, self._complete, self._enqueued, self.uplinks
        return min((due for one in waits if (due := one.first()) is not None), default=None)

    # --- steps 1 and 2 of a window

    def receive(self, window: int, copies: np.ndarray | None) -> dict[str, np.ndarray]:
        """Receive copies (packed rows); return the IDONTWANTs for first copies of this window.

        Copies that were received before may also become complete in this window.
        """
        if copies is not None:
            if not copies.flags.writeable:  # they are the bytes of a message
                copies = copies.copy()
            copies[:, _PLACE] = self._to_place[copies[:, _LINK]]
            if self.given.lost is not None:
                copies = self._without_lost(copies)
            self._coming.add(self.due(copies), copies)
        self._scan(window, self._coming.take(window))
        came = self._complete.take(window)
        if not len(came):
            return {}
        self._note(came)
        return self._unwanted(self._firsts(came))

    def _without_lost(self, copies: np.ndarray) -> np.ndarray:
        """Store the copies that the network loses as results, and return the other copies."""
        is_lost = copies[:, _HOPS] < 0
        lost = copies[is_lost]
        lost[:, _HOPS] *= -1
        self._keep(lost, np.empty(0, dtype=np.int64), are_lost=True)
        return copies[~is_lost]

    def due(self, copies: np.ndarray) -> np.ndarray:
        """Return for each copy the window in which its downlink can serve it.

        No copy that arrives earlier can start after this window has begun.
        """
        return (_times(copies)[:, _ARRIVES] - self._least_delay_us) // self.window_us + 1

    def _scan(self, window: int, copies: np.ndarray) -> None:
        """Compute when copies that arrive in a window are complete at their receivers (rule W5)."""
        if not len(copies):
            return
        if self._limited:
            at_us, downlink = _times(copies)[:, _ARRIVES], self._links_at(copies[:, _PLACE])
            ranks = copies[:, _PUBLICATION], *self._ranks(copies)
            copies = copies.take(order_of(downlink, at_us - at_us.min(), *ranks), axis=0)
            given, times, place = self.given, _times(copies), copies[:, _PLACE]
            size = given.publications.size[copies[:, _PUBLICATION]]
            takes_us = transmission_us(size, given.nodes.down[self._node[place]])
            done = self._downlinks.take(self._links_at(place), times[:, _ARRIVES], takes_us)
            times[:, _ENDS] = np.maximum(times[:, _ENDS], done)
        due = np.maximum(_times(copies)[:, _ENDS] // self.window_us, window)
        self._complete.add(due, copies)

    def _ranks(self, copies: np.ndarray) -> list[np.ndarray]:
        """Return the columns that sort copies if all else is equal: sender and carried columns."""
        link = copies[:, _LINK]
        return [self._from[link], *(column[link] for column in self._carried)]

    def _links_at(self, place: np.ndarray) -> np.ndarray:
        """Return the index of the uplink (and downlink) of the node at each place."""
        return place if self._link_of is None else self._link_of[place]

    def _note(self, came: np.ndarray) -> None:
        """Record that the senders of complete copies have the publications (rule W7)."""
        back = self._back[came[:, _LINK]]
        row = np.flatnonzero((back >= 0) & self._tells(came[:, _PUBLICATION]))
        if len(row):
            ends = _times(came)[row, _ENDS]
            self._know(came[row, _PUBLICATION], back[row], ends)

    def _tells(self, publication: np.ndarray) -> np.ndarray:
        """Return True for copies that show that their senders have the whole publication."""
        if self.given.useful is None:
            return np.ones(len(publication), dtype=bool)
        return self.given.parts.last(publication) == publication

    def _know(self, publication: np.ndarray, link: np.ndarray, at_us: np.ndarray) -> None:
        slot = self._link_base[publication] + link
        self._known[slot] = np.minimum(self._known[slot], at_us)

    def _firsts(self, came: np.ndarray) -> np.ndarray:
        """Return the first copies among complete copies `came`; their nodes enqueue batches."""
        row, first = self._new(came) if self.given.useful is None else self._useful(came)
        self._keep(came, row)
        self._arrivals.append(first)
        waits = self.given.nodes.validation_us[self._node[first[:, _PLACE]]]
        self._enqueued.add((_times(first)[:, _ENDS] + waits) // self.window_us, first)
        return first

    def _new(self, came: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first copies of messages at places: their rows in `came`, and the copies."""
        slot = self._place_base[came[:, _PUBLICATION]] + came[:, _PLACE]
        row = np.flatnonzero(~self._has[slot])
        if len(row):
            new = came.take(row, axis=0)
            at_us = _times(new)[:, _ENDS]
            order = order_of(slot[row], at_us - at_us.min(), new[:, _HOPS], *self._ranks(new))
            row = row[order]
            row = row[run_starts(slot[row])]
        self._has[slot[row]] = True
        return row, came.take(row, axis=0)

    def _useful(self, came: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the copies whose parts their receivers lack: rows in `came`, and copies (W15)."""
        parts, useful, number = self.given.parts, self.given.useful, self.given.nodes.number
        assert useful is not None
        message, place = came[:, _PUBLICATION].astype(np.int64), came[:, _PLACE]
        slot = self._place_base[parts.publication(message)] + place
        ends = number[self._from[came[:, _LINK]]], number[self._node[place]]
        row = np.flatnonzero((self._parts[slot] < parts.needed) & useful(message, *ends))
        new, at_us = came.take(row, axis=0), _times(came)[row, _ENDS]
        ranks = at_us - at_us.min(initial=0), new[:, _HOPS], *self._ranks(new)
        row = row[order_of(slot[row], *ranks, message[row])]
        part = self._parts[slot[row]] + index_in_run(slot[row])
        row, part = row[part < parts.needed], part[part < parts.needed]
        np.maximum.at(self._parts, slot[row], part + 1)
        taken = came.take(row, axis=0)
        taken[:, _PUBLICATION] = parts.publication(message[row]) + part
        return row, taken

    def _keep(self, came: np.ndarray, firsts: np.ndarray, are_lost: bool = False) -> None:
        """Store the results of copies (`ClockSetting.kept`); the rows `firsts` are first copies."""
        link, times = came[:, _LINK], _times(came)
        for name in self._copies:
            if name == "first":
                column = np.zeros(len(came), dtype=bool)
                column[firsts] = True
            elif name == "lost":
                column = np.full(len(came), are_lost)
            elif name in _KEPT:
                column = came[:, _KEPT[name]]
            elif name == "at_us":
                column = times[:, _ENDS]
            elif name == "sent_us":
                assert self._delay_us is not None
                column = times[:, _ARRIVES] - self._delays(
                    *(came[:, _PUBLICATION], self._from[link], self._node[came[:, _PLACE]]),
                    *(self._from_room[link], self._delay_us[link]),
                )
            elif name == "sender":
                column = self._from[link]
            else:
                column = self._carried[self.given.carried.index(name)][link]
            parts = self._copies[name]
            parts.append(column.astype(parts[0].dtype))

    def _unwanted(self, first: np.ndarray) -> dict[str, np.ndarray]:
        """Return the IDONTWANTs of nodes with a first copy, to all peers but its sender (W7)."""
        least = self.given.discipline.idontwant
        if least is None:
            return {}
        announced = self.given.publications.size[first[:, _PUBLICATION]] >= least
        announced &= self._tells(first[:, _PUBLICATION])
        lost = self.given.lost
        if lost is not None and lost.withholds_announcements:
            announced &= ~lost.withheld(
                first[:, _PUBLICATION], {"node": self._node[first[:, _PLACE]]}
            )
        first = first.take(np.flatnonzero(announced), axis=0)
        of, link = self._links_of(first[:, _PLACE])
        links = self.links
        told = links.mesh[link] & (link != self._way_back(first)[of])
        told &= self._can_be_told[link]
        of, link = of[told], link[told]
        rows = np.empty((len(of), _UNWANTED_WIDTH), dtype=np.int32)
        _times(rows)[:, 0] = _times(first)[of, _ENDS] + links.delay_us[link]
        rows[:, _OF], rows[:, _TO] = first[of, _PUBLICATION], self._number[link]
        return {"peer": links.peer[link], "told": rows}

    def _way_back(self, first: np.ndarray) -> np.ndarray:
        """Return, for each first copy, the link to its sender; :data:`NONE` if there is none."""
        return _of_links(self._back, first[:, _LINK])

    def _links_of(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return expand(self._first_link[place], self._end_link[place])

    # --- steps 3 and 4 of a window

    def send(self, window: int, unwanted: Columns | None) -> tuple[np.ndarray, np.ndarray]:
        """Enqueue batches and start copies in a window; return the receivers and the copies."""
        if unwanted is not None:
            told = unwanted["told"]
            self._know(told[:, _OF], self._back[told[:, _TO]], _times(told)[:, 0])
        self._enqueue(self._enqueued.take(window))
        return self._leave(self.uplinks.start(window, self.window_us, self._when_known))

    def _when_known(self, publication: np.ndarray, link: np.ndarray) -> np.ndarray:
        if not len(self._known):
            return np.full(len(link), _NEVER)
        if self.given.useful is not None:
            publication = self.given.parts.last(publication)
        return self._known[self._link_base[publication] + link]

    def _enqueue(self, first: np.ndarray) -> None:
        """Enqueue the batches of nodes with a new first copy, and of sources (rule W2)."""
        if not len(first):
            return
        given, place = self.given, first[:, _PLACE]
        node, publication = self._node[place], first[:, _PUBLICATION]
        uplink = self._links_at(place)
        waits = np.where(first[:, _HOPS] > 0, given.nodes.validation_us[node], 0)
        at_us = _times(first)[:, _ENDS] + waits
        order = order_of(uplink, at_us - at_us.min(), publication)
        first, uplink, at_us = first.take(order, axis=0), uplink[order], at_us[order]
        place, node, publication = first[:, _PLACE], node[order], first[:, _PUBLICATION]
        of, link = self._links_of(place)
        sends = self._sends(first, of, link)
        of, link = of[sends], link[sends]
        if given.discipline.uplink != INTERLEAVED:  # interleaved copies of a batch start together
            rank = self._rank(publication[of], node[of], link)
            in_turn = np.lexsort((rank, of))  # a place's links are sorted by receiver
            of, link = of[in_turn], link[in_turn]
        copies = np.bincount(of, minlength=len(first))
        takes_us = transmission_us(given.publications.size[publication], given.nodes.up[node])
        can_be_held = np.bincount(of[self._can_be_told[link]], minlength=len(first)) > 0
        whole = ~can_be_held | (takes_us == 0)
        batches = {
            **{"uplink": uplink, "publication": publication, "hops": first[:, _HOPS]},
            **{"at_us": at_us, "takes_us": takes_us, "copies": copies, "whole": whole},
        }
        self.uplinks.enqueue(take(batches, copies > 0), link, self.window_us)

    def _rank(self, publication: np.ndarray, node: np.ndarray, link: np.ndarray) -> np.ndarray:
        """Return the number of each copy, by which the copies of a batch are sorted; rule W2."""
        given = self.given
        if given.discipline.seed is None:
            return self.links.order[link]
        peer = self.links.peer[link]
        return given.discipline.order_of(given.nodes.number, publication, node, peer)

    def _sends(self, first: np.ndarray, of: np.ndarray, link: np.ndarray) -> np.ndarray:
        """Return True for each link on which a node sends its copies of a publication: bool."""
        links, given = self.links, self.given
        published = given.publications
        of_first = first[:, _PUBLICATION]
        floods = (first[:, _HOPS] == 0) & published.flood[of_first]
        sends = links.mesh[link] | floods[of]
        if given.discipline.spares:
            sends &= link != self._way_back(first)[of]
            to_source = links.peer[link] == published.source[of_first][of]
            sends &= ~(to_source & (links.to_room[link] == published.room[of_first][of]))
        if given.lost is not None:
            ends = {"node": links.node[link], "peer": links.peer[link]}
            sends &= ~given.lost.withheld(of_first[of], ends)
        if given.rule is not None:
            named = {"group": links.room[link] // ROOMS, "node": links.node[link]}
            edges = {**named, "peer": links.peer[link]}
            edges |= {name: column[link] for name, column in self._extra.items()}
            label = {**named, **{name: column[of] for name, column in self._label(first).items()}}
            edges, label = (_wide(columns) for columns in (edges, label))
            sends &= given.rule(label, edges)
        return sends

    def _label(self, first: np.ndarray) -> dict[str, np.ndarray]:
        """Return first copies as columns for the rule: times, senders, hops and carried columns."""
        link, carried = first[:, _LINK], zip(self.given.carried, self._carried, strict=True)
        return {
            "at_us": _times(first)[:, _ENDS],
            "sender": _of_links(self._from, link),
            "hops": first[:, _HOPS],
            **{name: _of_links(column, link) for name, column in carried},
        }

    def _leave(self, started: Started) -> tuple[np.ndarray, np.ndarray]:
        """Return the receivers of the copies that have started, and the copies as packed rows."""
        link, links = started.link, self.links
        copies = np.zeros((len(link), _WIDTH), dtype=np.int32)
        times = _times(copies)
        times[:, _ARRIVES] = started.start_us + self._delays(
            *(started.publication, links.node[link], links.peer[link]),
            *(links.room[link], links.delay_us[link]),
        )
        spans_us = started.spans_us
        if self._narrowest is not None:
            size = self.given.publications.size[started.publication]
            spans_us = np.maximum(spans_us, transmission_us(size, self._narrowest[link]))
        times[:, _ENDS] = times[:, _ARRIVES] + spans_us
        copies[:, _PUBLICATION], copies[:, _HOPS] = started.publication, started.hops + 1
        copies[:, _LINK] = self._number[link]
        if self.given.lost is not None:
            columns = {"node": links.node, "peer": links.peer, **self._extra}
            taken = _wide({name: column[link] for name, column in columns.items()})
            copies[self.given.lost(started.publication, taken), _HOPS] *= -1
        return links.peer[link], copies

    def _delays(
        self,
        publication: np.ndarray,
        sender: np.ndarray,
        receiver: np.ndarray,
        room: np.ndarray,
        delay_us: np.ndarray,
    ) -> np.ndarray:
        """Return the delays of copies in microseconds: the delays of their links, with jitter."""
        late = self.given.late
        if late is None:
            return delay_us
        delay_us = delay_us.astype(np.int64)
        links = _wide({"node": sender, "peer": receiver})
        on_way = room % ROOMS == 1
        return delay_us + late(publication, links, np.where(on_way, 0, delay_us))

    # --- results

    def arrivals(self) -> dict[str, np.ndarray]:
        """Return the table of first copies (also at sources), by publication, room and node."""
        rows = np.concatenate(self._arrivals)
        self._arrivals.clear()
        rows = rows.take(order_of(rows[:, _PUBLICATION], rows[:, _PLACE]), axis=0)
        place = rows[:, _PLACE]
        named = {"publication": rows[:, _PUBLICATION], "room": self._room[place]}
        return _wide({**named, "node": self._node[place], **self._label(rows)})

    def copies(self) -> dict[str, np.ndarray]:
        """Return the table of all copies, in any order, in the types in which they are stored."""
        columns, kept = {}, self.given.kept
        for name in list(self._copies):
            columns[name] = np.concatenate(self._copies.pop(name))
        if "place" in columns:
            place, names = columns.pop("place"), {"room": self._room, "node": self._node}
            columns |= {name: of[place] for name, of in names.items() if name in kept}
        return columns


def _empty_copies(given: ClockSetting) -> dict[str, list[np.ndarray]]:
    """Return empty lists of arrays for the columns of copies that are results."""
    kept = {"place" if name in ("room", "node") else name for name in given.kept}
    numbers = dict.fromkeys(("publication", "place", "sender", "hops"), np.int32)
    times = dict.fromkeys(("sent_us", "at_us", *given.carried), np.int64)
    kinds: dict[str, DTypeLike] = {**numbers, **times, "first": np.bool_, "lost": np.bool_}
    if given.lost is not None and kept:
        kept.add("lost")
    return {name: [np.empty(0, dtype=kind)] for name, kind in kinds.items() if name in kept}


def _times(rows: np.ndarray) -> np.ndarray:
    """Return the columns of rows of int32 as half as many columns of int64: a view."""
    return rows.view(np.int64)


def _of_links(column: np.ndarray, link: np.ndarray) -> np.ndarray:
    """Return the value of each link in a column, :data:`NONE` for no link: int64."""
    found = np.full(len(link), NONE, dtype=np.int64)
    row = np.flatnonzero(link >= 0)
    found[row] = column[link[row]]
    return found


def _wide(columns: Columns) -> dict[str, np.ndarray]:
    return {name: column.astype(np.int64, copy=False) for name, column in columns.items()}


def _by_place(columns: Columns, size: int) -> Columns:
    """Return links sorted by room, node and peer; `size` is the number of nodes."""
    rooms = 1 + int(columns["room"].max(initial=0))
    parts = [columns[name] for name in ("room", "node", "peer")]
    (key,) = common_keys((rooms, size, size), parts)
    if (key[1:] >= key[:-1]).all():
        return columns
    order = np.argsort(key, kind="stable")
    return {name: column[order] for name, column in columns.items()}


def compact(column: np.ndarray) -> np.ndarray:
    """Return a column in the smallest type that holds its values."""
    return np.broadcast_to(smallest(column), column.shape)


def _bases(topic: np.ndarray, published: np.ndarray) -> tuple[np.ndarray, int]:
    """Return offsets into an array with an element for each pair (publication, row of its topic).

    Publication p has element ``offset[p] + i`` for each row i of its topic.  `topic` has the topics
    of all rows, ascending, and `published` those of the publications.  The second result is the
    length of the array.
    """
    first, last = np.searchsorted(topic, published), np.searchsorted(topic, published, side="right")
    ends = np.cumsum(last - first)
    return ends - (last - first) - first, int(ends[-1]) if len(ends) else 0
