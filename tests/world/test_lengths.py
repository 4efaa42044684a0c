"""How long rounds last; the own rounds of a system in a round of the world, and in a run."""

import functools
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from scribe_spark.config import WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.events import Events
from scribe_spark.rounds.system import (
    LivingRound,
    OwnRounds,
    Publications,
    Publishing,
    SystemRound,
    play_run,
)
from scribe_spark.worlds import setting as lengths

GROUPS = {"nodes": 100, "groups": 3}


@pytest.mark.parametrize(
    ("systems", "given", "seconds", "words"),
    [
        ("scribe", {}, 30.0, "30 s: one round of Pastry and Scribe"),
        (
            "scribe,gossipsub",
            {},
            30.0,
            "30 s: one round of Pastry and Scribe; 30 rounds of GossipSub, each of 1 s",
        ),
        ("gossipsub", {}, 1.0, "1 s: 1 round of GossipSub, each of 1 s"),
        (
            "bayeux,gossipsub",
            {"gossipsub_preset": "ethereum"},
            30.0,
            "30 s: one round of Pastry and Bayeux; about 43 rounds of GossipSub, each of 0.7 s",
        ),
        ("scribe,gossipsub", {"gossipsub_heartbeat_ms": 31_000.0}, 31.0, None),
        ("scribe,gossipsub", {"round_seconds": 1.0, "gossipsub_heartbeat_ms": 500.0}, 1.0, None),
    ],
)
def test_a_round_lasts_as_long_as_the_longest_of_the_systems_that_are_named(
    systems, given, seconds, words
):
    config = WorldConfig(**GROUPS, **given, systems=systems)
    assert lengths.round_seconds(config) == seconds
    assert words is None or lengths.rounds_in_words(config) == words


def test_own_rounds_are_those_that_begin_in_the_round():
    """Exactly, whatever is left of the last one: of 0.7 s in 30 s by fractions."""
    config = WorldConfig(**GROUPS, systems="scribe,gossipsub", gossipsub_preset="ethereum")
    (own,) = lengths.own_rounds(config).values()
    assert own == OwnRounds(30_000_000, 700_000)
    first = [own.first(number) for number in range(9)]
    assert first == [next(k for k in range(999) if 7 * k >= 300 * r) for r in range(9)]
    assert {b - a for a, b in pairwise(first)} == {42, 43}
    heartbeats = np.arange(first[8])
    assert (own.world_round(heartbeats) == heartbeats * 7 // 300).all()
    # after 100,000 rounds nothing has been lost
    assert own.first(100_000) == -(-100_000 * 300 // 7)


lifetime, membership = (
    functools.partial(lengths.mean_rounds, name=name) for name in ("lifetime", "membership")
)
event_round, publish_rate = lengths.event_round, lengths.publish_rate


def test_times_in_seconds_are_rounds_of_the_world():
    seconds = {
        **{"lifetime_seconds": 1800.0, "membership_seconds": 45.0},
        **{"event_seconds": 89.9, "publish_seconds": 60.0},
    }

    def told(**given):
        config = WorldConfig(**GROUPS, **given)
        return [time(config) for time in (lifetime, membership, event_round, publish_rate)]

    assert told(**seconds) == [60.0, 1.5, 2, 0.5]
    assert told(**seconds, round_seconds=10.0) == [180.0, 4.5, 8, 1 / 6]
    assert told(lifetime=7.0, membership=8.0, event_round=3, publish_rate=2.0) == [7.0, 8.0, 3, 2.0]


GOSSIP = {"systems": "scribe,gossipsub"}

#: What reads a length, a config, and why the length is refused.
REFUSED = [
    (lengths.own_rounds, {**GOSSIP, "round_seconds": 0.5},
     "round_seconds = 0.5: is less than a round of gossipsub, which lasts 1 s; give more"),
    (lengths.own_rounds, {**GOSSIP, "round_seconds": 30.0, "gossipsub_heartbeat_ms": 31_000.0},
     "round_seconds = 30.0: is less than a round of gossipsub, which lasts 31 s; give more"),
    (lengths.own_rounds, {**GOSSIP, "gossipsub_heartbeat_ms": 1.0},
     "round_seconds = 30.0: has 30,000 rounds of gossipsub, each of 0.001 s; give at most 1"),
    (lifetime, {"lifetime_seconds": 29.0},
     "lifetime_seconds = 29.0: must be at least a round, 30 s"),
    (membership, {"membership_seconds": 1.0},
     "membership_seconds = 1.0: must be at least a round, 30 s"),
    (event_round, {"event_seconds": 600.0},
     "event_seconds = 600.0: is in round 20, after the last one; rounds are 0 to 19"),
    (publish_rate, {"publish_seconds": 10.0, "publishers": 2},
     "publish_seconds = 10.0: is more than 2 in a round; give at least 15"),
    (publish_rate, {"publish_seconds": 0.001},
     "publish_seconds = 0.001: is more than 1000 in a round; give at least 0.03"),
    # with all digits: 12345.7 would be refused, too
    (lifetime, {"lifetime_seconds": 29.0, "round_seconds": 12_345.678},
     "lifetime_seconds = 29.0: must be at least a round, 12345.678 s"),
    (lengths.own_rounds,
     {**GOSSIP, "round_seconds": 2e4, "gossipsub_heartbeat_ms": 1_234.567},
     "round_seconds = 20000.0: has 16,200 rounds of gossipsub, each of 1.234567 s; give at "
     "most 12345.67"),
]  # fmt: skip


@pytest.mark.parametrize(("reads", "given", "line"), REFUSED)
def test_lengths_that_no_round_can_have_are_refused(reads, given, line):
    with pytest.raises(InputError) as refused:
        reads(WorldConfig(**GROUPS, **given))
    assert str(refused.value).startswith(line)


# --- own rounds


def round_of(number: int, rounds: int, own: OwnRounds, **more) -> LivingRound:
    """A round with a failure, a join, a quit and a publication."""
    one = np.array([0])
    pairs, publish = (one, one), Publishing.at_begin((one, one))
    of = range(3), None, Events(fail=one), one, one, one, pairs, pairs, publish
    return LivingRound(number, rounds, *of, None, 0, 1, 0, None, one, own, **more)


def test_a_run_plays_own_rounds_until_nothing_moves():
    """Members join in the first own round; publications begin in the one that is said."""
    told = []

    def play(before, more):
        def play_round(player, kept, now):
            told.append((now.number, len(now.join[0]), len(now.publish), now.begins_round))
            assert not now.ends_round or before is None
            return SystemRound({}, Publications(), goes_on=now.number < more)

        now = round_of(0, 1, OwnRounds())
        told.clear()
        play_run(SimpleNamespace(rounds_before=before, play_round=play_round), None, now)
        return told

    assert play(None, 9) == [(0, 1, 1, True)]
    assert play(0, 1) == [(0, 1, 1, True), (1, 0, 0, False)]
    of_three = [(0, 1, 0, True), (1, 0, 0, False), (2, 0, 1, False)]
    assert play(2, 0) == of_three
    assert play(2, 4) == [*of_three, (3, 0, 0, False), (4, 0, 0, False)]
