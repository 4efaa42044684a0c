"""SplitStream beside an oracle that was written from the rules alone: docs/rules.md, L1 to L12."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from identifiers import parts
from oracle.splitstream_by_rules import Channel, check, random_case
from seeds import seeds

from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.splitstream.find_routes import ROUTES
from scribe_spark.systems.splitstream.forest import ENDLESS
from scribe_spark.systems.splitstream.period import NODES
from scribe_spark.systems.splitstream.splitstream import SplitStream
from splitstream.played import Rules, by_stripe


@pytest.mark.parametrize("seed", seeds(range(200), 8))
def test_channels_equal_the_oracle(seed: int) -> None:
    """After each period the state is the oracle's, and so are all messages and the last hop."""
    case = random_case(seed)
    channel, kernel = Channel(case), InProcess(case)
    for period in case["periods"]:
        channel.play(period)
        check(channel)
        wanted, found = channel.outputs(), kernel.play(period)
        for name in wanted:
            assert found[name] == wanted[name], (period["P"], name)


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
        return self.seen(given) | {
            "messages": {
                kind: sorted(map(list, zip(rows["sender"].tolist(), rows["to"].tolist())))
                for kind, rows in sorted(sent.items())
                if len(rows["to"])
            },
            "hops": given.counts.get("hops", 0),
        }

    def seen(self, given: Period) -> dict[str, Any]:
        """Return the state after a period."""
        nodes, stripes = self.state[NODES], self.case["S"]
        at = nodes["node"].tolist()
        parent = dict(zip(at, nodes["parent"].tolist()))
        lists = by_stripe(nodes["ancestors"], stripes).tolist()
        return {
            "nodes": sorted(at),
            "parents": {str(x): parent[x] for x in at},
            "ancestors": {
                str(x): [[y for y in one if y >= 0] for one in known]
                for x, known in zip(at, lists)
                if given.alive[x]
            },
            "children": {
                str(x): [sorted(c for c in at if parent[c][s] == x) for s in range(stripes)]
                for x in at
            },
            "spare_parents": dict(zip(map(str, at), nodes["spare_parent"].tolist())),
        }


def routes_of(period: dict[str, Any]) -> Columns:
    """Return the next hop of each live node to each key, as the kernel gets them."""
    rows = [
        (0, int(x), int(s), route[1] if len(route) > 1 else -1)
        for s, of in period["routes"].items()
        for x, route in of.items()
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return dict(zip(("group", "node", "stripe", "next"), columns))
