"""Narada's kernel leaves what the oracle leaves: states, messages and copies, period by period."""

from typing import Any

import numpy as np
import pytest
from oracle.narada import KINDS, Case, copies_of, random_case
from oracle.narada import play as play_oracle
from seeds import seeds

from narada.played import Played
from scribe_spark.engine import Columns
from scribe_spark.systems.narada import VECTOR_BYTES

#: The config's names of the oracle's settings.
_SETTINGS = {
    "join_periods": "join_periods",
    "contacts": "contacts",
    "least_degree_drop": "many_links",
    "degree": "degree",
    "threshold": "threshold",
    "young_periods": "young_periods",
    "neighbour_silence": "neighbour_periods",
    "silence": "silent_periods",
}


def _kernel(case: Case) -> Played:
    """Return the kernel's groups before the first period."""
    settings = {name: getattr(case.settings, ours) for ours, name in _SETTINGS.items()}
    given = np.array(case.distance, dtype=np.int64).reshape(len(case.nodes), -1)
    return Played(given, case.seed, case.groups, np.array(case.nodes), **settings)


def _play(played: Played, case: Case, t: int) -> dict[str, list]:
    """Play a period; return the messages by kind."""
    now, index = case.periods[t], {g: k for k, g in enumerate(case.groups)}
    played.alive[:] = now.alive
    joins, quits = ([(index[g], x) for g, x in some] for some in (now.joins, now.quits))
    back = [x for x in now.died if now.alive[x]]
    sent = played.play(joins, quits, now.died, back).sent
    found: dict[str, list] = {kind: [] for kind in KINDS}
    for kind, rows in sent.items():
        ends = zip(
            rows["group"].tolist(), rows["sender"].tolist(), rows["to"].tolist(), strict=True
        )
        found[kind] = sorted((case.groups[k], sender, to) for k, sender, to in ends)
    return found


def _state(played: Played, case: Case, k: int) -> dict[str, list]:
    """Return the state of a group in the oracle's form."""
    of = played.meshes
    node, is_in, mine = of.node.tolist(), of.is_in, np.flatnonzero(of.group == k)
    waiting: Columns = played.state.get("waiting") or {}
    rows = zip(
        *(waiting.get(name, mine[:0]).tolist() for name in ("group", "node", "number")), strict=True
    )
    links = [
        (node[a], node[b], since)
        for a, b, since in zip(of.a.tolist(), of.b.tolist(), of.since.tolist(), strict=True)
        if a < b and of.group[a] == k
    ]
    cells = []
    for i in mine[is_in[mine]].tolist():
        here = of.cell(np.full(len(mine), i), mine)
        values = zip(*(of.cells[name][here].tolist() for name in _CELL), strict=True)
        cells += [(node[i], node[m], *one) for m, one in zip(mine, values, strict=True)]
    return {
        "in": [node[e] for e in mine if is_in[e]],
        "waiting": sorted((x, begins) for group, x, begins in rows if group == k),
        "links": sorted(links),
        "cells": [cell for cell in cells if cell[2] >= 0],
    }


_CELL = "heard", "number", "cost", "next"


def _edges(played: Played, case: Case, t: int) -> dict[Any, list]:
    """Return the edges of the period's publications."""
    asked = [(case.groups.index(g), source) for g, source in case.publications[t]]
    rows = played.edges(asked)
    found: dict[Any, list] = {(case.groups[k], source): [] for k, source in sorted(asked)}
    of = list(found)
    for publication, node, peer in zip(
        *(rows[name].tolist() for name in ("publication", "node", "peer")), strict=True
    ):
        found[of[publication]].append((node, peer))
    return {key: sorted(pairs) for key, pairs in found.items()}


@pytest.mark.parametrize("seed", seeds(range(200), 5))
def test_the_kernel_equals_the_oracle(seed: int) -> None:
    case = random_case(seed)
    played = _kernel(case)
    for t, expected in enumerate(play_oracle(case)):
        assert _play(played, case, t) == expected.messages, f"messages of period {t}"
        assert played.counts[VECTOR_BYTES] == sum(expected.sizes.values()), f"bytes of period {t}"
        for k, g in enumerate(case.groups):
            assert _state(played, case, k) == expected.groups[g], f"group {g}, period {t}"
        failures = sorted((case.groups[k], *ends) for k, *ends in played.failures)
        assert failures == expected.given_up, t
        edges = _edges(played, case, t)
        assert edges == expected.edges, f"edges in period {t}"
        alive = case.periods[t].alive
        copies = {key: copies_of(some, key[1], alive) for key, some in edges.items()}
        assert copies == expected.copies, f"copies in period {t}"
