"""The own rounds of a system in a round of the world, and in a run."""

from types import SimpleNamespace

import numpy as np

from scribe_spark.rounds.events import Events
from scribe_spark.rounds.system import (
    LivingRound,
    OwnRounds,
    Publications,
    Publishing,
    SystemRound,
    play_own_rounds,
    play_run,
)


class Clock:
    """Notes what it is told; nobody sends anything."""

    payload = control = ()

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def play(self, now: LivingRound) -> SystemRound:
        events = len(now.events.fail), len(now.join[0]), len(now.publish)
        ends = now.ends_round, now.is_last
        self.told.append((now.number, now.world_round, *events, *ends))
        due = Publications(*(np.full(int(ends[0]), now.number) for _ in range(7)))
        return SystemRound({"number": float(now.number)}, due, {"played": 1.0})


def test_a_system_plays_its_own_rounds_and_is_told_of_events_in_the_first():
    """Own rounds of 0.4 s in rounds of 1 s: three, two, three."""
    clock, one = Clock(), np.array([0])
    found = []
    for number in range(3):
        now = LivingRound(
            *(number, 3, None, None, Events(fail=one), one, one, one),
            *(
                (one, one),
                (one, one),
                Publishing.at_begin((one, one)),
                None,
                0,
                1,
                0,
                None,
                one,
                OwnRounds(10, 4),
            ),
        )
        found.append(play_own_rounds(clock.play, now))
    assert clock.told == [
        (0, 0, 1, 1, 1, False, False),
        (1, 0, 0, 0, 0, False, False),
        (2, 0, 0, 0, 0, True, False),
        (3, 1, 1, 1, 1, False, False),
        (4, 1, 0, 0, 0, True, False),
        (5, 2, 1, 1, 1, False, False),
        (6, 2, 0, 0, 0, False, False),
        (7, 2, 0, 0, 0, True, True),
    ]
    assert [one.counts for one in found] == [{"played": 3.0}, {"played": 2.0}, {"played": 3.0}]
    assert [one.measures for one in found] == [{"number": 2.0}, {"number": 4.0}, {"number": 7.0}]
    assert [one.publications.round.tolist() for one in found] == [[2], [4], [7]]


def test_a_run_plays_own_rounds_until_nothing_moves():
    """Members join in the first own round; publications begin in the one that is said."""
    told = []

    def play(before, more):
        def play_round(player, kept, now):
            told.append((now.number, len(now.join[0]), len(now.publish), now.begins_round))
            assert not now.ends_round or before is None
            return SystemRound({}, Publications(), goes_on=now.number < more)

        one = np.array([0])
        now = LivingRound(
            *(0, 1, range(3), None, Events(), one, one, one, (one, one), (one[:0], one[:0])),
            *(Publishing.at_begin((one, one)), None, 0, 1, 0, None, one),
        )
        told.clear()
        play_run(SimpleNamespace(rounds_before=before, play_round=play_round), None, now)
        return told

    assert play(None, 9) == [(0, 1, 1, True)]
    assert play(0, 1) == [(0, 1, 1, True), (1, 0, 0, False)]
    of_three = [(0, 1, 0, True), (1, 0, 0, False), (2, 0, 1, False)]
    assert play(2, 0) == of_three
    assert play(2, 4) == [*of_three, (3, 0, 0, False), (4, 0, 0, False)]
