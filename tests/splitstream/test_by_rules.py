"""SplitStream beside an oracle that was written from the rules alone: docs/rules.md, L1 to L12."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from identifiers import parts, whole
from oracle.ring import root_of
from oracle.splitstream import LAST_HOP, Channel, Node, check, random_case
from seeds import seeds

from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Ring
from scribe_spark.pastry.routes import ROUTES
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.splitstream.period import ENDLESS, NODES
from scribe_spark.systems.splitstream.splitstream import SplitStream
from splitstream import played
from splitstream.played import Rules, play

LACKS = "lost", "lost.nodes", "lost.mean", "converging", "converged", "converged.rounds"


@pytest.mark.parametrize("seed", seeds(range(200), 8))
def test_channels_equal_the_oracle(seed: int) -> None:
    """After each period the state is the oracle's, and so are all messages and the last hop."""
    case = random_case(seed)
    channel, kernel = Channel(case), InProcess(case)
    for period in case["periods"]:
        channel.play(period)
        check(channel)
        wanted, found = channel.outputs(), kernel.play(period)
        if wanted["hops"] >= LAST_HOP:  # only those with an event are counted here
            found["hops"] = wanted["hops"]
        for name in wanted:
            assert found[name] == wanted[name], (period["P"], name)


@pytest.mark.parametrize("of", [[0, 3, 29], pytest.param(range(200), marks=pytest.mark.slow)])
def test_worlds_equal_the_oracle(of) -> None:
    """Several groups, on Pastry's own routes: states, messages, copies, and what nodes lack."""
    kinds: set[str] = set()
    took: list[float] = []
    for seed in of:
        case = with_more_sources(played.random_case(seed))
        channels = [Channel(plain(case, number)) for number in sorted(case.keys)]
        lack = [0] * len(channels)  # rounds
        for number, seen in enumerate(play(case)):
            wanted, name = Counter(), case.ring.node.tolist()
            for group, channel in enumerate(channels):
                channel.play(period_of(case, group, number, seen))
                check(channel)
                compare(case, channel, group, seen)
                sent = [(kind, ends) for kind, every in channel.messages.items() for ends in every]
                for rank, source in enumerate(positions(case, group, case.days[number].publish)):
                    sent += [("payload", ends) for ends in channel.copies(source, rank)]
                wanted.update((name[a], name[b], kind) for kind, (a, b) in sent)
            assert seen.messages == wanted, (seed, number)
            every = [channel.lacking() for channel in channels]
            # a channel without live nodes has ended
            whole = [n for n, one in zip(lack, every, strict=True) if n and one and not any(one)]
            lack = [(n + 1) * any(one) for n, one in zip(lack, every, strict=True)]
            lost, hit = (sum(f(n) for one in every for n in one) for f in (int, bool))
            took += whole
            assert {name: seen.measures[name] for name in LACKS} == {
                **{"lost": lost, "lost.nodes": hit, "lost.mean": lost / max(1, hit)},
                **{"converging": sum(map(bool, lack)), "converged": len(whole)},
                "converged.rounds": sum(whole) / max(1, len(whole)),
            }, (seed, number)
            kinds |= {kind for *_, kind in wanted}
    assert len(kinds) == 10, kinds
    assert max(took) > 2


def test_a_late_drop_is_ignored() -> None:
    """Node a leaves o, as the least of a ring, while o drops it: it asks once, not twice.

    In stripe 1, m is below a, below o, which the path of m does not tell; o has no parent.  It
    finds m in hop 1, a finds itself in hop 3, when z comes to o on a long route.
    """
    a, m, r0, o, z, r1, w1, w2 = range(8)
    below = {a: o, m: a, r0: r1}
    to_next = {a: r1, m: r1, r0: r1, o: m, z: w1, w1: w2, w2: o}
    direct = {x: r0 for x in range(8) if x != r0}
    case = {
        **{"seed": 1, "G": 1, "S": 2, "b": 1, "policy": "freepastry", "waves": 1},
        "ids": [f"{one:02x}{0:030x}" for one in (0x10, 0x20, 0x41, 0x90, 0xA0, 0xC1, 0xD8, 0xE0)],
        "numbers": list(range(8)),
        "bounds": [1 if x == o else None for x in range(8)],
        "key": f"{0x40:02x}{0:030x}",
    }
    routes = {"0": direct, "1": to_next}
    period = {
        **{"P": 1, "join": [z], "quit": [], "died": [], "alive": [True] * 8, "roots": [r0, r1]},
        "routes": {
            s: {str(x): route([[of.get(y, -1)] for y in range(8)], x, 0) for x in range(8)}
            for s, of in routes.items()
        },
    }
    channel, kernel = Channel(case), InProcess(case)
    start(channel, kernel, period["roots"], [dict.fromkeys((a, m, o, r1), r0), below])
    channel.play(period)
    check(channel)
    assert channel.messages["subscribe"].count((a, r1)) == 1
    assert {(a, o)} == set(channel.messages["leave"])
    assert {(o, a)} == set(channel.messages["drop"])
    assert kernel.play(period) == channel.outputs()


