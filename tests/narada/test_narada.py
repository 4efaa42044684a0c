"""Narada in process: refusals, and the same state on any buckets."""

from types import SimpleNamespace

import numpy as np
import pytest
from arriving import Kernel
from living_buckets import ring_of
from periods import SystemWorld

from narada.played import Played
from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.system import OwnRounds
from scribe_spark.systems.narada import NARADA
from scribe_spark.systems.narada.config import NaradaConfig
from scribe_spark.systems.narada.meshes import TABLES

SLOW = pytest.mark.slow


def delays(size: int, seed: int) -> np.ndarray:
    """Return drawn delays D, which differ by direction."""
    found = np.random.default_rng(seed).integers(2_000, 90_000, (size, size))
    np.fill_diagonal(found, 0)
    return found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"group_size": 1_025}, "systems = 'narada': has 1,025 members in group 1; must be at"),
        ({"groups": 1}, "systems = 'narada': has 2,000 members in group 1; must be at"),
        ({"narada_threshold": 1.5}, "narada_threshold = 1.5: must be at most 1"),
        ({"narada_join_periods": 0}, "narada_join_periods = 0: must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(given, words):
    for config in (RunConfig, WorldConfig):
        with pytest.raises(InputError) as refused:
            config(**{"nodes": 2_000, "groups": 3, "systems": "narada", **given})
        assert str(refused.value).startswith(words)


def test_a_group_that_grows_too_large_is_refused():
    played = Played(np.zeros((1_026, 1_026), dtype=np.int64))
    played.play(join=[(0, node) for node in range(1_024)])
    with pytest.raises(InputError, match=r"has 1,025 members in group 0; must be at most"):
        played.play(join=[(0, 1_024)])


# --- on buckets


class World(SystemWorld):
    """A world of Narada alone in this process."""

    def __init__(self, size: int, groups: int, seed: int, buckets: int, seconds: int) -> None:
        drawn = np.random.default_rng(seed).permutation(size).tolist()
        ring = ring_of({node: one << 100 for node, one in enumerate(drawn)})
        rules = NaradaConfig(join_periods=4, neighbour_periods=3, silent_periods=3)
        system = NARADA.world(SimpleNamespace(narada=rules))
        network = Network(ring, Kernel(delays(size, seed), np.arange(size)), 1_000, seed)
        own = OwnRounds(seconds * 10**6, 10**7)
        super().__init__(system, network, range(3, 3 + groups), buckets, own, 10)

    def seen(self, *changes, **events) -> tuple:
        """Play a round; return what is seen of it."""
        done, tally, copies = self.play(*changes, **events)
        measures = {name: round(value, 9) for name, value in done.measures.items()}
        return tally.by_kind(), copies, repr(self.multicasts), measures, self.state()

    def state(self) -> dict[str, list]:
        """Return the tables of the state, group by group."""
        found = self.buckets.player(self.system).gather(*(f"state: {name}" for name in TABLES))
        return {
            name: [
                np.stack([column[order] for column in columns.values()]).tolist()
                for order in [np.argsort(columns["group"], kind="stable")]
            ]
            for name, columns in found.items()
        }


def world_of(seed: int, buckets: int, rounds: int) -> list[tuple]:
    """Return what is seen of a world in which nodes die, leave, join, quit and come back."""
    rng, size = np.random.default_rng(seed), 24
    world = World(size, 3, seed, buckets, (10, 30)[seed % 2])
    members = {(group, node) for group in range(3) for node in range(size) if rng.random() < 0.7}
    seen = [world.seen(members)]
    dead: set[int] = set()
    for number in range(1, rounds):
        living = sorted({*range(size)} - dead)
        gone = set(rng.choice(living, 2, replace=False).tolist()) if number % 3 == 1 else set()
        back = set(rng.choice(sorted(dead), 1).tolist()) if dead and number % 2 else set()
        stays = {(group, node) for group, node in members if node not in gone}
        quit = set(map(tuple, rng.permutation(sorted(stays))[:2].tolist()))
        members = stays - quit
        can = sorted(
            {(group, node) for group in range(3) for node in {*living, *back} - gone}
            - members
            - quit
        )
        join = set(map(tuple, rng.permutation(can)[:4].tolist()))
        members |= join
        publish = {(group, int(rng.choice(sorted({*living} - gone)))) for group in range(3)}
        events = {"fail": sorted(gone)[:1], "leave": sorted(gone)[1:], "back": back}
        seen.append(world.seen(join, quit, publish, **events))
        dead = (dead | gone) - back
    return seen


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=SLOW) for seed in range(2, 40))])
def test_a_world_is_the_same_on_any_buckets(seed):
    one = world_of(seed, 1, 8)
    assert sum(copies.total() for _, copies, *_ in one) > 20
    assert one[-1][0]["vector"] > 0
    for buckets in (2, 7):
        assert world_of(seed, buckets, 8) == one
