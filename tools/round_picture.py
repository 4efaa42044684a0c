"""The picture of docs/concepts.md that shows what happens in a round of a world."""

from __future__ import annotations

from collections.abc import Iterator

from scribe_spark.report.svg import element, path, plain_svg
from scribe_spark.report.trees import INK, TEXT

_STEPS = ("events", "repair", "publications", "measures")
#: The steps of three rounds; the word before the colon is the look.
_ROUNDS = (
    ("bad:the root fails", "a neighbour is root", "bad:most miss the message", "some orphans"),
    ("", "orphans still wait", "bad:most miss the message", "some orphans"),
    ("", "good:orphans JOIN again", "good:all get the message", "no orphan"),
)
_LOOKS = {"": "#edf1f4", "bad": "#f6c9a8", "good": "#b9d9f0"}
_LEFT, _WIDE, _HIGH, _TOP = 54.0, 106.0, 18.0, 22.0


def round_picture() -> str:
    """Return three rounds, side by side, with their steps from top to bottom."""
    size = _LEFT + _WIDE * len(_ROUNDS) + 4, _TOP + _HIGH * len(_STEPS) + 26
    words = "; ".join(
        f"round {number}: " + ", ".join(step.split(":")[-1] for step in steps if step)
        for number, steps in enumerate(_ROUNDS, 2)
    )
    return plain_svg("round", "Three rounds of a world", words, size, _elements(size[0]))


def _elements(width: float) -> Iterator[str]:
    yield f"<g {TEXT}>\n"
    for row, step in enumerate(_STEPS):
        yield _text(0, _TOP + _HIGH * row + 11.5, step)
    for column, steps in enumerate(_ROUNDS):
        x = _LEFT + _WIDE * column
        yield _text(x + 2, 14, f"round {column + 2}")
        for row, step in enumerate(steps):
            look, _, said = step.rpartition(":")
            box = {"x": x, "y": _TOP + _HIGH * row, "width": _WIDE - 6, "height": _HIGH - 3}
            yield element("rect", **box, rx="2", fill=_LOOKS[look])
            yield _text(x + 5, _TOP + _HIGH * row + 10.5, said)
    y = _TOP + _HIGH * len(_STEPS) + 6
    yield element("path", d=path((_LEFT, y), (width - 4, y)), stroke=INK, stroke_width=".8")
    tip = path((width - 8, y - 2.5), (width - 4, y), (width - 8, y + 2.5))
    yield element("path", d=tip, stroke=INK, stroke_width=".8", fill="none")
    yield _text(0, y + 2.5, "time")
    for column in range(len(_ROUNDS)):
        yield _text(_LEFT + _WIDE * column, y + 11, f"{30 * (column + 2)} s")
    yield "</g>\n"


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{words}</text>\n'
