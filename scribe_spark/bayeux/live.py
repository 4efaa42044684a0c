"""Bayeux in a world: the programs of runs and those of churn, in the order of rule B11.

The orchestrator keeps the roots of the sessions and the publications that are not due; all other
state is in the buckets.

References
----------
docs/rules.md, B11 to B20.  JSAC 2002, Section V; NGC 2001, Section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.bandwidth.rounds import Begun
from scribe_spark.bayeux.joining import JOIN, MEMBER, TREE, Join, Tree
from scribe_spark.bayeux.leaving import LEAVE, PRUNE, QUIT, Leave, Prune
from scribe_spark.bayeux.member_lists import LISTS, MEMBERS, Forget, NextHops, Record
from scribe_spark.bayeux.multicast import MULTICAST, SOURCE, Publish, flood
from scribe_spark.bayeux.next_hop import ByKnowledge, table_hop
from scribe_spark.bayeux.pending import (
    ACCEPTED,
    HEARD,
    KEPT,
    CountHeard,
    CountRound,
)
from scribe_spark.bayeux.repair import TRIED, GiveUp, Repair
from scribe_spark.bayeux.routes import at_root
from scribe_spark.bayeux.sessions import TABLE, Round, Sessions
from scribe_spark.core.arrays import NONE, read_table, whole_numbers
from scribe_spark.dissemination import START
from scribe_spark.engine.packing import Columns, take
from scribe_spark.engine.program import AT, Tables
from scribe_spark.living import (
    LivingRound,
    Multicasts,
    Pairs,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
    count_messages,
    notes_copies,
)
from scribe_spark.multicast import HOPS, PAYLOAD
from scribe_spark.pastry import closeness
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.pending import DUE, EXPECTED, PUBLISHED, Published, last_due

# a table that the orchestrator keeps
_SESSIONS = "sessions"


@dataclass(frozen=True)
class LiveBayeux(SystemOnBuckets):
    """Bayeux as a system of a world."""

    hops: str = TABLE  # `sessions.TABLE` or `sessions.LEAF_SET`
    #: The number of rounds after which a lost session is created again; 0 for never.
    recreate: int = 0
    payload: tuple[str, ...] = (MULTICAST, PAYLOAD)
    control: tuple[str, ...] = (JOIN, TREE, LEAVE, PRUNE)
    kept_in_buckets: ClassVar[Mapping[str, int]] = {MEMBERS: 0, LISTS: 1, EXPECTED: 0}
    kept: ClassVar[tuple[str, ...]] = (_SESSIONS, PUBLISHED)
    member_table: ClassVar[str] = MEMBERS
    reads: ClassVar[tuple[str, ...]] = (LEAVES, CELLS)

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        """See `living.SystemOnBuckets`."""
        played = _Round(self, player, kept, now)
        played.leave()
        played.join()
        played.publish()
        done = played.count()
        played.write(kept)
        count_messages(player, now)
        return done


class _Round:
    """A round: the state of the orchestrator, and the steps."""

    def __init__(
        self, rules: LiveBayeux, player: SystemPlayer, kept: Tables, now: LivingRound
    ) -> None:
        self.player, self.now = player, now
        groups = len(now.key_hi)
        self.root, self.lost = (np.full(groups, NONE, dtype=np.int64) for _ in range(2))
        if _SESSIONS in kept:
            self.root, self.lost = (kept[_SESSIONS][name].copy() for name in ("root", "lost"))
        self.published = read_table(Published, kept, PUBLISHED)
        self.multicasts: Multicasts | None = None
        self.begun: Begun | None = None
        self._play_events(rules)

    def write(self, kept: Tables) -> None:
        """Store the orchestrator's state."""
        kept[_SESSIONS] = {"root": self.root, "lost": self.lost}
        kept[PUBLISHED] = self.published.to_columns()

    # --- steps 1 and 2

    def _play_events(self, rules: LiveBayeux) -> None:
        """Nodes die; sessions are lost and created (all in round 0): rules B12 and B13."""
        now, events, number = self.now, self.now.events, self.now.number
        dead = np.zeros(len(now.ring), dtype=bool)
        dead[np.r_[events.fail, events.leave]] = True
        self.lost[(self.root >= 0) & (self.lost < 0) & dead[self.root]] = number
        anew = (self.lost >= 0) & (self.lost + rules.recreate == number) & (rules.recreate > 0)
        anew |= self.root < 0
        keys = Keys(now.key_hi, now.key_lo)
        if anew.any():
            self.root[anew] = closeness.roots(now.ring, now.overlay.live(), keys.take(anew))
            self.lost[anew] = NONE
        facts = self.player.facts
        born = self.player.share("born", lambda: {"born": now.incarnation})
        this = Round(number, now.overlay, born, self.lost >= 0)
        by_pastry = ByKnowledge(facts, this.is_alive, hop)
        by_table = ByKnowledge(facts, this.is_alive, table_hop)
        self.sessions = Sessions(
            *(self.player.bounds, facts, now.kernel, now.lan_us, keys, self.root[:, None]),
            *(by_pastry, by_table if rules.hops == TABLE else by_pastry),
            *(this, now.tally.observer),
        )
        self.player.play(Forget(self.sessions, dead, anew))

    # --- steps 3 and 4

    def leave(self) -> None:
        """Members quit: rule B15."""
        self.player.play(Leave(self.sessions), {QUIT: _pairs(self.now.quit)})
        self.player.play(Prune(self.sessions))

    def join(self) -> None:
        """All waiting members send JOINs, and roots answer: rule B16."""
        self.player.play(Join(self.sessions), {MEMBER: _pairs(self.now.join)})
        self.player.play(Tree(self.sessions))
        self.player.play(Record(self.sessions))

    # --- steps 5 and 6

    def publish(self) -> None:
        """Publications go to the roots, down the trees, and around dead nodes: B17 and B18."""
        player, sessions, groups = self.player, self.sessions, len(self.root)
        player.play(Publish(sessions), {SOURCE: _pairs(self.now.publish)})
        came = player.take(at_root(MULTICAST)).get(at_root(MULTICAST), {})
        group, source = (came.get(name, whole_numbers()) for name in ("session", "member"))
        if self.now.measures:
            self.begun = self._begun(came)
            self.multicasts = self._multicasts()
        # the number of publications per group; all publications of a group go the same way
        accepted = np.bincount(group, minlength=groups)
        published = np.bincount(self.now.publish[0], minlength=groups)
        begun = np.flatnonzero(accepted)
        player.play(NextHops(sessions, accepted > 0))
        player.play(flood(sessions, HOPS), {START: {AT: self.root[begun], "group": begun}})
        player.play(Repair(sessions, accepted, notes_copies(self.now.measures)))
        player.play(Tree(sessions, TRIED))
        heard = CountHeard(sessions, accepted, published, self.now.measures)
        player.play(heard, {ACCEPTED: {AT: source, "group": group}})
        player.play(GiveUp(sessions))
        player.play(Leave(sessions))
        player.play(Prune(sessions))
        counts = _sums(player.take(HEARD)[HEARD], groups)
        got = counts["got"] + (accepted > 0)  # the root has a copy, too
        duplicates = accepted * (got - counts["nodes"]) + counts["again"]
        self.published.add(self.now.number, published, duplicates)

    def count(self) -> SystemRound:
        """Count the outcomes of due publications, and the entries of nodes: B19 and B20."""
        last = last_due(self.now)
        self.player.play(CountRound(self.sessions, last))
        taken = self.player.take(DUE, KEPT)
        kept, alive = taken[KEPT], int(np.count_nonzero(self.now.alive))
        measures = {
            "entries.mean": float(kept["entries"].sum() / alive),
            "entries.max": float(kept["most"].max()),
            "waiting": float(kept["waiting"].sum()),
            "sessions.lost": float((self.lost >= 0).sum()),
        }
        due = self.published.take_due(last, len(self.root), taken)
        return SystemRound(measures, due, multicasts=self.multicasts, begun=self.begun)

    def _begun(self, came: Columns) -> Begun:
        """Return the publications that roots have accepted, by group and source.

        All publications of a group go the same way, by the name 0.
        """
        if not came:
            return Begun()
        came = take(came, np.lexsort((came["member"], came["session"])))
        group, none = came["session"], np.zeros(len(came["session"]), dtype=np.int64)
        root = self.root[group]
        if self.now.source == "root":
            return Begun(group, none, root, root, none, none)
        return Begun(group, none, came["member"], root, came["hops"], came["delay_us"])

    def _multicasts(self) -> Multicasts:
        """Return the first publication of each group that its root has accepted, by its source."""
        assert self.begun is not None
        group, first = np.unique(self.begun.group, return_index=True)
        of = self.begun.take(first)
        return Multicasts(group, of.publication, of.source, of.hops, of.delay_us)


def _sums(columns: Columns, groups: int) -> dict[str, np.ndarray]:
    """Sum columns with a row per group over buckets."""
    rows = {name: column.reshape(-1, groups) for name, column in columns.items()}
    return {name: column.sum(axis=0) for name, column in rows.items()}


def _pairs(pairs: Pairs) -> Columns:
    return {"group": pairs[0], AT: pairs[1]}
