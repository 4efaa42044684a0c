"""Pastry's round in a world: goodbyes, recoveries, arrivals, detection, repair, lookups, results.

A round has two parts, :func:`begin_round` and :func:`end_round`.  Between them play the systems
whose messages travel by Pastry (`SystemOnBuckets.shares`).  Such a system reads leaf sets and
routing tables, records the dead nodes that its messages meet (`Observer.meet`), and plays
`repair.close_phase`, by which nodes remove and repair these entries.  Without such a system,
nothing is played between the parts.  Waves of arrivals are played in runs, too.

JSAC 2002, Sections II, II.B and III.A.2; NGC 2001, Section 2.2; Pastry 2001, Section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, without
from scribe_spark.engine import Columns, Program
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.player import IfRows, play_in_turn
from scribe_spark.engine.program import AT, Together
from scribe_spark.pastry.arrivals import (
    GAINED,
    Announce,
    Discover,
    ExchangeLeafSets,
    Introduce,
    JoinMessages,
)
from scribe_spark.pastry.next_hop import LiveRoute, roots
from scribe_spark.pastry.offers import holds_leaf, take_cells, take_leaves
from scribe_spark.pastry.repair import FindDead, close_phase, maintain_tables, repair_leaf_sets
from scribe_spark.pastry.states import (
    CELLS,
    LEAVES,
    LEAVES_BEFORE,
    NONE,
    BucketNodes,
    MessageProgram,
    SilentNodes,
    live_only,
    pairs_of,
    same_leaves,
)
from scribe_spark.pastry.waves import Wave, WaveProgram, forget, waves_of_round
from scribe_spark.rounds.events import Events, KnowsLives, end_lives
from scribe_spark.rounds.player import MESSAGES, Environment, RoundPlayer, Tally

# --- the arrival of a wave


def arrive(player: RoundPlayer, wave: Wave, number: int, of_wave: str = "") -> None:
    """Let a wave of dead or new nodes arrive; their old tables are cleared before.

    A wave without contacts is the first one in an overlay without live nodes.  The draws of the
    maintenance of routing tables have the keys `number` (of the wave in a run, of the round in a
    world) and `of_wave` (the words that tell apart the waves of a round).
    """
    is_first = bool((wave.contact < 0).all())
    if is_first:
        player.play(_Forget(player.environment, wave))
    else:
        play_in_turn(player, [*_asking(player.environment, wave), close_phase(player.environment)])
    if player.environment.lives is not None:  # the programs below tell other nodes of the new ones
        player.lives.enter(wave.arriving[np.argsort(wave.order)])
    programs = list[Program | IfRows]()
    if not is_first:
        programs += _entering(player.environment, wave)
    for time in range(player.environment.rules.maintenance):
        purpose = f"wave maintenance {time}{of_wave}"
        programs += maintain_tables(player.environment, wave, purpose, number)
    play_in_turn(player, programs)


def _asking(environment: Environment, wave: Wave) -> Iterator[Program]:
    """Yield the programs by which arriving nodes ask existing nodes for rows and leaf sets."""
    if environment.rules.contact == "discovered":
        yield Discover(environment, wave)
    yield JoinMessages(environment, wave)


def _entering(environment: Environment, wave: Wave) -> Iterator[Program]:
    """Yield the programs, after those of `_asking`, that tell other nodes of the arrived nodes."""
    yield Announce(environment, wave)
    yield ExchangeLeafSets(environment, wave)
    if environment.rules.introduce:
        yield Introduce(environment, wave)


class _Forget(WaveProgram):
    """Clear the tables of arriving nodes, if the overlay has no live node."""

    silent: ClassVar[bool] = True

    def begin(self, nodes: BucketNodes) -> None:
        forget(nodes, self.arriving(nodes))


# --- lookups


#: The table of lookups that have ended: the columns of `LiveRoute` and the number ``lookup``.
ENDED = "ended lookups"


@dataclass(frozen=True)
class Lookups:
    """The m lookups of a round: positions of the live nodes that start them, and keys."""

    source: np.ndarray
    keys: Keys


@dataclass(frozen=True)
class LookupResults:
    """The results of m lookups: their ends, hops and delays; arrays of shape (m,)."""

    source: np.ndarray  # positions of the first nodes
    at: np.ndarray  # positions of the last nodes
    keys: Keys
    delivered: np.ndarray  # bool
    right: np.ndarray  # bool: delivered at the live node that is closest to the key
    hops: np.ndarray  # transmissions that arrived
    lost: np.ndarray  # transmissions to dead nodes


def no_lookups() -> LookupResults:
    """Return the empty results of a round without lookups."""
    none, false = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    halves = np.empty(0, dtype=np.uint64)
    return LookupResults(none, none, Keys(halves, halves), false, false, none, none)


def drawn_lookups(lives: KnowsLives, count: int, number: int, seed: int) -> Lookups:
    """Return `count` drawn lookups of round `number`: random live nodes and random keys."""
    live = lives.live()
    drawn = draws.stream(seed, "lookup source", number).random_raw(count)
    halves = draws.stream(seed, "lookup key", number).random_raw(2 * count).reshape(-1, 2)
    source = live[(drawn % np.uint64(len(live))).astype(np.int64)]
    return Lookups(source, Keys(halves[:, 0].copy(), halves[:, 1].copy()))


def look_up(environment: Environment, lookups: Lookups) -> list[Program | IfRows]:
    """Return the programs that make lookups and then drop the dead entries that were found."""
    if not len(lookups.source):
        return []
    return [LiveRoute(environment, "lookup", ENDED, _messages(lookups)), close_phase(environment)]


def _messages(lookups: Lookups) -> Columns:
    source, keys = lookups.source, lookups.keys
    number = np.arange(len(source))
    return {AT: source, "key_hi": keys.hi, "key_lo": keys.lo, "lookup": number}


def lookup_results(
    player: RoundPlayer, lookups: Lookups, taken: Mapping[str, Columns]
) -> LookupResults:
    """Return the results of lookups; one that is missing in :data:`ENDED` began at a dead node."""
    m, keys = len(lookups.source), lookups.keys
    at, flags = lookups.source.copy(), np.zeros((2, m), dtype=bool)
    delivered, right, (hops, lost) = *flags, np.zeros((2, m), dtype=np.int64)
    if ENDED in taken:
        ended = taken[ENDED]
        which = ended["lookup"]
        at[which], delivered[which] = ended[AT], ended["delivered"]
        hops[which], lost[which] = ended["hops"], ended["lost"]
        known, live = player.environment.facts.ring, player.lives.live()
        right[which] = delivered[which] & (at[which] == roots(known, live, keys.take(which)))
    return LookupResults(lookups.source, at, keys, delivered, right, hops, lost)


def try_routes(player: RoundPlayer, lookups: Lookups) -> LookupResults:
    """Route lookups through the current tables; tables do not change and no message is counted."""
    messages, alive = _messages(lookups), player.lives.is_alive(lookups.source)
    begin = {name: column[alive] for name, column in messages.items()}
    player.play(LiveRoute(player.environment, "", ENDED, begin))
    return lookup_results(player, lookups, player.take(ENDED))


# --- the round


def play_events(player: RoundPlayer, number: int, events: Events) -> None:
    """Play the events of a round, which have been checked (`rounds.events.check_events`)."""
    environment, lives = player.environment, player.lives
    known = environment.facts.ring
    # 1. failures (without a message) and departures (with goodbyes)
    end_lives(lives, number, events, environment.world_rules.detection)
    goodbyes = [_SayGoodbye(player.environment, events.leave)] if len(events.leave) else []
    # 2. recoveries; a node that knows no live node arrives anew
    waves = [alone[None] for alone in recover(player, events.recover, goodbyes)]
    # 3. arrivals
    live = int(np.count_nonzero(lives.alive)) + len(waves)
    growth = environment.rules.growth
    waves += waves_of_round(known, events.arrive, number, environment.seed, live, growth)
    for wave, ordered in enumerate(waves):
        arriving = Wave.of_round(player.environment, ordered, number)
        arrive(player, arriving, number, f" of wave {wave}")


@dataclass(frozen=True)
class _SayGoodbye(SilentNodes):
    """Departing nodes tell their leaves, which then know at once that these nodes are gone."""

    leaving: np.ndarray

    def begin(self, nodes: BucketNodes) -> None:
        leaving = self.leaving[nodes.own(self.leaving)]
        leaves = nodes.states().distinct_leaves(leaving - nodes.first)
        nodes.send("goodbye", *pairs_of(leaving, leaves))


# --- recoveries


#: The table of nodes that found no live leaf: ``node``.
_ALONE = "alone"

#: Kinds of messages.
_QUESTION, _ANSWER, _ANNOUNCEMENT = "question", "answer", "announcement"


def recover(player: RoundPlayer, nodes: np.ndarray, besides: Sequence[Program] = ()) -> np.ndarray:
    """Let nodes recover from their last known leaves; return those that know no live node.

    The programs `besides` are played in the same supersteps; they write other tables.
    """
    if not len(nodes):
        for program in besides:
            player.play(program)
        return nodes
    player.play(Together((_Recover(player.environment, nodes), *besides)))
    alone = player.take(_ALONE)[_ALONE]["node"] if player.has(_ALONE) else nodes[:0]
    player.lives.enter(without(nodes, alone))
    player.play(ExchangeLeafSets(player.environment, Wave.of_nobody()))
    return np.sort(alone)


@dataclass(frozen=True)
class _Recover(MessageProgram):
    """Nodes ask their last known leaves, and announce themselves to their new leaves."""

    recovering: np.ndarray

    def begin(self, nodes: BucketNodes) -> None:
        """Let recovering nodes ask their last known leaves for their leaf sets."""
        mine = self.recovering[nodes.own(self.recovering)]
        if not len(mine):
            return
        states = nodes.states(LEAVES)
        asker, asked = pairs_of(mine, states.distinct_leaves(mine - states.first))
        states.leaves[mine - states.first] = NONE
        answers = nodes.send("recovery", asker, asked)
        alone = without(mine, asker[answers])
        if len(alone):
            nodes.tables[_ALONE] = {"node": alone}
        nodes.tell(_QUESTION, asked[answers], asker=asker[answers])

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer recovering nodes with the asked node and its live leaves."""
        asked, asker = came[AT], came["asker"]
        nodes.count("recovery", asked, asker)
        offers = np.c_[nodes.states().leaves[asked - nodes.first], asked.astype(np.int32)]
        nodes.tell(_ANSWER, asker, offers=live_only(nodes.is_alive, offers))

    def _come_back(self, nodes: BucketNodes, came: Columns) -> None:
        """Let recovered nodes take offered leaves, and announce themselves to their new leaves."""
        states = nodes.states(LEAVES)
        take_leaves(states, came[AT] - states.first, came["offers"])
        back = distinct(came[AT])
        nodes.tables[GAINED] = {"node": back}
        new, to = pairs_of(back, states.distinct_leaves(back - states.first))
        nodes.count("announcement", new, to)
        nodes.tell(_ANNOUNCEMENT, to, back=new)

    def _take(self, nodes: BucketNodes, came: Columns) -> None:
        """Let the receivers of announcements add recovered nodes to their tables, if they fit."""
        states, tables = nodes.states(LEAVES, CELLS), nodes.tables
        index, back = came[AT] - states.first, came["back"]
        take_cells(states, nodes.kernel, index, back)
        take_leaves(states, index, back)
        told = came[AT][holds_leaf(states, index, back)]
        before = tables[GAINED]["node"] if GAINED in tables else told[:0]
        tables[GAINED] = {"node": distinct(np.r_[before, told])}

    handlers = ((_QUESTION, _answer), (_ANSWER, _come_back), (_ANNOUNCEMENT, _take))


