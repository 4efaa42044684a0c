"""Plumtree in rounds: exact numbers, the oracle's views, and the same tables on any buckets."""

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from arriving import Kernel
from living_buckets import ring_of
from oracle.plumtree.draws import keyed_draw
from oracle.plumtree.hyparview import Views
from oracle.plumtree.play import Command, Network, Played
from oracle.plumtree.plumtree import Rules
from oracle.plumtree.wired_queue import Links
from periods import SystemWorld
from seeds import seeds
from world.test_round_clock import links_of

from scribe_spark.bandwidth.runs import RoundLinks
from scribe_spark.bandwidth.setting import INTERLEAVED, SERIAL
from scribe_spark.core import draws
from scribe_spark.rounds.clocked import WAVE_US
from scribe_spark.rounds.group_overlays import Network as RoundNetwork
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import CARRIED, DELIVERED, OwnRounds, Publishing, SystemRound
from scribe_spark.systems.plumtree import PLUMTREE
from scribe_spark.systems.plumtree.config import PlumtreeConfig

LAN_US = 1_000

#: The number of each group.
GROUPS = np.array([3, 5])


class World(SystemWorld):
    """A world of Plumtree alone in this process."""

    def __init__(
        self,
        nodes: int,
        rules: dict[str, Any],
        buckets: int = 1,
        blind: bool = False,
        seed: int = 0,
        cuts: Sequence[int] = (),
        links: RoundLinks | None = None,
    ) -> None:
        self.nodes, self.rules, self.links = nodes, rules, links
        rng = np.random.default_rng(seed)
        idents = {node: one << 100 for node, one in enumerate(rng.permutation(nodes).tolist())}
        between = rng.integers(20_000, 90_000, (nodes, nodes))
        self.kernel, self.ring = Kernel(between + between.T, np.arange(nodes)), ring_of(idents)
        system = PLUMTREE.world(SimpleNamespace(plumtree=PlumtreeConfig(**rules)))
        network = RoundNetwork(self.ring, self.kernel, LAN_US, seed)
        own = OwnRounds(30 * 10**6, 30 * 10**6)
        super().__init__(system, network, GROUPS, buckets, own, 10, blind, cuts)

    def tally_of_round(self) -> Tally:
        return Tally((*self.system.payload, *self.system.control))

    def play(self, join=(), quit=(), publish=(), schedule=(), **events) -> SystemRound:
        """Play a round; joins, quits and publications are pairs (index of the group, position).

        A schedule has (index of the group, position, time, size) of publications instead.
        """
        if schedule:
            group, node, at_us, size = np.array(schedule, dtype=np.int64).T
            publish = Publishing.numbered(group, node, at_us, size, self.ring.node[node])
        more = {"links": self.links, "scheduled": bool(schedule), **events}
        done, self.tally, self.copies = super().play(join, quit, publish, **more)
        return done

    def state(self) -> dict[int, tuple]:
        """Return the views of each member, by key: active, lazy and passive nodes."""
        found = self.tables["clock state"]
        rows = zip(*(found[n].tolist() for n in ("key", "active", "lazy", "passive")), strict=True)
        return {
            key: (
                {peer for peer, is_lazy in zip(active, lazy, strict=True) if not is_lazy} - {-1},
                {peer for peer, is_lazy in zip(active, lazy, strict=True) if is_lazy} - {-1},
                set(passive) - {-1},
            )
            for key, active, lazy, passive in rows
        }


def everybody(world: World, group: int = 0) -> list[tuple[int, int]]:
    return [(group, node) for node in range(world.nodes)]


STATIC = {"views": "static", "active": 4}


