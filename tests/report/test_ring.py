"""The picture of the ring: where nodes are, and what is drawn between them."""

import re
from xml.etree import ElementTree

import pandas as pd
import pytest

from scribe_spark.report.pictures import ring_picture

#: Node -> the first half of its nodeId: at 0, a quarter, a half and three quarters of the ring.
HALVES = {7: 0, 8: 2**62, 9: -(2**63), 5: -(2**62)}
NODES = pd.DataFrame({"node": list(HALVES), "id_hi": list(HALVES.values())})
LINKS = pd.DataFrame({"sender": [7, 8, 9], "receiver": [8, 9, 7], "first": [True, True, False]})


def drawn(**parts) -> ElementTree.Element:
    return ElementTree.fromstring(ring_picture("a", "A ring", NODES, **parts))


def found(svg: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    """The elements of a name outside of the legend, whose marks are moved."""
    legend = {mark for group in svg.iter() if "transform" in group.attrib for mark in group}
    return [one for one in svg.iter() if one.tag.endswith(name) and one not in legend]


def words(svg: ElementTree.Element) -> list[str]:
    """The legend: the words that are no digit of the ring."""
    texts = [text.text for text in found(svg, "text")]
    assert texts[:16] == list("0123456789abcdef")
    return texts[16:]


def test_keys_grow_clockwise_from_the_top():
    ring, *nodes = found(drawn(), "circle")
    x, y, r = (float(ring.get(name)) for name in ("cx", "cy", "r"))
    places = [(float(node.get("cx")) - x, float(node.get("cy")) - y) for node in nodes]
    assert places == [(0, -r), (r, 0), (0, r), (-r, 0)]


@pytest.mark.parametrize(
    ("parts", "legend", "counts"),
    [
        ({}, ["node"], {"circle": 5, "polygon": 0}),
        (
            {"marked": {"its leaf set": [7, 8], "node 5": [5]}},
            ["node", "its leaf set", "node 5"],
            {"circle": 8},
        ),
        (
            {"route": [7, 8, 9], "key": 2**62 + 5},
            ["node", "key 4000...", "start 0000...", "hop 1, to 4000...", "hop 2, to 8000..."],
            {"circle": 5 + 1 + 3, "polygon": 2},
        ),
        ({"source": 9}, ["node", "source"], {"polygon": 1}),
    ],
)
def test_what_is_asked_for_is_drawn_and_explained(parts, legend, counts):
    svg = drawn(**parts)
    assert words(svg) == legend
    assert {name: len(found(svg, name)) for name in counts} == counts


def test_a_link_that_brings_a_first_copy_is_thick():
    svg = drawn(links=LINKS)
    widths = [path.get("stroke-width") for path in found(svg, "path")]
    assert [width for width in widths if width != ".6"] == [".5", "1.2", "1.2"]
    assert words(svg) == ["first copy of a node", "duplicate", "node"]


def test_the_description_says_what_there_is():
    told = re.search(r"<desc[^>]*>([^<]*)<", ring_picture("a", "A ring", NODES, source=7))
    assert told[1] == "4 nodes on the ring of keys; node, source."
