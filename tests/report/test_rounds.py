"""Drawings over the rounds of a world, and what they say in words."""

from __future__ import annotations

from xml.etree import ElementTree

import pandas as pd
import pytest

from scribe_spark.report.world import draw_rounds, line_words

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({3: 2, 4: 5, 9: 1}, "Late: 2 in round 3, 1 in round 9, between 1 and 5."),
        ({3: 2, 4: None, 9: 2}, "Late: 2 in rounds 3 to 9."),
        ({3: None, 9: 90}, "Late: 90 in round 9."),
    ],
)
def test_words_of_a_line(values, words):
    assert line_words("late", pd.Series(values, dtype=float)) == words


def ticks(drawing: str, axis: str) -> list[str]:
    """The labels along an axis, by matplotlib's names of their groups."""
    found = ElementTree.fromstring(drawing).iter(f"{SVG}g")
    return [
        "".join(text.itertext()).strip()
        for group in found
        if group.get("id", "").startswith(f"name-{axis}tick")
        for text in group.iter(f"{SVG}text")
    ]


@pytest.mark.parametrize("rounds", [[9], [0, 1], [0, 1, 2]])
def test_rounds_and_counts_are_whole_numbers(rounds):
    line = pd.Series(1.0, index=rounds)
    drawing = draw_rounds("name", "title", "words", {"lost": line, "none": line * 0})
    for axis in "xy":
        found = ticks(drawing, axis)
        assert found
        assert all(text.isdigit() for text in found), found
    assert "9" in ticks(draw_rounds("name", "title", "words", {"lost": line}), "x") or rounds != [9]


def test_shares_have_parts():
    line = pd.Series([0.2, 0.9], index=[0, 1])
    drawing = draw_rounds("name", "title", "words", {"share": line})
    assert not all(text.isdigit() for text in ticks(drawing, "y"))
