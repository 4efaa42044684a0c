"""Overcast's kernel leaves what plain-Python rules leave: states, messages, copies, measures."""

from collections import Counter

import numpy as np
import pytest
from oracle.overcast import DEFAULTS, Case, play, random_case
from periods import PlayedPeriods
from seeds import seeds

from scribe_spark.engine.facts import Ring
from scribe_spark.engine.packing import take
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.rounds.grown_overlays import add_up
from scribe_spark.systems.overcast.config import OvercastConfig
from scribe_spark.systems.overcast.overlay import Overcast

#: Columns of the canonical state after the group.
_MEMBER = "node", "rank", "parent", "current", "number", "next_evaluation", "next_check_in"
_LISTS = (
    ("children", "children", ("last", "number")),
    ("tables", "certificates", ("number", "parent", "alive", "fresh")),
)


class Routed:
    """The routes and rates of a case (`underlay.protocol.Kernel`)."""

    def __init__(self, case: Case) -> None:
        self.link_rates, self.routes = np.array(case["capacity"]), case["routes"]

    def route_links(self, a, b):
        routes = [self.routes[f"{x},{y}"] for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        links = [link for route in routes for link in route]
        lengths = [len(route) for route in routes]
        return np.repeat(np.arange(len(a)), lengths), np.array(links, dtype=np.int64)

    def merged_packets(self, tree, a, b):
        route, link = self.route_links(a, b)
        pairs = sorted(set(zip(tree[route].tolist(), link.tolist(), strict=True)))
        return np.array(pairs), np.array(pairs), np.ones(len(pairs), dtype=np.int64)


class Played(PlayedPeriods):
    """A case in one builder."""

    def __init__(self, case: Case) -> None:
        self.size = len(case["node"])
        ids = np.arange(self.size, dtype=np.uint64)
        ring = Ring(ids, ids, np.array(case["node"]), np.array(case["router"]))
        # shorter periods than a user can set
        system = Overcast(OvercastConfig.model_construct(**DEFAULTS | case["settings"]))
        network = Network(ring, Routed(case), 1000, case["seed"])
        super().__init__(system, network, case["group_number"])

    def canonical(self) -> dict[str, list[list[int]]]:
        """The state as the oracle writes it."""
        found: dict[str, list[list[int]]] = {"members": [], "children": [], "tables": []}
        if "members" in self.state:
            members = self.state["members"]
            found["members"] = rows_of(take(members, members["alive"]), "group", *_MEMBER)
        for name, table, columns in _LISTS:
            if table in self.state:
                rows = {**self.state[table]}
                rows["node"], rows["of"] = np.divmod(rows["key"] % self.size**2, self.size)
                found[name] = rows_of(rows, "group", "node", "of", *columns)
        return found


def rows_of(table: dict, *names: str) -> list[list[int]]:
    """Columns as sorted rows of whole numbers."""
    columns = (table[name].astype(np.int64).tolist() for name in names)
    return sorted(map(list, zip(*columns, strict=True)))


def check(case: Case) -> Counter:
    """Compare the kernel with the oracle after each period; return the numbers of messages."""
    expected, played, sent = play(case), Played(case), Counter()
    for number, period in enumerate(case["periods"]):
        join, quit = (set(map(tuple, period[kind])) for kind in ("join", "quit"))
        played.play(join, quit, period["died"], [node for _, node in join])
        sent_now, counts = played.sent, played.counts
        found = {kind: rows_of(rows, "group", "sender", "to") for kind, rows in sent_now.items()}
        for kind, rows in expected["messages"][number].items():
            assert found.get(kind, []) == rows, (number, kind)
            sent[kind] += len(rows)
        assert played.failures == expected["given_up"][number], number
        state = played.canonical()
        for name, rows in expected["states"][number].items():
            assert state[name] == rows, (number, name)
        for kind, kept in played.system.entries(played.state, played.network).items():
            rows = rows_of(kept, "group", "node", "entries")
            some = [row for row in rows if row[2]]
            assert some == expected["entries"][number][kind], (number, kind)
        sums = add_up(played.system.sums(played.state))
        assert sums == pytest.approx(expected["measures"][number], rel=1e-12), number
        for name in ("moves", "certificates", "certificates.news"):
            wanted = expected[name.rpartition(".")[2]][number]
            assert counts[name] == sum(wanted), (number, name)
    for (group, source), copies in zip(case["publications"], expected["copies"], strict=True):
        sender, to, _ = played.copies(group, source)
        assert sorted(map(list, zip(sender.tolist(), to.tolist(), strict=True))) == copies
    return sent


#: Of the faults that were put into the kernel, the first two seeds find those that are rarely seen.
_SEEDS = [33, 70, *(seed for seed in range(1, 201) if seed not in (33, 70))]


@pytest.mark.parametrize("seed", seeds(_SEEDS, in_each_run=14))
def test_drawn_cases(seed):
    check(random_case(seed))
