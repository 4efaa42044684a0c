"""The content of a figure of the paper, and the numbers that the paper quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """Numbers that the paper quotes, drawn as a thin line with a few words.

    Attributes
    ----------
    words : str
        For example ``max {scribe.rad.max}``: each name of a metric in braces is replaced by its
        published value.  The line is at the first of them; without all values there is no mark.
    coloured : bool
        True for the colour of the system of its first metric; else it is grey.
    axis : str
        ``x`` for a vertical line, ``y`` for a horizontal one.
    side : str
        The position of the words: ``left`` or ``right`` of a vertical line; at the ``left`` or
        ``right`` end of a horizontal one.
    end : str
        The start of the words of a vertical line: ``top`` or ``bottom``.
    """

    words: str
    coloured: bool = False
    axis: str = "x"
    side: str = "right"
    end: str = "bottom"

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
    """One figure of the paper: its axes, curves and quoted values.

    Attributes
    ----------
    number : str
        The figure's number in the paper, and its key in the distributions.
    slug, title, caption : str
        The text for file names, over the figure, and under it.
    kind : str
        ``ranks`` (size against rank), ``cumulative`` (things with at most x) or ``counts`` (things
        with exactly x; an inset has those with at least x, on log scales).
    x, y : str
        The titles of the axes.
    thing : str
        The counted things, in the plural.
    measures : tuple of str
        The measures of each system in the figure.
    marks : tuple of Mark
        The quoted values.
    log_x : bool
        True for a logarithmic x axis, without things with the value 0.
    unicast_in_inset : bool
        True if curves of systems that send every packet from the source are too long for the main
        figure.
    """

    number: str
    slug: str
    title: str
    caption: str
    kind: str
    x: str
    y: str
    thing: str
    measures: tuple[str, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = False
    unicast_in_inset: bool = False

    @property
    def name(self) -> str:
        """The name of its files, for example ``figure-07-delay-penalty``."""
        return f"figure-{int(self.number):02d}-{self.slug}"
