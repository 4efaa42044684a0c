"""Bayeux in a world: a round, in which the programs that runs play are played, and those of churn.

References
----------
docs/rules.md, B11 to B20.  JSAC 2002, Section V; NGC 2001, Section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scribe_spark.bayeux.joining import JOIN, MEMBER, TREE, Join, Tree
from scribe_spark.bayeux.leaving import LEAVE, PRUNE, QUIT, Leave, Prune
from scribe_spark.bayeux.member_lists import (
    CAME,
    LISTS,
    MEMBERS,
    Forget,
    Lists,
    Members,
    NextHops,
    Record,
    take_tables,
)
from scribe_spark.bayeux.multicast import MULTICAST, SOURCE, Publish, flood
from scribe_spark.bayeux.next_hop import ByKnowledge, table_hop
from scribe_spark.bayeux.pending import Pending
from scribe_spark.bayeux.repair import TRIED, GiveUp, Repair
from scribe_spark.bayeux.routes import SENT, at_root
from scribe_spark.bayeux.sessions import TABLE, Round, Sessions
from scribe_spark.core.arrays import (
    NONE,
    distinct,
    find_sorted,
    key_of,
    read_table,
    whole_numbers,
)
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES, EDGES, START
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import AT, Program, Tables
from scribe_spark.living import LivingRound, Pairs, Publications, SystemRound
from scribe_spark.multicast import HOPS, PAYLOAD
from scribe_spark.pastry.arrivals import closeness
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.arrivals.routes import hop

__all__ = ["LiveBayeux"]


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
    payload: tuple[str, ...] = (MULTICAST, PAYLOAD)
    control: tuple[str, ...] = (JOIN, TREE, LEAVE, PRUNE)

    def play(self, tables: Tables, now: LivingRound) -> SystemRound:
        """See `living.LiveSystem`."""
        return self.play_in(np.array([0, len(now.ring)]), tables, now)

    def play_in(self, bounds: np.ndarray, tables: Tables, now: LivingRound) -> SystemRound:
        """Play a round in buckets with some bounds; they change no result."""
        played = _Round(self, now, tables, bounds)
        played.leave()
        played.join()
        publications = played.publish()
        played.write(tables)
        return SystemRound(played.measures(), publications)


#: What nodes keep: tables, and the power of K by which a key is divided to be that of a pair.
_KEPT: dict[str, tuple[type[Members | Lists], int]] = {MEMBERS: (Members, 0), LISTS: (Lists, 1)}


class _Round:
    """A round: the state, and what happens to it.

    Attributes
    ----------
    sessions : Sessions
        As they are after the events of nodes.
    buckets : list of Tables
    """

    def __init__(
        self, rules: LiveBayeux, now: LivingRound, tables: Tables, bounds: np.ndarray
    ) -> None:
        groups, size = len(now.key_hi), len(now.ring)
        self.now, self.size = now, size
        self.root, self.lost = (np.full(groups, NONE, dtype=np.int64) for _ in range(2))
        self.born = np.full(size, NONE, dtype=np.int64)
        if "sessions" in tables:
            self.root, self.lost = (tables["sessions"][name].copy() for name in ("root", "lost"))
            self.born = tables["nodes"]["born"].copy()
        self.pending = Pending.of(tables)
        self.buckets = [Tables.of({}) for _ in bounds[1:]]
        self._read(tables, bounds)
        self._play_events(rules, bounds)

    def _read(self, tables: Tables, bounds: np.ndarray) -> None:
        """Give the buckets what their nodes know and keep."""
        states = self.now.overlay.states
        for mine, first, last in zip(self.buckets, bounds[:-1], bounds[1:], strict=True):
            mine.update(states.of(slice(first, last)).tables())
            for name, (kind, more) in _KEPT.items():
                kept = read_table(kind, tables, name)
                node = kept.key // self.size**more % self.size
                mine[name] = kept.take((node >= first) & (node < last)).to_columns()

    def write(self, tables: Tables) -> None:
        """Keep the state."""
        for name in _KEPT:
            kept = concatenate([mine[name] for mine in self.buckets])
            tables[name] = take(kept, np.argsort(kept["key"]))
        tables["sessions"] = {"root": self.root, "lost": self.lost}
        tables["nodes"] = {"born": self.born}
        self.pending.write(tables)

    def measures(self) -> dict[str, float]:
        """Rule B20."""
        key = np.concatenate([mine[LISTS]["key"] for mine in self.buckets])
        entries = np.bincount(key // self.size % self.size, minlength=self.size)[self.now.alive]
        return {
            "entries.mean": float(entries.mean()),
            "entries.max": float(entries.max()),
            "waiting": float(sum(mine[MEMBERS]["waits"].sum() for mine in self.buckets)),
            "sessions.lost": float((self.lost >= 0).sum()),
        }

    # --- programs

    def _play(self, program: Program, first: Mapping[str, Columns] | None = None) -> None:
        play(program, self.buckets, first)

    def _gather(self, name: str, *columns: str) -> list[np.ndarray]:
        """Take a table out of the buckets; its columns."""
        rows = [mine.pop(name) for mine in self.buckets if name in mine]
        return [
            np.concatenate([whole_numbers(), *(one[column] for one in rows)]) for column in columns
        ]

    def _count(self, *kinds: str, times: np.ndarray | None = None) -> None:
        """Count the messages that nodes have sent, those of a session so many `times`."""
        for kind in kinds:
            for sent in self._take(f"{SENT} {kind}"):
                if times is not None:
                    often = times[sent["session"]]
                    sent = take(sent, np.repeat(np.arange(len(often)), often))
                self.now.tally.send(kind, ~sent["lost"], sent["sender"], sent["receiver"])

    def _take(self, prefix: str) -> list[Columns]:
        """Take the tables out of the buckets whose names begin so."""
        return [rows for mine in self.buckets for rows in take_tables(mine, prefix)]

    # --- steps 1 and 2

    def _play_events(self, rules: LiveBayeux, bounds: np.ndarray) -> None:
        """Nodes die, sessions are lost or created, all of them in round 0: rules B12 and B13."""
        now, events, number = self.now, self.now.events, self.now.number
        dead = np.zeros(self.size, dtype=bool)
        dead[np.r_[events.fail, events.leave]] = True
        self.born[np.r_[events.recover, events.arrive]] = number
        self.lost[(self.root >= 0) & (self.lost < 0) & dead[self.root]] = number
        anew = (self.lost >= 0) & (self.lost + rules.recreate == number) & (rules.recreate > 0)
        anew |= self.root < 0
        keys = Keys(now.key_hi, now.key_lo)
        if anew.any():
            self.root[anew] = closeness.roots(now.ring, now.overlay.live(), keys.take(anew))
            self.lost[anew] = NONE
        facts, this = RingInMemory(now.ring), Round(number, now.alive, self.born, self.lost >= 0)
        by_pastry = ByKnowledge(facts, this.is_alive, hop)
        by_table = ByKnowledge(facts, this.is_alive, table_hop)
        self.sessions = Sessions(
            *(bounds, facts, now.kernel, now.lan_us, keys, self.root[:, None]),
            *(by_pastry, by_table if rules.hops == TABLE else by_pastry, this),
        )
        self._play(Forget(self.sessions, dead, anew))

    # --- steps 3 and 4

    def leave(self) -> None:
        """Members quit: rule B15."""
        self._leave({QUIT: _pairs(self.now.quit)})

    def _leave(self, first: Mapping[str, Columns]) -> None:
        """LEAVEs go to the roots, PRUNEs come back along the lists."""
        self._play(Leave(self.sessions), first)
        self._play(Prune(self.sessions))
        self._count(LEAVE, PRUNE)

    def join(self) -> None:
        """All that wait send JOINs, which roots answer: rule B16."""
        self._play(Join(self.sessions), {MEMBER: _pairs(self.now.join)})
        self._play(Tree(self.sessions))
        self._play(Record(self.sessions))
        self._count(JOIN, TREE)

    # --- steps 5 and 6

    def publish(self) -> Publications:
        """Publications go to the roots, down the trees, and around what is dead."""
        group, groups = self.now.publish[0], len(self.root)
        self._play(Publish(self.sessions), {SOURCE: _pairs(self.now.publish)})
        self._count(MULTICAST)
        own = key_of(self._gather(at_root(MULTICAST), "session", "member"), self.size)
        # how many of each group: all go the same way
        taken = np.bincount(own // self.size, minlength=groups)
        copied, got = self._disseminate(taken)
        by_tree = self._repair()
        got += np.bincount(by_tree // self.size, minlength=groups)
        heard = distinct(np.r_[copied, by_tree])
        duplicates = taken * (got - np.bincount(heard // self.size, minlength=groups))
        # a source has its own before a TREE brings it
        again = own[(find_sorted(heard, own) >= 0) & (find_sorted(copied, own) < 0)]
        duplicates += np.bincount(again // self.size, minlength=groups)
        members = np.sort(np.concatenate([mine[MEMBERS]["key"] for mine in self.buckets]))
        published = np.bincount(group, minlength=groups)
        self._note(members, heard, own, taken, published, duplicates)
        return self.pending.take_due(self.now, members)

    def _disseminate(self, taken: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies go down the lists: rule B17.

        Parameters
        ----------
        taken : ndarray of int64, shape (G,)
            How many publications the root of each group has.

        Returns
        -------
        heard : ndarray of int64
            The (group, node) that have got them, ascending.
        got : ndarray of int64, shape (G,)
            How often nodes have got each, the root's own among them.
        """
        begun = np.flatnonzero(taken)
        self._play(NextHops(self.sessions, taken > 0))
        start = {START: {AT: self.root[begun], "group": begun}}
        self._play(flood(self.sessions, HOPS), start)
        group, sender, to = self._gather(ARRIVED_COPIES, "group", "sender", "node")
        sender, to = (np.repeat(one, taken[group]) for one in (sender, to))
        self.now.tally.send(PAYLOAD, np.ones(len(to), dtype=bool), sender, to)
        got = np.bincount(group, minlength=len(taken)) + (taken > 0)
        # who has sent copies in vain looks at the arrivals, too
        self._play(Repair(self.sessions))
        self._count(PAYLOAD, times=taken)
        self._gather(EDGES)
        return np.sort(key_of(self._gather(ARRIVALS, "group", "node"), self.size)), got

    def _repair(self) -> np.ndarray:
        """Senders look for other ways to the members that they did not reach: rule B18.

        Returns
        -------
        ndarray of int64
            (group, member) of each TREE that has come to its member.
        """
        self._play(Tree(self.sessions, TRIED))
        self._count(TREE)
        came = self._take(CAME)
        self._play(GiveUp(self.sessions))
        self._leave({})
        return np.concatenate(
            [whole_numbers(), *(key_of([one["session"], one["member"]], self.size) for one in came)]
        )

    def _note(
        self,
        members: np.ndarray,
        heard: np.ndarray,
        own: np.ndarray,
        taken: np.ndarray,
        published: np.ndarray,
        duplicates: np.ndarray,
    ) -> None:
        """Remember who is to get the publications, and who has: rule B19.

        Parameters
        ----------
        members : ndarray of int64
            All (group, node), ascending.
        heard : ndarray of int64
            The (group, node) that have got all that their root has.
        own : ndarray of int64
            The (group, source) of each of these.
        taken, published, duplicates : ndarray of int64, shape (G,)
        """
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


def _pairs(pairs: Pairs) -> Columns:
    return {"group": pairs[0], AT: pairs[1]}
