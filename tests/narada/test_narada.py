"""Narada in process: quiet meshes, failures, rules by hand, and the same state on any buckets."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import networkx
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
from scribe_spark.systems.narada.meshes import TABLES, UNREACHABLE

SLOW = pytest.mark.slow

#: Members neither add nor drop links, but repair the mesh.
STILL = {"threshold": 0.0, "degree": 1, "many_links": 1024}


def delays(size: int, seed: int) -> np.ndarray:
    """Return drawn delays D, which differ by direction."""
    found = np.random.default_rng(seed).integers(2_000, 90_000, (size, size))
    np.fill_diagonal(found, 0)
    return found


def everybody(size: int, groups: int = 1) -> list[tuple[int, int]]:
    return [(group, node) for group in range(groups) for node in range(group, size, group + 1)]


def quiet(size: int, seed: int, periods: int = 40, groups: int = 1, **settings) -> Played:
    """Return groups whose members have joined long ago."""
    numbers = tuple(range(7, 7 + groups))
    played = Played(delays(size, seed), seed, numbers, **{"join_periods": 5, **settings})
    played.play(join=everybody(size, groups))
    for _ in range(periods - 1):
        played.play()
    return played


def rest(played: Played) -> Played:
    """Let members neither add nor drop links for some periods."""
    played.system = replace(played.system, rules=NaradaConfig(**STILL).for_tasks())
    for _ in range(20):
        played.play()
    return played


def receivers(played: Played, group: int, source: int) -> Counter:
    """Return how often nodes receive a publication that live nodes forward once."""
    edges = played.edges([(group, source)])
    tree = networkx.DiGraph(zip(edges["node"].tolist(), edges["peer"].tolist(), strict=True))
    tree.add_node(source)
    living = tree.subgraph(node for node in tree if played.alive[node])
    from_source = networkx.descendants(living, source) | {source}
    return Counter(to for node, to in living.edges if node in from_source and to != source)


# --- exact bars


@pytest.mark.parametrize(
    ("size", "seeds", "groups"),
    [
        (2, range(1), 1),
        (3, range(2), 1),
        (24, range(2), 3),
        pytest.param(24, range(2, 9), 3, marks=SLOW),
        pytest.param(150, range(5), 2, marks=SLOW),
    ],
)
def test_a_quiet_mesh_is_one_part_and_each_member_is_reached_once(size, seeds, groups):
    for seed in seeds:
        played = rest(quiet(size, seed, groups=groups))
        meshes = played.meshes
        links = set(zip(meshes.a.tolist(), meshes.b.tolist(), strict=True))
        assert {(b, a) for a, b in links} == links
        assert meshes.degree.max() <= 14
        for group in range(groups):
            members = np.flatnonzero(meshes.group == group)
            mesh = networkx.Graph([ends for ends in links if meshes.group[ends[0]] == group])
            assert set(mesh) == set(members.tolist())
            assert networkx.is_connected(mesh)
            nodes = meshes.node[members].tolist()
            for source in nodes[:6]:
                others = [node for node in nodes if node != source]
                assert receivers(played, group, source) == Counter(others)
        assert (meshes.known == meshes.width).all()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=SLOW) for seed in range(1, 9))])
def test_costs_of_a_mesh_at_rest_are_those_of_shortest_ways(seed):
    played = rest(quiet(20, seed))
    meshes = played.meshes
    mesh = networkx.Graph()
    ends = zip(meshes.a.tolist(), meshes.b.tolist(), meshes.distance.tolist(), strict=True)
    mesh.add_weighted_edges_from(ends)
    shortest = dict(networkx.all_pairs_dijkstra_path_length(mesh))
    expected = [[shortest[a][b] for b in range(20)] for a in range(20)]
    assert meshes.cells["cost"].reshape(20, 20).tolist() == expected


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=SLOW) for seed in range(1, 9))])
def test_after_failures_the_living_are_reached_and_the_dead_forgotten(seed):
    """A member forgets one silent member at most in a period, and the last ones late."""
    played = quiet(20, seed, 30)
    dead = np.random.default_rng(seed).choice(20, 4, replace=False).tolist()
    played.play(died=dead)
    living = sorted({*range(20)} - {*dead})
    for _ in range(40):
        played.play()
    for source in living:
        assert sorted(receivers(played, 0, source)) == [node for node in living if node != source]
    assert played.meshes.node.tolist() != living
    for _ in range(250):
        played.play()
    assert played.meshes.node.tolist() == living


# --- rules by hand


def line(distances: list[int], **settings) -> Played:
    """Return members 0, 1, ... who each link the one before, so that ways are a line."""
    at = np.cumsum([0, *distances])
    played = Played(abs(at[:, None] - at), join_periods=1, contacts=1, **settings)
    for node in range(len(at)):
        while True:  # the draw decides whom a newcomer links
            state, number = dict(played.state), played.number
            played.play(join=[(0, node)])
            links = played.meshes
            if (
                not node
                or links.b[links.a == links.find(np.array([0]), np.array([node]))[0]] == node - 1
            ):
                break
            played.state, played.number = state, number
            played.network = played.network.__class__(
                *(played.network.ring, played.network.kernel, 0, played.network.seed + 1)
            )
    return played


def cell(played: Played, a: int, b: int) -> dict[str, int]:
    meshes = played.meshes
    ends = (meshes.find(np.array([0]), np.array([one])) for one in (a, b))
    where = int(meshes.cell(*ends)[0])
    return {name: int(column[where]) for name, column in meshes.cells.items()}


def test_vectors_carry_news_by_a_link_a_period():
    played = line([10, 20, 30], **STILL)
    began = played.number - 1
    for period in range(1, 4):
        played.play()
        found = cell(played, 0, 3)
        if period < 3:
            assert found == {"heard": -1, "number": -1, "cost": UNREACHABLE, "next": -1}
    assert found == {"heard": began + 3, "number": began, "cost": 60, "next": 1}


def test_poisoned_reverse_leaves_no_way_back_over_the_asker():
    """The end of a line dies: its neighbour has no way, and takes none from the others."""
    played = line([10, 20, 30], **STILL, neighbour_periods=3)
    for _ in range(4):
        played.play()
    played.play(died=[3])
    costs = []
    for _ in range(3):
        played.play()
        costs.append([cell(played, node, 3)["cost"] for node in range(3)])
    ends = [60, 50, 30], [60, 50, 30], [60, 50, UNREACHABLE]
    assert costs == list(ends)
    played.play()
    assert [cell(played, node, 3)["cost"] for node in range(3)] == [60, UNREACHABLE, UNREACHABLE]


def test_members_say_goodbye_and_come_back():
    played = line([10, 20], **STILL)
    for _ in range(3):
        played.play()
    sent = played.play(quit=[(0, 2)]).sent
    ends = zip(*(sent["unlink"][one].tolist() for one in ("sender", "to")), strict=True)
    assert list(ends) == [(2, 1)]
    assert 2 not in played.meshes.node[played.meshes.is_in]
    played.play(join=[(0, 2)])
    for _ in range(3):
        played.play()
    assert cell(played, 0, 2)["cost"] < UNREACHABLE


def test_a_source_that_is_no_member_sends_to_the_nearest_one():
    played = line([10, 20], **STILL)
    for _ in range(3):
        played.play()
    played.play(quit=[(0, 0)])
    for _ in range(12):
        played.play()
    edges = played.edges([(0, 0)])
    assert sorted(zip(edges["node"].tolist(), edges["peer"].tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
    ]


def test_all_links_between_two_parts_break_and_probes_mend_them():
    """Members of two parts fall silent to each other; one probes the other and links it."""
    played = line([10, 20, 30, 40], **STILL, neighbour_periods=2)
    for _ in range(6):
        played.play()
    played.play(died=[2])
    parts = []
    for _ in range(40):
        played.play()
        parts.append(len(receivers(played, 0, 0)))
    assert parts[2] == 1
    assert parts[-1] == 3


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
