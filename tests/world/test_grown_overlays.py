"""The seam of systems that keep an overlay between periods: a star around the least member.

A member greets the centre in each period.  The others notice the death of a member two periods
later.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from arriving import Kernel
from living_buckets import ring_of
from periods import SystemWorld

from scribe_spark.core.arrays import find_sorted, run_starts
from scribe_spark.dissemination import all_but_sender
from scribe_spark.rounds.applications import MEMORY, Applications, WorldApplication
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import GrownOverlays
from scribe_spark.rounds.system import OwnRounds

NODES, GROUPS, PERIODS = 40, 5, 3  # periods a round of the world
SILENT = 2


@dataclass(frozen=True)
class Star(GrownOverlays):
    """The rules of the star."""

    notes_failures: ClassVar[bool] = True
    tables: ClassVar[tuple[str, ...]] = ("members",)
    structure: ClassVar[tuple[str, ...]] = ("members", "group", "node")
    counted: ClassVar[tuple[str, ...]] = ("changes",)
    control: ClassVar[tuple[str, ...]] = ("hello",)

    def play_period(self, state, period):
        """Take in the changes, forget the silent, and greet."""
        size = len(period.alive)
        had = state.get("members", {name: np.empty(0, np.int64) for name in ("group", "node")})
        key, since = had["group"] * size + had["node"], had.get("silent", had["group"])
        join, quit = (pair[0] * size + pair[1] for pair in (period.join, period.quit))
        since = np.where(period.alive[key % size], 0, since + 1)
        stays = (find_sorted(quit, key) < 0) & (since <= SILENT) & (find_sorted(join, key) < 0)
        of, lost = np.divmod(key[since > SILENT], size)
        period.give_up(of, np.full(len(of), np.argmax(period.alive)), lost)
        key, since = np.r_[key[stays], join], np.r_[since[stays], join * 0]
        order = np.argsort(key)
        group, node = np.divmod(key[order], size)
        state["members"] = {"group": group, "node": node, "silent": since[order]}
        period.counts["changes"] = len(join) + np.count_nonzero(~stays)
        centre = node[np.searchsorted(group, group)]
        greets = period.alive[node] & (node != centre)
        return {"hello": {"group": group[greets], "sender": node[greets], "to": centre[greets]}}

    def forwards(self, first, edges):
        """Forward on all edges but the sender's."""
        return all_but_sender(first, edges)

    def edges(self, overlays, network):
        """Return the edges between the centre and all others."""
        rows = overlays.state["members"]
        group, node = rows["group"], rows["node"]
        centre = node[np.searchsorted(group, group)]
        some = node != centre
        ends = np.r_[node[some], centre[some]], np.r_[centre[some], node[some]]
        both = {"group": np.r_[group[some], group[some]], "node": ends[0], "peer": ends[1]}
        return overlays.each_publication(both)

    def sums(self, state):
        """Count members, and groups."""
        group = state["members"]["group"]
        return {"members": len(group), "centres": len(run_starts(group))}


class Told(WorldApplication):
    """Remembers all that it was told, and the numbers of its calls."""

    def __init__(self, nodes: int) -> None:
        self.rows = dict.fromkeys(("round", "group", "node", "neighbour"), np.empty(0, np.int64))

    def neighbours_failed(self, system, number, failures):
        """Add the rows."""
        assert system == "star"
        more = {"round": np.full(len(failures["group"]), number), **failures}
        self.rows = {name: np.r_[column, more[name]] for name, column in self.rows.items()}

    def tables(self):
        """Return the rows."""
        return {"rows": self.rows}

    def restore(self, tables):
        """Set the rows."""
        self.rows = tables["rows"]


