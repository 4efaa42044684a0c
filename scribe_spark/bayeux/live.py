"""Bayeux in a world: a round of all nodes.

References
----------
docs/rules.md, B11 to B20.  JSAC 2002, Section V; NGC 2001, Section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from scribe_spark.bayeux.next_hop import table_hop
from scribe_spark.bayeux.pending import Pending
from scribe_spark.bayeux.sessions import TABLE
from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    distinct,
    expand,
    find_sorted,
    flags,
    key_of,
    whole_numbers,
)
from scribe_spark.engine.program import AT, Columns, Tables
from scribe_spark.living import LivingRound, Publications, SystemRound
from scribe_spark.pastry.arrivals import closeness
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.routes import Met, count_hop, hop, route_to_edge, unrouted
from scribe_spark.pastry.arrivals.states import IsAlive, States

__all__ = ["LiveBayeux"]

_JOIN, _TREE, _LEAVE, _PRUNE = "JOIN", "TREE", "LEAVE", "PRUNE"
_MULTICAST, _PAYLOAD = "MULTICAST", "payload"

#: As of `routes.hop`.
RoutingRule = Callable[[States, IsAlive, np.ndarray, Keys], tuple[np.ndarray, Met]]


@dataclass
class Members(SortedTable):
    """Members, by (group, node).

    Attributes
    ----------
    number : ndarray of int64
        The round of the last JOIN.
    waits : ndarray of bool
        Whether no TREE has come yet.
    """

    number: np.ndarray = field(default_factory=whole_numbers)
    waits: np.ndarray = field(default_factory=flags)


@dataclass
class Lists(SortedTable):
    """Entries of member lists, by (group, node, member).

    Attributes
    ----------
    next : ndarray of int64
        The next hop.
    number, written : ndarray of int64
        The round of the member's JOIN, and that in which the entry was put there.
    """

    next: np.ndarray = field(default_factory=whole_numbers)
    number: np.ndarray = field(default_factory=whole_numbers)
    written: np.ndarray = field(default_factory=whole_numbers)


@dataclass(frozen=True)
class _Routes:
    """What became of m messages.

    Attributes
    ----------
    at : ndarray of int64, shape (m,)
        The last node of each.
    delivered : ndarray of bool, shape (m,)
    message, passes_on, onward : ndarray of int64
        Of each hop the message, the node that has it, and its next hop: the node itself at the end.
    """

    at: np.ndarray
    delivered: np.ndarray
    message: np.ndarray
    passes_on: np.ndarray
    onward: np.ndarray


@dataclass(frozen=True)
class LiveBayeux:
    """Bayeux as a world plays it (`living.LiveSystem`).

    Attributes
    ----------
    hops : str
        `sessions.TABLE` or `sessions.LEAF_SET`.
    recreate : int
        After how many rounds a lost session is created again; 0: never.
    """

    hops: str = TABLE
    recreate: int = 0
    payload: tuple[str, ...] = (_MULTICAST, _PAYLOAD)
    control: tuple[str, ...] = (_JOIN, _TREE, _LEAVE, _PRUNE)

    def play(self, tables: Tables, now: LivingRound) -> SystemRound:
        """See `living.LiveSystem`."""
        played = _Round(self, now, tables)
        played.forget_the_dead()
        played.create_sessions()
        played.leave()
        played.join()
        publications = played.publish()
        played.write(tables)
        return SystemRound(played.measures(), publications)


class _Round:
    """A round: the state, and what happens to it."""

    def __init__(self, rules: LiveBayeux, now: LivingRound, tables: Tables) -> None:
        size, groups = len(now.ring), len(now.key_hi)
        self.rules, self.now, self.size = rules, now, size
        self.members, self.lists = Members(), Lists()
        self.root = np.full(groups, NONE, dtype=np.int64)
        self.lost = np.full(groups, NONE, dtype=np.int64)
        self.born = np.full(size, NONE, dtype=np.int64)
        if "sessions" in tables:
            self.members.take_back(tables["members"], _MEMBER, size)
            self.lists.take_back(tables["lists"], _ENTRY, size)
            self.root, self.lost = (tables["sessions"][name].copy() for name in ("root", "lost"))
            self.born = tables["nodes"]["born"].copy()
        self.pending = Pending.of(tables)
        self.keys = Keys(now.key_hi, now.key_lo)

    def write(self, tables: Tables) -> None:
        """Keep the state."""
        tables["members"] = self.members.to_columns(_MEMBER, self.size)
        tables["lists"] = self.lists.to_columns(_ENTRY, self.size)
        tables["sessions"] = {"root": self.root, "lost": self.lost}
        tables["nodes"] = {"born": self.born}
        self.pending.write(tables)

    def measures(self) -> dict[str, float]:
        """Rule B20."""
        node = self.lists.key // self.size % self.size
        entries = np.bincount(node, minlength=self.size)[self.now.alive]
        return {
            "entries.mean": float(entries.mean()),
            "entries.max": float(entries.max()),
            "waiting": float(self.members.waits.sum()),
            "sessions.lost": float((self.lost >= 0).sum()),
        }

    # --- steps 1 and 2

    def forget_the_dead(self) -> None:
        """Nodes that have died forget what they know: rule B12."""
        events, number = self.now.events, self.now.number
        dead = np.zeros(self.size, dtype=bool)
        dead[np.r_[events.fail, events.leave]] = True
        self.members.keep(~dead[self.members.key % self.size])
        self.lists.keep(~dead[self.lists.key // self.size % self.size])
        self.born[np.r_[events.recover, events.arrive]] = number
        self.lost[(self.root >= 0) & (self.lost < 0) & dead[self.root]] = number

    def create_sessions(self) -> None:
        """All of them in round 0, lost ones again: rule B13."""
        after = self.rules.recreate
        again = (self.lost >= 0) & (self.lost + after == self.now.number) & (after > 0)
        made = np.flatnonzero((self.root < 0) | again)
        if not len(made):
            return
        live = np.flatnonzero(self.now.alive)
        self.root[made] = closeness.roots(self.now.ring, live, self.keys.take(made))
        self.lost[made] = NONE
        is_made = np.zeros(len(self.root), dtype=bool)
        is_made[made] = True
        self.lists.keep(~is_made[self.lists.key // self.size**2])
        self.members.waits |= is_made[self.members.key // self.size]

    # --- routes: rule B14

    def _to_root(self, kind: str, start: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Route messages to the roots; whether each has come to that of a session, not lost."""
        root = self.root[group]
        came = start == root
        away = np.flatnonzero(~came)
        routes = self._route(kind, start[away], self.keys.take(group[away]), hop)
        came[away] = routes.delivered
        # who is closer than the root knows the root
        on = np.flatnonzero(routes.delivered & (routes.at != root[away]))
        to = root[away[on]]
        self.now.tally.send(kind, self.now.alive[to], routes.at[on], to)
        return came & (self.lost[group] < 0)

    def _to_member(self, start: np.ndarray, member: np.ndarray) -> tuple[_Routes, np.ndarray]:
        """Route TREEs; and whether each has come to its member."""
        keys = Keys.of_nodes(self.now.ring, member)
        routes = self._route(_TREE, start, keys, table_hop if self.rules.hops == TABLE else hop)
        return routes, routes.delivered & (routes.at == member)

    def _route(self, kind: str, start: np.ndarray, keys: Keys, rule: RoutingRule) -> _Routes:
        states, is_alive = self.now.overlay.states, self.now.overlay.is_alive
        hops = [(whole_numbers(), whole_numbers(), whole_numbers())]

        def hop_of(messages: Columns) -> tuple[np.ndarray, Columns]:
            message, at = messages["message"], messages[AT]
            onward, met = rule(states, is_alive, at, keys.take(message))
            count_hop(partial(self.now.tally.add, kind), at, onward, met)
            hops.append((message, at, onward))
            return onward, messages

        moving = unrouted({AT: start, "message": np.arange(len(start))})
        ended, _ = route_to_edge(moving, hop_of, lambda at: np.ones(len(at), dtype=bool))
        delivered, at = np.zeros(len(start), dtype=bool), start.copy()
        if ended:
            delivered[ended["message"]], at[ended["message"]] = ended["delivered"], ended[AT]
        return _Routes(at, delivered, *map(np.concatenate, zip(*hops, strict=True)))

    # --- steps 3 and 4

    def leave(self) -> None:
        """Members quit: rule B15."""
        group, node = self.now.quit
        row = self.members.find(key_of([group, node], self.size))
        sends = ~self.members.waits[row]
        number = self.members.number[row]
        self.members.drop(row)
        self._send_leaves(node[sends], group[sends], node[sends], number[sends])

    def _send_leaves(
        self, start: np.ndarray, group: np.ndarray, member: np.ndarray, number: np.ndarray
    ) -> None:
        """LEAVEs go to the roots, PRUNEs come back along the lists."""
        came = np.flatnonzero(self._to_root(_LEAVE, start, group))
        if not len(came):
            return
        # of several for a member the one with the largest number
        order = came[np.lexsort((number[came], member[came], group[came]))]
        place = key_of([group[order], member[order]], self.size)
        order = order[np.r_[place[1:] != place[:-1], True]]
        group, member, number = group[order], member[order], number[order]
        at = self.root[group]
        while len(at):
            row = self.lists.find(key_of([group, at, member], self.size))
            there = (row >= 0) & (at != member)
            there[there] = self.lists.number[row[there]] <= number[there]
            row, at = row[there], at[there]
            group, member, number = group[there], member[there], number[there]
            onward, good = self.lists.next[row], self._good(row)
            self.lists.drop(row)
            self.now.tally.send(_PRUNE, good, at, onward)
            at, group, member, number = onward[good], group[good], member[good], number[good]

    def _good(self, row: np.ndarray) -> np.ndarray:
        """Whether messages by entries arrive: rule B12."""
        onward = self.lists.next[row]
        return self.now.alive[onward] & (self.born[onward] <= self.lists.written[row])

    def join(self) -> None:
        """All that wait send JOINs, which roots answer: rule B16."""
        group, node = self.now.join
        self.members.put(key_of([group, node], self.size), number=self.now.number, waits=True)
        row = np.flatnonzero(self.members.waits)
        self.members.number[row] = self.now.number
        group, member = np.divmod(self.members.key[row], self.size)
        came = np.flatnonzero(self._to_root(_JOIN, member, group))
        routes, arrived = self._to_member(self.root[group[came]], member[came])
        number = np.full(len(came), self.now.number, dtype=np.int64)
        self._record(group[came], member[came], number, routes, arrived)
        self.members.waits[row[came[arrived]]] = False

    def _record(
        self,
        group: np.ndarray,
        member: np.ndarray,
        number: np.ndarray,
        routes: _Routes,
        arrived: np.ndarray,
    ) -> None:
        """The nodes on the way of TREEs that have arrived write entries, over older ones."""
        passed = arrived[routes.message] & (routes.onward != routes.passes_on)
        message, onward = routes.message[passed], routes.onward[passed]
        group, member, number = (one[message] for one in (group, member, number))
        key = key_of([group, routes.passes_on[passed], member], self.size)
        # several repairs of a member write the same next hop; the largest number counts
        order = np.lexsort((number, key))
        order = order[np.r_[key[order][1:] != key[order][:-1], np.ones(min(1, len(order)), bool)]]
        key, onward, number = key[order], onward[order], number[order]
        row = self.lists.find(key)
        newer = row < 0
        newer[~newer] = self.lists.number[row[~newer]] <= number[~newer]
        self.lists.put(
            key[newer], next=onward[newer], number=number[newer], written=self.now.number
        )

    # --- steps 5 and 6

    def publish(self) -> Publications:
        """Publications go to the roots, down the trees, and around what is dead."""
        group, source = self.now.publish
        groups = len(self.root)
        at_root = self._to_root(_MULTICAST, source, group)
        # how many of each group: all go the same way
        taken = np.bincount(group[at_root], minlength=groups)
        copied, broken, got = self._disseminate(taken)
        by_tree = self._repair(broken)
        got += np.bincount(by_tree // self.size, minlength=groups)
        heard = distinct(np.r_[copied, by_tree])
        duplicates = taken * (got - np.bincount(heard // self.size, minlength=groups))
        # a source has its own before a TREE brings it
        own = key_of([group[at_root], source[at_root]], self.size)
        again = own[np.isin(own, np.setdiff1d(by_tree, copied))]
        duplicates += np.bincount(again // self.size, minlength=groups)
        self._note(heard, own, taken, np.bincount(group, minlength=groups), duplicates)
        return self.pending.take_due(self.now, self.members.key)

    def _disseminate(self, taken: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Copies go down the lists: rule B17.

        Parameters
        ----------
        taken : ndarray of int64, shape (G,)
            How many publications the root of each group has.

        Returns
        -------
        heard : ndarray of int64
            The (group, node) that have got them, ascending.
        broken : ndarray of int64
            Keys of entries by which copies were lost.
        got : ndarray of int64, shape (G,)
            How often nodes have got each, the root's own among them.
        """
        begun = np.flatnonzero(taken)
        moving = key_of([begun, self.root[begun]], self.size)
        heard, broken = moving, [whole_numbers()]
        got = (taken > 0).astype(np.int64)
        while len(moving):
            begin, end = (np.searchsorted(self.lists.key, (moving + i) * self.size) for i in (0, 1))
            which, row = expand(begin, end)
            good = self._good(row)
            broken.append(self.lists.key[row[~good]])
            copy = distinct((moving[which] * self.size + self.lists.next[row]) * 2 + good)
            copy, good = copy // 2, copy % 2 == 1
            sender, to = copy // self.size, copy % self.size
            group, sender = np.divmod(sender, self.size)
            times = taken[group]
            sent = [np.repeat(one, times) for one in (good, sender, to)]
            self.now.tally.send(_PAYLOAD, *sent)
            got += np.bincount(group[good], minlength=len(got))
            arrived = distinct(group[good] * self.size + to[good])
            moving = np.setdiff1d(arrived, heard, assume_unique=True)
            heard = distinct(np.r_[heard, moving])
        return heard, np.concatenate(broken), got

    def _repair(self, broken: np.ndarray) -> np.ndarray:
        """Senders look for other ways to the members that they did not reach: rule B18.

        Returns
        -------
        ndarray of int64
            (group, member) of each TREE that has come to its member.
        """
        row = self.lists.find(broken)
        number, onward = self.lists.number[row], self.lists.next[row]
        place, member = np.divmod(broken, self.size)
        group, node = np.divmod(place, self.size)
        tried = np.flatnonzero(onward != member)
        routes, arrived = self._to_member(node[tried], member[tried])
        self._record(group[tried], member[tried], number[tried], routes, arrived)
        reached = tried[arrived]
        failed = np.ones(len(broken), dtype=bool)
        failed[reached] = False
        row = self.lists.find(broken[failed])
        self.lists.drop(row[self.lists.written[row] < self.now.number])
        tells = np.flatnonzero(failed & (node != self.root[group]))
        self._send_leaves(node[tells], group[tells], member[tells], number[tells])
        return key_of([group[reached], member[reached]], self.size)

    def _note(
        self,
        heard: np.ndarray,
        own: np.ndarray,
        taken: np.ndarray,
        published: np.ndarray,
        duplicates: np.ndarray,
    ) -> None:
        """Remember who is to get the publications, and who has: rule B19.

        Parameters
        ----------
        heard : ndarray of int64
            The (group, node) that have got all that their root has.
        own : ndarray of int64
            The (group, source) of each of these.
        taken, published, duplicates : ndarray of int64, shape (G,)
        """
        members = self.members.key
        members = members[published[members // self.size] > 0]
        group, node = np.divmod(members, self.size)
        has = find_sorted(heard, members) >= 0
        mine = np.zeros(len(members), dtype=np.int64)
        found = find_sorted(members, own)
        np.add.at(mine, found[found >= 0], 1)
        number, some = self.now.number, np.flatnonzero(published)
        self.pending.add(
            {
                "round": np.full(len(members), number, dtype=np.int64),
                "group": group,
                "node": node,
                "count": published[group],
                "got": np.where(has, taken[group], mine),
            },
            {
                "round": np.full(len(some), number, dtype=np.int64),
                "group": some,
                "duplicates": duplicates[some],
            },
        )


_MEMBER, _ENTRY = ("group", "node"), ("group", "node", "member")
