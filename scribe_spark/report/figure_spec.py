"""The content of a figure of the paper, and the numbers that the paper quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """Numbers that the paper quotes, drawn as a thin line with a few words."""

    #: For example ``max {scribe.rad.max}``: each metric in braces is replaced by its published
    #: value.  The line is at the first of them; without all values there is no mark.
    words: str
    coloured: bool = False  # True for the colour of the first metric's system, else grey
    axis: str = "x"  # ``x`` for a vertical line, ``y`` for a horizontal one
    side: str = "right"  # the words' side of a vertical line, their end of a horizontal one
    end: str = "bottom"  # the start of the words of a vertical line: ``top`` or ``bottom``

    @property
    def metrics(self) -> list[str]:
        """The metrics in its words."""
        return re.findall(r"\{(.*?)\}", self.words)

    @property
    def system(self) -> str:
        """The system of its first metric."""
        return self.metrics[0].partition(".")[0]

    def is_published(self, published: Mapping[str, float]) -> bool:
        """Return True if all its metrics are published for this run."""
        return all(name in published for name in self.metrics)

    def value(self, published: Mapping[str, float]) -> float:
        """Return the position of its line."""
        return float(published[self.metrics[0]])

    def text(self, published: Mapping[str, float]) -> str:
        """Return its words with the published values."""
        return "paper: " + re.sub(r"\{(.*?)\}", lambda m: f"{published[m[1]]:,g}", self.words)


@dataclass(frozen=True)
class FigureSpec:
    """One figure of the paper: its axes, curves and quoted values."""

    number: str  # in the paper, and its key in the distributions
    slug: str  # the text for file names
    title: str
    caption: str
    #: ``ranks`` (size against rank), ``cumulative`` (things with at most x) or ``counts`` (things
    #: with exactly x; an inset has those with at least x, on log scales).
    kind: str
    x: str  # the titles of the axes
    y: str
    thing: str  # the counted things, in the plural
    measures: tuple[str, ...]  # of each system in the figure
    marks: tuple[Mark, ...] = ()
    log_x: bool = False  # True for a logarithmic x axis, without things with the value 0
    unicast_in_inset: bool = False  # True if curves of unicast are too long for the main figure

    @property
    def name(self) -> str:
        """The name of its files, for example ``figure-07-delay-penalty``."""
        return f"figure-{int(self.number):02d}-{self.slug}"