@dataclass
class Plain:
    """The same rules on sets."""

    silent: dict = field(default_factory=dict)  # (group, node) -> periods of silence
    told: list = field(default_factory=list)  # group, node, neighbour
    rest: dict = field(default_factory=dict)  # group -> periods of the last event and change

    def period(self, alive, join, quit):
        """Play a period; return its messages and the number of changes."""
        changes = len(join)
        self.told = []
        for pair in list(self.silent):
            self.silent[pair] = 0 if pair[1] in alive else self.silent[pair] + 1
            if self.silent[pair] > SILENT:
                self.told.append((pair[0], min(alive), pair[1]))
            if pair in quit or pair in join or self.silent[pair] > SILENT:
                del self.silent[pair]
                changes += 1
        self.silent |= dict.fromkeys(join, 0)
        sent = [
            (node, centre)
            for group, node in self.silent
            if node in alive and node != (centre := self.centre(group))
        ]
        return sent, changes

    def follow(self, number, before, events):
        """Note the groups whose members changed in a period, and the groups with events."""
        changed = {group for group, _ in before ^ set(self.silent)}
        for group in events | changed:
            event, change = self.rest.get(group, (number, number - 1))
            event = number if group in events else event
            self.rest[group] = event, number if group in changed else change
        there = {group for group, _ in self.silent} | events
        self.rest = {group: both for group, both in self.rest.items() if group in there}

    def rest_measures(self, number):
        """The own rounds that groups needed after their last events, as of a period."""
        rounds = [max(0, change - event + 1) for event, change in self.rest.values()]
        moving = [change == number for _, change in self.rest.values()]
        found = {"rest.mean": np.mean(rounds), "rest.max": max(rounds)}
        return found | {"rest.moving": np.mean(moving)}

    def centre(self, group):
        """The least member that is known."""
        return min(node for of, node in self.silent if of == group)

    def copies(self, group, source, alive):
        """The copies of a publication."""
        centre, known = self.centre(group), {node for of, node in self.silent if of == group}
        sent = {(group, source, centre)} - {(group, centre, centre)}
        if centre in alive:
            sent |= {(group, centre, node) for node in known - {centre, source}}
        return sent


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_a_star_in_a_world(buckets: int) -> None:
    seen = Counter()
    for seed in range(6):
        seen += play(seed, buckets)
    assert (
        min(seen[name] for name in ("hello", "lost", "missed", "changes", "quits", "told")) > 0
    ), seen


def play(seed: int, buckets: int) -> Counter:
    """Play a world beside the plain rules."""
    drawn, seen = random.Random(seed), Counter()
    ring = ring_of({node: drawn.getrandbits(128) for node in range(NODES)})
    delay_us = 1000 * (1 - np.eye(NODES, dtype=np.int64))
    kernel = Kernel(delay_us, np.arange(NODES))
    system, plain = Star(), Plain()
    rounds, members, notices = 8, set(), []
    given = {"applications": Applications(Told, NODES, "star")}
    network, own = Network(ring, kernel, 0, 1), OwnRounds(PERIODS * 1000, 1000)
    world = SystemWorld(system, network, range(GROUPS), buckets, own, rounds)
    for number in range(rounds):
        alive = set(np.flatnonzero(world.lives.alive).tolist())
        fail = {node for node in alive if drawn.random() < 0.06}
        leave = {node for node in alive - fail if drawn.random() < 0.04}
        recover = {node for node in set(range(NODES)) - alive if drawn.random() < 0.3}
        alive = (alive - fail - leave) | recover
        left = {pair for pair in members if pair[1] in leave}
        members = {pair for pair in members if pair[1] in alive}
        quit = {pair for pair in members if drawn.random() < 0.05}
        every = {(group, node) for group in range(GROUPS) for node in alive}
        join = {pair for pair in every - members if drawn.random() < (0.5 if not number else 0.1)}
        members = (members - quit) | join
        publish = sorted(drawn.sample(sorted(members), 3))
        done, tally, copies = world.play(join, quit, publish, fail, leave, recover, **given)
        hello, changes = Counter(), 0
        for period in range(PERIODS):
            changed = (join, quit | left) if not period else (set(), set())
            before, own = set(plain.silent), number * PERIODS + period
            died = fail if not period else set()
            events = {group for group, node in before if node in died}
            sent, more = plain.period(alive, *changed)
            plain.follow(own, before, events | {group for group, _ in changed[0] | changed[1]})
            notices += [(number, g, *ring.node[[x, y]].tolist()) for g, x, y in plain.told]
            hello += Counter((*ring.node[list(ends)].tolist(), "hello") for ends in sent)
            changes += more
            if not period:
                first = {group: source for group, source in reversed(publish)}
                told = [plain.copies(*one, alive) for one in first.items()]
        assert sorted(copies.elements()) == sorted(set().union(*told)), number
        found = tally.messages
        assert Counter({one: n for one, n in found.items() if one[2] == "hello"}) == hello
        assert done.counts == {"changes": changes}
        centres = len({group for group, _ in plain.silent})
        a_member = hello.total() / len(plain.silent) / (PERIODS / 1000)
        wanted = {"centres": centres / len(plain.silent), "control.member": a_member}
        assert done.measures == pytest.approx(wanted | plain.rest_measures(own))
        account = done.publications.by_group(np.arange(GROUPS), number - 1)
        seen["hello"] += hello.total()
        seen["lost"] += tally.lost.total()
        seen["changes"] += changes
        seen["quits"] += len(quit)
        seen["missed"] += int(account["lost"].sum())
    rows = world.tables[f"{MEMORY}rows"].values()
    assert sorted(zip(*(column.tolist() for column in rows), strict=True)) == sorted(notices)
    seen["told"] = len(notices)
    return seen