def start(
    channel: Channel, kernel: InProcess, roots: list[int], parents: list[dict[int, int]]
) -> None:
    """Let channels begin with members, who know their parents only."""
    nodes = sorted({*roots, *(x for of in parents for pair in of.items() for x in pair)})
    above = [[of.get(x, -1) for of in parents] for x in nodes]
    channel.members, channel.roots = set(nodes), roots
    channel.nodes = {x: Node(channel.stripes) for x in nodes}
    for s, of in enumerate(parents):
        for x, parent in of.items():
            channel.nodes[x].parent[s], channel.nodes[x].ancestors[s] = parent, [parent]
            channel.nodes[parent].children[s].add(x)
    none = np.full(len(nodes), -1)
    kernel.state[NODES] = {
        **{"group": none * 0, "node": np.array(nodes), "died": none, "spare_parent": none},
        **{"member": none < 0, "parent": np.array(above, dtype=np.int32)},
        "ancestors": np.array(above, dtype=np.int32)[:, :, None],
        "root": np.array(nodes)[:, None] == roots,
    }


class InProcess:
    """The kernel, which plays periods of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        size = len(case["ids"])
        ids = parts(int(one, 16) for one in case["ids"])
        ring = Ring(*ids, np.array(case["numbers"]), np.zeros(size, dtype=np.int64))
        bounds = np.array([ENDLESS if one is None else one for one in case["bounds"]])
        self.case, self.state = case, dict[str, Columns]()
        self.system = SplitStream(Rules(case["S"], 0, case["policy"], case["waves"]), case["b"])
        self.network = Network(ring, None, 0, case["seed"], capacity=bounds)

    def play(self, period: dict[str, Any]) -> dict[str, Any]:
        """Play a period; the form is that of `Channel.outputs`."""
        number, routes = period["P"], routes_of(period)
        join, quit = (
            (np.zeros(len(period[name]), dtype=np.int64), np.array(period[name], dtype=np.int64))
            for name in ("join", "quit")
        )
        given = Period(
            *(number, number, True, True, np.array([self.case["G"]])),
            *parts([int(self.case["key"], 16)]),
            *(join, quit, np.array(period["died"], dtype=np.int64)),
            *(np.array(period["alive"]), self.network, {ROUTES: routes}),
        )
        sent = self.system.play_period(self.state, given)
        return state_of(self.state, self.case["S"], given.alive) | {
            "messages": {
                kind: sorted(map(list, pairs(rows["sender"], rows["to"])))
                for kind, rows in sorted(sent.items())
                if len(rows["to"])
            },
            "hops": given.counts.get("hops", 0),
            "given_up": sorted(pair for _, *ends in given.failures for pair in pairs(*ends)),
        }


def pairs(one: np.ndarray, other: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of numbers."""
    return list(zip(one.tolist(), other.tolist(), strict=True))