def test_the_first_publication_floods_static_views_and_later_ones_follow_a_tree():
    world = World(60, STATIC)
    first = world.play(join=everybody(world), publish=[(0, 7)])
    degrees = 60 * first.measures["active"]
    assert 3.5 * 60 < degrees <= 4 * 60
    assert world.tally.by_kind()["gossip"] == degrees - 59
    again = world.play(publish=[(0, 7)]).publications.to_columns()
    assert again["duplicates"] == [degrees - 2 * 59]
    assert world.tally.by_kind()["gossip"] == 59
    done = world.play()
    assert done.publications.to_columns() == {
        **{"round": [1], "group": [0], "expected": [60], "in_time": [60], "late": [0]},
        **{"first_copies": [59], "duplicates": [0]},
    }
    assert done.measures["eager"] == pytest.approx(2 * 59 / 60)


def test_a_copy_that_comes_back_to_the_source_is_no_first_one():
    """A neighbour of the source has the publication from another node before it has it directly."""
    world = World(12, {"views": "static", "active": 8})
    world.play(join=everybody(world), publish=[(0, 2)])
    copies = world.rows[CARRIED]
    assert np.count_nonzero(copies["to"] == 2) == 1
    assert sorted(copies["to"][copies["first"]]) == [node for node in range(12) if node != 2]
    came = world.rows[DELIVERED]
    hops = dict(zip(came["node"].tolist(), came["hops"].tolist(), strict=True)) | {2: 0}
    assert copies["hops"].tolist() == [1 + hops[node] for node in copies["sender"].tolist()]


def test_a_copy_to_a_dead_node_does_not_arrive():
    """Nodes notice a death when they send."""
    world = World(40, {"notice": "sending", "shuffle_seconds": 300.0})
    world.play(join=everybody(world))
    world.play(fail=[3, 9, 20], publish=[(0, 1)])
    sent = world.tally.by_kind()
    assert sent["lost gossip"] > 3
    copies = world.rows[CARRIED]
    dead = np.isin(copies["to"], [3, 9, 20])
    assert (np.count_nonzero(dead), len(dead)) == (sent["lost gossip"], sent["gossip"])
    assert np.count_nonzero(copies["first"]) == len(world.rows[DELIVERED]["node"])
    (due,) = zip(*world.play().publications.to_columns().values(), strict=True)
    first, again = due[-2:]
    assert first + again == sent["gossip"] - sent["lost gossip"]


def _by_the_oracle(world: World, seed: int, commands: list[tuple]) -> Played:
    """Play commands by the queue of events, with the draws of a round."""
    delays, rules = world.kernel.delay_us + 2 * LAN_US, world.rules
    views = Views(active=rules["active"], passive=rules["passive"])
    delay = lambda a, b: int(delays[a, b])  # noqa: E731
    network = Network(world.nodes, delay, keyed_draw(seed), views, Rules())
    network.add([Command(*one) for one in commands])
    network.play()
    return network.played()


