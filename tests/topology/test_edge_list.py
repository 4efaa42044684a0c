"""Router graphs from tables of links, and how bad ones are refused before Spark."""

from __future__ import annotations

import pandas as pd
import pytest
from given import loaded, refusal, rows, written

from scribe_spark.errors import InputError
from scribe_spark.topology.edge_list import edge_list
from scribe_spark.topology.links import both_ways


def test_edge_list_gets_reverses_and_default_weights(tmp_path):
    graph = loaded(written(tmp_path, "src,dst,delay_ms\n5,2,1.5\n2,9,0\n"))
    assert graph.vertices["id"].tolist() == [2, 5, 9]
    assert graph.vertices.drop(columns="id").isna().all().all()
    assert rows(graph) == [(2, 5, 1.5, 1.5), (2, 9, 0, 1e-6), (5, 2, 1.5, 1.5), (9, 2, 0, 1e-6)]


def test_a_link_given_both_ways_keeps_both(tmp_path):
    graph = loaded(written(tmp_path, "src,dst,delay_ms,weight\n0,1,1,10\n1,0,2,20\n"))
    assert rows(graph) == [(0, 1, 1, 10), (1, 0, 2, 20)]


def test_parallel_links_keep_least_weight_then_least_delay(tmp_path):
    text = "src,dst,delay_ms,weight\n0,1,1,10\n0,1,9,3\n0,1,8,3\n1,2,1,1\n1,2,1,1\n2,1,5,5\n"
    graph = loaded(written(tmp_path, text))
    assert rows(graph) == [(0, 1, 8, 3), (1, 0, 8, 3), (1, 2, 1, 1), (2, 1, 5, 5)]


def test_delays_are_kept_to_the_microsecond_and_weights_to_a_millionth(tmp_path):
    text = "src,dst,delay_ms,weight\n0,1,1.23456789,1.23456789\n"
    assert rows(loaded(written(tmp_path, text)))[0] == (0, 1, 1.235, 1.234568)


def test_the_order_of_rows_does_not_matter():
    edges = pd.DataFrame(
        [(0, 1, 1.0, 2.0), (1, 0, 3.0, 2.0), (0, 1, 0.5, 2.0), (2, 1, 1.0, 1.0)],
        columns=["src", "dst", "delay_ms", "weight"],
    )
    expected = both_ways(edges)
    for seed in range(10):
        pd.testing.assert_frame_equal(both_ways(edges.sample(frac=1, random_state=seed)), expected)


def test_parquet_edge_list(tmp_path):
    frame = pd.DataFrame({"dst": [1], "src": [0], "delay_ms": [2.5], "name": ["a"]})
    frame.to_parquet(tmp_path / "links.parquet")
    assert rows(loaded((tmp_path / "links.parquet").as_uri()))[0] == (0, 1, 2.5, 2.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("src,dst\n0,1\n", "no column 'delay_ms'"),
        ("src,dst,delay_ms\n", "no rows"),
        ("src,dst,delay_ms\n0,x,1\n", "'dst' must be a whole number: row 1"),
        ("src,dst,delay_ms\n0,1,\n", "'delay_ms' must be a finite number: row 1"),
        ("src,dst,delay_ms\n0,1,inf\n", "'delay_ms' must be a finite number: row 1"),
        ("src,dst,delay_ms\n0,1,-1\n", "row 1 (src=0, dst=1, delay_ms=-1.0)"),
        ("src,dst,delay_ms\n0,-1,1\n", "ids must be at least 0"),
        ("src,dst,delay_ms\n0,0,1\n", "self-loops"),
        ("src,dst,delay_ms,weight\n0,1,1,0\n", "weight must be"),
        ("src,dst,delay_ms,weight\n0,1,1,1e-9\n", "weight must be"),
        ("src,dst,delay_ms,weight\n0,1,1,\n", "'weight' must be a finite number"),
        ("src,dst,delay_ms\n0,1,1\n2,3,1\n", "must be connected"),
    ],
)
def test_malformed_edge_lists(tmp_path, text, says):
    assert says in refusal(written(tmp_path, text))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", ["", ",1e308"])
def test_a_delay_out_of_bounds_is_refused_without_a_warning(tmp_path, weight):
    header = "src,dst,delay_ms" + (",weight" if weight else "")
    (tmp_path / "links.csv").write_text(f"{header}\n0,1,1e308{weight}\n")
    with pytest.raises(InputError, match="delay_ms must be a number from 0 to 1,000,000: row 1"):
        edge_list(str(tmp_path / "links.csv"))
