"""Pictures of systems: which group has one, the tree of its edges, its levels, numbers, legend."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from scribe_spark.experiments.reporting import read_pictures
from scribe_spark.experiments.round_in_run import _group_of_picture
from scribe_spark.report.run import render
from scribe_spark.report.trees import MOST_NUMBERS, RunTrees, tree_figures

from .test_page import NOTHING
from .test_readouts import words
from .test_tree_figures import SVG, network

#: Edges of pictures: NICE has two layers; node 5 is a parent and a child of SplitStream's node 3.
NICE = [(1, 2, -1, np.nan), (1, 3, 0, np.nan), (2, 4, 0, np.nan), (2, 5, 0, np.nan)]
OVERCAST = [(1, 2, -16, 100.0), (2, 3, -13, 1.5), (3, 4, -16, 1.5), (1, 5, -13, 1.5)]
SPLITSTREAM = [(3, 5, 0, 2.0), (3, 1, 0, 1.0), (3, 5, -1, np.nan), (3, 4, -8, np.nan)]


def tables(**edges: list[tuple]):
    """The function that reads the tables of a run with pictures of group 7."""
    rows = [(name, 7, a, b, a, b, *more) for name, of in edges.items() for a, b, *more in of]
    ends = ["group", "parent", "child", "parent_router", "child_router"]
    found = {
        "pictures": pd.DataFrame(rows, columns=["system", *ends, "rank", "value"]),
        "groups": pd.DataFrame({"group": [7], "size": [4]}),
        "members": pd.DataFrame({"group": 7, "node": [2, 3, 4, 5]}),
    }

    def read(name: str, columns: list[str], among=None) -> pa.Table:
        return pa.Table.from_pandas(found[name][columns])

    return read


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [([5000, 64, 63], [1]), ([5000, 65, 300], [1]), ([3, 9, 9], [1]), ([70], [0]), ([], [])],
)
def test_the_largest_small_group_has_a_picture(sizes, chosen):
    assert _group_of_picture(np.array(sizes)).tolist() == chosen


def test_a_picture_is_a_tree_whose_levels_are_ranks():
    found = dict(read_pictures(tables(splitstream=SPLITSTREAM, nice=NICE, overcast=OVERCAST)))
    assert list(found) == ["nice", "overcast", "splitstream"]  # as in the registry
    nice, star = found["nice"], found["splitstream"]
    assert nice.size == star.size == 4
    ends = sorted((nice.node[nice.parent[at]], nice.node[at], nice.level[at]) for at in nice.below)
    assert ends == [(1, 2, 1), (1, 3, 2), (2, 4, 2), (2, 5, 2)]
    assert [nice.level_name(level) for level in (1, 2)] == ["layer 1", "layer 0"]
    # a node that is parent and child stands twice below the node of the picture
    assert star.parent.tolist() == [-1, 0, 0, 0, 0]
    assert [star.level_name(level) for level in (1, 2, 3)] == ["stripe 7", "stripe 0", "parents"]
    assert star.member.tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("system", "edges", "legend", "numbers"),
    [
        ("nice", NICE, {"edges by layer", "layer 1", "layer 0", "top leader"}, []),
        ("overcast", OVERCAST, {"from 100 Mbit/s", "from 3 Mbit/s"}, ["1.5", "100"]),
        ("splitstream", SPLITSTREAM, {"stripe 7", "parents", "forwarder"}, ["1", "2"]),
    ],
)
@pytest.mark.parametrize("has_map", [True, False])
def test_a_picture_has_a_legend_and_numbers_where_they_change(
    system, edges, legend, numbers, has_map
):
    frame, links = network()
    frame = frame if has_map else frame.assign(x=np.nan)
    pictures = read_pictures(tables(**{system: edges}))
    found = RunTrees([], frame, links, pictures=pictures)
    (figure,) = tree_figures(found)
    assert figure.name == f"picture-{system}"
    assert figure.title.endswith(", group 7: 4 members")
    assert legend <= {*texts(figure.svg)}
    root = ElementTree.fromstring(figure.svg)
    drawn = [t.text for g in root.iter(f"{SVG}g") if "paint-order" in g.get("style", "") for t in g]
    assert sorted({*drawn}) == numbers
    assert len(words(figure.svg)) == 5
    assert figure.svg in render([], {}, NOTHING, found).html


def test_few_nodes_of_a_large_picture_have_numbers():
    frame, links = network(stubs=30)
    chain = [(at, at + 1, 0, float(1000 - at)) for at in range(100)]
    ((_, tree),) = read_pictures(tables(overcast=chain))
    (figure,) = tree_figures(RunTrees([], frame, links, pictures=[("overcast", tree)]))
    numbers = {text for text in texts(figure.svg) if text[0] == "9" or text == "1,000"}
    assert 3 < len(numbers) <= MOST_NUMBERS


@pytest.mark.parametrize("has_map", [True, False])
def test_a_large_picture_is_drawn_by_domains_or_as_bars(has_map):
    frame, links = network(stubs=30)
    frame = frame if has_map else frame.assign(x=np.nan)
    edges = [((at - 1) // 4, at, -(at < 6), 1.0) for at in range(1, 150)]
    edges += [(at, 150 + at, 0, 2.0) for at in range(1, 4)]
    pictures = read_pictures(tables(nice=edges))
    (figure,) = tree_figures(RunTrees([], frame, links, pictures=pictures))
    assert {"edges by layer", "layer 1", "layer 0", "5", "147"} <= {*texts(figure.svg)}
    assert "edges: 5 (layer 1), 147 (layer 0)." in figure.words
    assert "A number" not in figure.caption