@pytest.mark.parametrize(
    ("views", "refreshes"), [("waves", 0), ("at_once", 0), ("waves", 3), ("at_once", 1)]
)
def test_newcomers_get_the_views_that_a_queue_of_events_gives(views, refreshes):
    """Refreshes of a round begin after the last wave."""
    every = 30 / refreshes if refreshes else 60.0
    world = World(40, {"views": views, "passive": 8, "active": 3, "shuffle_seconds": every})
    world.play(join=everybody(world), publish=[(0, 9)])
    seed = int(draws.bits_np(0, "round of a clock", 0) >> np.uint64(1))
    commands, there, wave = [], 0, 0
    while there < 40:
        size = 1 if not wave else max(1, there // 2) if views == "waves" else 40
        for node in range(there, min(40, there + size)):
            bits = int(draws.bits_np(seed, "contact", GROUPS[0], world.ring.node[node]))
            contact = bits % there if there else -1
            commands.append((wave * WAVE_US, "join", node, contact))
        there, wave = min(40, there + size), wave + 1
    for at in (wave * WAVE_US + number * int(every * 10**6) for number in range(refreshes)):
        commands += [(at, "shuffle", node) for node in range(40)]
    expected = _by_the_oracle(world, seed, [*commands, (10**9, "publish", 9, 0)])
    state = world.state()
    assert {key: active | lazy for key, (active, lazy, _) in state.items()} == expected.active
    assert {key: passive for key, (*_, passive) in state.items()} == expected.passive
    assert {key: eager for key, (eager, *_) in state.items()} == expected.eager
    receipts = {of: got for of, got in expected.receipts.items()}
    rows = world.rows[DELIVERED]
    names = "publication", "node", "delay_us", "hops"
    found = sorted(zip(*(rows[name].tolist() for name in names), strict=True))
    assert len(found) == 39
    assert [(p, node) for p, node, *_ in found] == [(0, n) for n in range(40) if n != 9]
    for publication, node, delay_us, hops in found:
        assert receipts[publication, node][:2] == (10**9 + delay_us, hops)


def _networks(world: World, checks_us: tuple[int, ...], seed: int) -> list[Network]:
    """Return the oracle's networks of the two groups, with the views that members have now."""
    rules, links, state = world.system.rules, world.links, world.tables["clock state"]
    us = {"timer_1_us": "first_wait", "timer_2_us": "next_wait", "batch_us": "batch"}
    times = {name: rules.us[of] for name, of in us.items()}
    given = Rules(rules.rules, **times, duplicates=rules.duplicates, validation_us=checks_us)
    delays, n = world.kernel.delay_us + 2 * LAN_US, world.nodes
    of_links = None
    if links is not None:
        sizes = tuple(world.schedule_sizes)
        of_links = Links((links.up,) * n, (links.down,) * n, sizes, links.uplink == SERIAL)
    found = []
    for group in range(len(GROUPS)):
        mine = state["key"] // n == group
        columns = (state[name][mine].tolist() for name in ("active", "lazy", "duplicates"))
        slots = [list(zip(*of_node, strict=True)) for of_node in zip(*columns, strict=True)]
        nodes = (state["key"][mine] % n).tolist()
        views = {
            node: [one for one in of_node if one[0] >= 0]
            for node, of_node in zip(nodes, slots, strict=True)
        }
        static = {node: [peer for peer, *_ in of_node] for node, of_node in views.items()}
        network = Network(
            n, lambda a, b: int(delays[a, b]), keyed_draw(seed), Views(), given, static, of_links
        )
        for node, of_node in views.items():
            tree = network.nodes[node].tree
            tree.duplicates |= {peer: count for peer, _, count in of_node}
            for peer in (peer for peer, is_lazy, _ in of_node if is_lazy):
                tree.make_lazy(peer)
        found.append(network)
    return found


#: A seed and a number of buckets: each number with all rules, and with all sizes.
LATIN = [(seed, (1, 2, 7)[(seed + seed // 3) % 3]) for seed in range(9)]
REST = [one for one in itertools.product(range(9), (1, 2, 7)) if one not in LATIN]


@pytest.mark.parametrize(("seed", "buckets"), seeds([*LATIN, *REST], len(LATIN)))
def test_publications_of_a_schedule_are_those_of_a_queue_of_events(seed, buckets):
    """Several are in flight, in three rounds; two thirds of the cases have sizes.

    The links of groups are independent.  Members keep their lazy links from round to round.
    """
    rng, n = np.random.default_rng(seed), 24
    rules = {"views": "static", "active": 4, "rules": ("paper", "iroh", "corrosion")[seed // 3]}
    if seed in (4, 7):
        rules = {"views": "full", "rules": rules["rules"]}
    checks_us = 3_000 * (seed % 2)
    sized = seed % 3 > 0
    rates = {"up": 2_000_000, "down": 5_000_000} if sized else {}
    uplink = (INTERLEAVED, SERIAL)[seed % 3 - 1]
    links = links_of(0, validation_us=checks_us, uplink=uplink, shared=False, **rates)
    world = World(n, rules, buckets, seed=seed, links=links)
    some = [(1, node) for node in range(0, n, 2)]
    world.play(join=[*everybody(world), *some])
    for number in range(1, 4):
        group, at_us = rng.integers(0, 2, 12), rng.integers(0, 300_000, 12)
        node = rng.integers(0, n // 2, 12) * 2
        size = rng.integers(1, 20_000, 12) * sized
        draw = int(draws.bits_np(seed, "round of a clock", number) >> np.uint64(1))
        rows = list(zip(*(one.tolist() for one in (group, node, at_us, size)), strict=True))
        world.schedule_sizes = sorted(rows, key=lambda one: one[2])
        world.schedule_sizes = [one[3] for one in world.schedule_sizes]
        networks = _networks(world, (checks_us,) * n, draw)
        world.play(schedule=rows)
        publish = world.published
        commands = zip(*(getattr(publish, one).tolist() for one in ("at_us", "node")), strict=True)
        for index, (at, source) in enumerate(commands):
            networks[publish.group[index]].add([Command(at, "publish", source, index)])
        expected: list[tuple] = []
        copies: list[tuple] = []
        for network in networks:
            network.play()
            receipts = network.multicasts.receipts.items()
            expected += [
                (*of, at - int(publish.at_us[of[0]]), hops)
                for of, (at, hops, sender) in receipts if sender >= 0
            ]  # fmt: skip
            copies += [(p, sender, to) for p, sender, to, *_ in network.multicasts.copies]
        assert found(world.rows[DELIVERED], "publication", "node", "delay_us", "hops") == sorted(
            expected
        )
        assert found(world.rows[CARRIED], "publication", "sender", "to") == sorted(copies)
        played = [network.played() for network in networks]
        eager = {group * n + node: peers for group, one in enumerate(played)
                 for node, peers in one.eager.items()}  # fmt: skip
        assert {key: of for key, (of, *_) in world.state().items()} == {
            key: eager[key] for key in world.state()
        }


def _choices_by_hand(world: World, seed: int, group: int, nodes: list[int]) -> dict:
    """Return (member, other) -> True if a member of a group makes the link lazy: rule Z8."""
    number, count = world.ring.node, len(nodes)
    eager = max(2, math.floor(3 * math.log10(count) + 0.5))
    many = {False: (eager - 1) // 2, True: (math.floor(1.75 * eager + 0.5) + 1) // 2}
    third = 2 * sum(many.values())
    links: dict = {}
    for place, node in enumerate(nodes):
        drawn = []
        for candidate in range(3 * third if count > 2 else 0):
            bits = int(draws.bits_np(seed, "candidate", GROUPS[group], number[node], candidate))
            others = [other for other in nodes if other != node]
            drawn.append(others[bits % len(others)])
        delay = world.kernel.delay_us + 2 * LAN_US
        trips = [delay[node, other] + delay[other, node] for other in drawn]
        by_trip = sorted(range(len(drawn)), key=lambda one: (trips[one], one))
        thirds = [sorted(by_trip[first : first + third]) for first in (0, third, 2 * third)]
        chosen = [(nodes[(place + 1) % count], False)]
        for lazy, wanted in many.items() if count > 2 else ():
            near, far = (wanted + 1) // 2, wanted // 5
            for part, some in zip(thirds, (near, wanted - near - far, far), strict=True):
                chosen += [(drawn[part.pop(0)], lazy) for _ in range(some)]
        for other, lazy in chosen:
            for ends in ((node, other), (other, node)) if other != node else ():
                links[ends] = links.get(ends, True) and lazy
    return links


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 30, 60])
def test_members_who_know_all_others_have_near_and_far_neighbours(count):
    world = World(60, {"views": "full", "rules": "corrosion"}, buckets=3, seed=count)
    few = sorted(range(59, 0, -7))
    world.play(join=[*((0, node) for node in range(count)), *((1, node) for node in few)])
    seed = int(draws.bits_np(count, "round of a clock", 0) >> np.uint64(1))
    for group, nodes in enumerate([list(range(count)), few]):
        links = _choices_by_hand(world, seed, group, nodes)
        for node in nodes:
            eager, lazy, passive = world.state()[group * 60 + node]
            assert eager == {b for (a, b), is_lazy in links.items() if a == node and not is_lazy}
            assert lazy == {b for (a, b), is_lazy in links.items() if a == node and is_lazy}
            assert not passive


def found(rows, *names: str) -> list[tuple]:
    """Return rows, sorted."""
    return sorted(zip(*(rows[name].tolist() for name in names), strict=True))


def _story(world: World) -> list:
    """Play rounds with all events; return everything that they leave."""
    left = []

    def play(**events) -> None:
        done = world.play(**events)
        left.append((done.measures, done.publications.by_group(GROUPS, world.number - 2)))
        left.append((world.tally.by_kind(), world.state(), world.multicasts, world.copies))

    some = [(1, node) for node in range(0, world.nodes, 3)]
    play(join=[*everybody(world), *some], publish=[(0, 1), (1, 2), (1, 3)])
    play(publish=[(0, 1), (0, 5)], quit=[(0, 2), (1, 3)])
    play(fail=range(10, 22), leave=[30, 31], publish=[(0, 1), (1, 5)])
    play(back=[12, 13], join=[(0, 12), (0, 2), (1, 13)], publish=[(0, 12), (1, 1)])
    play()
    play(publish=[(0, 4), (1, 5)])
    return left


BLIND, CUT = {"buckets": 2, "blind": True}, {"buckets": 3, "cuts": (7, 1, 2)}


@pytest.mark.parametrize(
    ("rules", "how"),
    [
        ({"shuffle_seconds": 40.0}, CUT),
        pytest.param(
            {"rules": "iroh", "membership": "iroh", "views": "at_once", "passive": 6},
            BLIND,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"rules": "corrosion", "notice": "sending", "growth": 2.0, "shuffle_seconds": 14.0},
            CUT,
            marks=pytest.mark.slow,
        ),
        pytest.param({"views": "static"}, BLIND, marks=pytest.mark.slow),
        ({"views": "full", "rules": "corrosion", "first_wait_ms": 50.0}, BLIND),
        pytest.param({"repair": False, "active": 4}, BLIND, marks=pytest.mark.slow),
    ],
)
def test_any_buckets_leave_the_same(rules, how):
    assert repr(_story(World(34, rules, **how))) == repr(_story(World(34, rules)))


def test_a_member_that_leaves_or_quits_tells_its_neighbours():
    world = World(40, {"shuffle_seconds": 300.0})
    world.play(join=everybody(world))
    before = world.state()
    world.play(leave=[5], quit=[(0, 6)])
    told = sum(len(one) for member in (5, 6) for one in before[member][:2])
    assert world.tally.by_kind()["disconnect"] == told > 0


def test_nobody_is_a_neighbour_of_itself():
    """A group of one member and one of two, with views that are given."""
    world = World(6, STATIC)
    world.play(join=[(0, 3), (1, 0), (1, 5)])
    nothing = set()
    assert world.state() == {
        3: (nothing, nothing, nothing), 6: ({5}, nothing, nothing), 11: ({0}, nothing, nothing),
    }  # fmt: skip


def test_the_dead_are_forgotten_and_those_that_come_back_begin_anew():
    world = World(40, {"shuffle_seconds": 30.0})
    world.play(join=everybody(world))
    before = world.state()
    done = world.play(fail=[3, 4], leave=[5], quit=[(0, 6)], publish=[(0, 6)])
    after = world.state()
    assert set(before) - set(after) == {3, 4, 5, 6}
    assert not any({3, 4, 5, 6} & (eager | lazy) for eager, lazy, _ in after.values())
    # 6 has quit, and publishes as a guest, by one copy to a member
    rows = world.rows[CARRIED]
    assert np.count_nonzero(rows["sender"] == 6) == 1
    assert len(world.rows[DELIVERED]["node"]) == 36
    done = world.play()
    assert done.publications.to_columns()["expected"] == [36]
    assert done.publications.to_columns()["in_time"] == [36]
    world.play(back=[3], join=[(0, 3), (0, 6)])
    views = {key: eager | lazy for key, (eager, lazy, _) in world.state().items()}
    assert len(views[3]) >= 1
    assert len(views[6]) >= 1
    assert all(one in views[peer] for one in views for peer in views[one])