def state_of(state: dict[str, Columns], stripes: int, alive: np.ndarray) -> dict[str, Any]:
    """Return the state of a group after a period, in the form of `Channel.outputs`."""
    nodes = state[NODES]
    at = nodes["node"].tolist()
    entries = SplitStream(Rules(stripes)).entries(state, SimpleNamespace(ring=alive))
    kept = {
        kind: dict(zip(rows["node"].tolist(), rows["entries"].tolist(), strict=True))
        for kind, rows in entries.items()
    }
    parent = dict(zip(at, nodes["parent"].tolist(), strict=True))
    lists = nodes["ancestors"].tolist()
    return {
        "nodes": sorted(at),
        "parents": {str(x): parent[x] for x in at},
        "ancestors": {
            str(x): [[y for y in one if y >= 0] for one in known]
            for x, known in zip(at, lists, strict=True)
            if alive[x]
        },
        "children": {
            str(x): [sorted(c for c in at if parent[c][s] == x) for s in range(stripes)] for x in at
        },
        "spare_parents": dict(zip(map(str, at), nodes["spare_parent"].tolist(), strict=True)),
        "entries": {str(x): {kind: of[x] for kind, of in kept.items()} for x in at if alive[x]},
    }


def routes_of(period: dict[str, Any]) -> Columns:
    """Return the next hop of each live node to each key, as the kernel gets them."""
    every = period["routes"]
    key = [int(x) * len(every) + int(s) for s, of in every.items() for x in of]
    onward = [route[1] if len(route) > 1 else -1 for of in every.values() for route in of.values()]
    return {"key": np.array(key, dtype=np.int64), "next": np.array(onward, dtype=np.int64)}


# --- worlds of `played` as cases of the oracle


def with_more_sources(case: played.Case) -> played.Case:
    """Return the case with newcomers as further sources."""
    days = []
    for day in case.days:
        more = {next(iter(sorted(p for p in day.join if p[0] == g)), None) for g in case.keys}
        days.append(replace(day, publish=tuple(sorted({*day.publish, *more} - {None}))))
    return replace(case, days=days)


def plain(case: played.Case, number: int) -> dict[str, Any]:
    """Return a group of a world without its periods."""
    ring, rules = case.ring, case.rules
    bounds = [rules.bound or None] * len(ring)
    if case.capacity is not None:
        bounds = [case.capacity[node] for node in ring.node.tolist()]
    return {
        "seed": case.seed,
        "G": number,
        "S": rules.stripes,
        "b": case.b,
        "policy": rules.policy,
        "waves": rules.waves,
        "ids": [f"{one:032x}" for one in whole_ids(ring)],
        "numbers": ring.node.tolist(),
        "bounds": bounds,
        "key": f"{case.keys[number]:032x}",
    }


def positions(case: played.Case, group: int, pairs: Any) -> list[int]:
    """Return the positions of a group's nodes."""
    name = sorted(case.keys)[group]
    order = case.ring.node.tolist()
    return sorted(order.index(node) for of, node in pairs if of == name)


def period_of(case: played.Case, group: int, number: int, seen: played.Seen) -> dict[str, Any]:
    """Return a period of a group, with Pastry's routes."""
    day, order, alive = case.days[number], case.ring.node.tolist(), seen.alive.tolist()
    onward = seen.next_hops(case, group).tolist()
    keys, ids = whole_ids(played.ids_of(case, group)), whole_ids(case.ring)
    live = [x for x, lives in enumerate(alive) if lives]
    return {
        "P": number,
        "join": positions(case, group, day.join),
        "quit": positions(case, group, day.quit),
        "died": [order.index(node) for node in day.fail],
        "alive": alive,
        "roots": [root_of(key, dict(enumerate(ids)), live) for key in keys],
        "routes": {str(s): {str(x): route(onward, x, s) for x in live} for s in range(len(keys))},
    }


def whole_ids(of: Any) -> list[int]:
    """Return ids as whole numbers."""
    return [whole(*both) for both in zip(of.hi.tolist(), of.lo.tolist(), strict=True)]


def route(onward: list[list[int]], x: int, s: int) -> list[int]:
    """Return the nodes of a route."""
    found = [x]
    while onward[found[-1]][s] not in (-1, found[-1]):
        found.append(onward[found[-1]][s])
    return found


def compare(case: played.Case, channel: Channel, group: int, seen: played.Seen) -> None:
    """Compare the state of a channel."""
    wanted = channel.outputs()
    if not seen.state[NODES]:
        assert not wanted["nodes"]
        return
    mine = {
        name: {column: of[rows["group"] == group] for column, of in rows.items()}
        for name, rows in seen.state.items()
    }
    found = state_of(mine, case.rules.stripes, seen.alive)
    for name, value in found.items():
        assert value == wanted[name], name
