"""Every rule a router graph can break, and the one line that says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from scribe_spark.errors import InputError
from scribe_spark.topology import Graph, check
from scribe_spark.topology.graph import Hosts, router_frame


def graph(links, ids=(0, 1, 2, 3)) -> Graph:
    edges = pd.DataFrame(links, columns=["src", "dst", "delay_ms", "weight"])
    vertices = pd.DataFrame({"id": list(ids), "kind": None, "domain": None, "x": None, "y": None})
    return Graph(vertices, edges, "mine.csv")


RING = [(0, 1, 1.0, 1.0), (1, 2, 0.0, 2.0), (2, 3, 1e6, 1e-6), (3, 0, 3.5, 1e9)]
NAN, INF = float("nan"), float("inf")


def test_a_ring_is_fine():
    check(graph(RING))


def test_a_single_router_without_links_is_legal():
    check(graph([], ids=[7]))
    check(Graph(router_frame([7]), graph([]).edges))


@pytest.mark.parametrize(
    ("links", "ids", "says"),
    [
        ([], [], "no vertices"),
        (RING, [0, 1.5, 2, 3], "must be whole numbers: row 2 (id=1.5)"),
        (RING, [0, "a", 2, 3], "must be whole numbers: row 2 (id='a')"),
        (RING, [0, 1, 2, 3, None], "must be whole numbers: row 5 (id=missing)"),
        (RING, [0, 1, 2, 3, -4], "at least 0: row 5 (id=-4)"),
        (RING, [0, 1, 2, 3, 1, 2], "unique: row 5 (id=1), row 6 (id=2)"),
        ([*RING, (0, 9, 1, 1)], None, "must be vertices: row 5 (src=0, dst=9)"),
        ([*RING, (9, 0, 1, 1)], None, "must be vertices: row 5 (src=9, dst=0)"),
        ([*RING, (2, 2, 1, 1)], None, "self-loops out: row 5 (src=2, dst=2)"),
        ([*RING, (0, 2, -1, 1)], None, "row 5 (src=0, dst=2, delay_ms=-1.0)"),
        ([*RING, (0, 2, NAN, 1)], None, "delay_ms must be a number from 0 to 1,000,000: row 5"),
        ([*RING, (0, 2, INF, 1)], None, "delay_ms=inf"),
        ([*RING, (0, 2, None, 1)], None, "delay_ms=missing"),
        ([*RING, (0, 2, 1, 0)], None, "weight must be a number from 0.000001 to 1,000,000,000"),
        ([*RING, (0, 2, 1, NAN)], None, "row 5 (src=0, dst=2, weight=missing)"),
        ([*RING, (0, 2, 1, INF)], None, "weight=inf"),
        ([*RING, (0, 2, 1, -3)], None, "weight=-3.0"),
        ([(0, 1, -1, 1)] * 5, None, ", row 3 (src=0, dst=1, delay_ms=-1) and 2 more"),
        (RING, [0, 1, 2, 3, 8], "falls into 2 parts: router 8 (1 in that part) has no route"),
        (
            [*RING, (10, 11, 1, 1), (11, 12, 1, 1), (12, 13, 1, 1)],
            [0, 1, 2, 3, 13, 12, 11, 10, 14, 15, 16, 17],
            "falls into 6 parts",
        ),
    ],
)
def test_each_rule(links, ids, says):
    with pytest.raises(InputError) as error:
        check(graph(links, (0, 1, 2, 3) if ids is None else ids), "topology")
    message = str(error.value)
    assert says in message
    assert message.startswith("topology = 'mine.csv': ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("hosts", "loss", "says"),
    [
        ({"own_us": [0, -5_000, 1, 1]}, 0.0,
         "the delay within a router (ms) must be a number from 0 to 1,000,000: row 2 (router=1, "
         "own_ms=-5.0)"),
        ({"own_us": [0, 0, 0, 10**9 + 1]}, 0.0, "row 4 (router=3, own_ms=1000000.001)"),
        ({"shares": [0.5, 0.75, -0.25, 0.0]}, 0.0,
         "the share of the nodes at a router must be a number from 0 to 1: row 3 (router=2, "),
        ({"shares": [0.5, NAN, 0.5, 0.0]}, 0.0, "row 2 (router=1, share=missing)"),
        ({"shares": [0.5, 0.250002, 0.25, 0.0]}, 0.0, "must sum to 1, but sum to 1.000002"),
        ({"up": [1, -1, 0, 0]}, 0.0, "a rate (bits per second) must be a number from 0 to 1,0"),
        ({"down": [0, 0, 0, 10**15 + 1]}, 0.0, "row 4 (router=3, down=1000000000000001)"),
        ({}, 1.5, "loss must be a number from 0 to 1: row 1 (src=0, dst=1, loss=1.5)"),
        ({}, NAN, "loss must be a number from 0 to 1: row 1"),
    ],
)  # fmt: skip
def test_the_numbers_of_nodes_and_losses_have_bounds(hosts, loss, says):
    rows = pd.DataFrame({"src": [0], "dst": [1], "loss": [loss]})
    arrays = {name: np.array(values) for name, values in hosts.items()}
    with pytest.raises(InputError) as error:
        check(replace(graph(RING), hosts=Hosts(**arrays), losses=rows))
    assert says in str(error.value)


def test_the_smaller_part_is_named():
    ids = [0, 1, 2, 3, 10, 11, 12, 13, 14]
    links = [(a, b, 1.0, 1.0) for a, b in [(14, 13), (13, 12), (12, 11), (11, 10)]]
    with pytest.raises(InputError, match=r"router 0, 1, 2, \.\.\. \(4 in that part\).*other 5"):
        check(graph(RING + links, ids))


def test_many_parallel_links_are_still_a_link():
    check(graph([(0, 1, 1.0, 1.0)] * 512, ids=[0, 1]))