#: The table of live nodes whose leaf set differs from that before the round: ``node``.
NEW_LEAFS = "new leafs"


@dataclass(frozen=True)
class RoundResult:
    """The results of Pastry's round: its lookups and measures."""

    number: int
    messages: dict[str, int]  # by kind, see `Tally`
    new_leafs: np.ndarray  # positions, ascending; empty if `NEW_LEAFS` stays in the buckets
    lookups: LookupResults


def begin_round(
    player: RoundPlayer, number: int, events: Events, before: Sequence[Program] = ()
) -> None:
    """Play the first part of a round: the checked events of nodes, keep-alives, and repairs."""
    play_events(player, number, events)
    play_in_turn(player, [*before, *repair(player, number)])


def repair(player: RoundPlayer, number: int) -> list[Program | IfRows]:
    """Return the programs of round `number` that send keep-alives and repair all tables."""
    environment = player.environment
    steps, rules = repair_leaf_sets(environment, number), environment.world_rules
    if rules.repair == "eager" and player.lives.known_dead(number - 1).any():
        steps += [FindDead(environment, number), close_phase(environment)]
    period = rules.maintenance_period
    if period and number and number % period == 0:
        steps += maintain_tables(environment, Wave.of_nobody(), "round maintenance", number)
    return steps


@dataclass(frozen=True)
class _CompareLeafSets(SilentNodes):
    """Record the live nodes whose leaf set has other nodes than before the round."""

    entered: np.ndarray

    def begin(self, nodes: BucketNodes) -> None:
        tables = nodes.tables
        changed = np.zeros(nodes.last - nodes.first, dtype=bool)
        if LEAVES_BEFORE in tables:
            before = tables.pop(LEAVES_BEFORE)["leaves"]
            changed = ~same_leaves(tables[LEAVES]["leaves"], before)
        changed[self.entered[nodes.is_own(self.entered)] - nodes.first] = True
        tables.pop(NEW_LEAFS, None)
        new = nodes.first + np.flatnonzero(changed)
        if len(new := new[nodes.is_alive(new)]):
            tables[NEW_LEAFS] = {"node": new}


def end_round(
    player: RoundPlayer,
    number: int,
    events: Events,
    lookups: Lookups | int,
    tally: Tally,
    programs: Iterable[Program] = (),
    tables: Iterable[str] = (NEW_LEAFS,),
) -> tuple[RoundResult, dict[str, dict[str, np.ndarray]]]:
    """Play the last part of a round: lookups (given, or a number of lookups to draw) and measures.

    Return the result, and further tables taken from the buckets.  The measures `programs` are
    played at the end, all in the same supersteps.  Without :data:`NEW_LEAFS` in `tables`, that
    table stays in the buckets until this function is called for the next round.
    """
    if isinstance(lookups, int):
        lookups = drawn_lookups(player.lives, lookups, number, player.environment.seed)
    play_in_turn(player, look_up(player.environment, lookups))
    player.play(Together((_CompareLeafSets(player.environment, events.entering), *programs)))
    taken = player.take(MESSAGES, ENDED, *tables)
    tally.take(taken)
    new = taken[NEW_LEAFS]["node"] if NEW_LEAFS in taken else np.empty(0, dtype=np.int64)
    result = RoundResult(number, tally.by_kind(), new, lookup_results(player, lookups, taken))
    return result, taken
