"""The content of a figure of the paper, and the numbers that it quotes."""

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
        Such as ``max {scribe.rad.max}``: each name of a metric in braces gives way to its published
        value.  The line is at the first of them; without all of them the mark is not drawn.
    coloured : bool
        Whether it has the colour of the system of its first metric; else it is grey.
    axis : str
        ``x`` for a vertical line, ``y`` for a horizontal one.
    side : str
        Where the words are: ``left`` or ``right`` of a vertical line; at the ``left`` or ``right``
        end of a horizontal one.
    end : str
        Where the words of a vertical line start: ``top`` or ``bottom``.
    """

    words: str
    coloured: bool = False
    axis: str = "x"
    side: str = "right"
    end: str = "bottom"

    @property
    def metrics(self) -> list[str]:
        """The metrics that it quotes."""
        return re.findall(r"\{(.*?)\}", self.words)

    @property
    def system(self) -> str:
        """The system of its first metric."""
        return self.metrics[0].partition(".")[0]

    def is_published(self, published: Mapping[str, float]) -> bool:
        """Return whether all that it quotes is published of this run."""
        return all(name in published for name in self.metrics)

    def value(self, published: Mapping[str, float]) -> float:
        """Return the height of its line."""
        return float(published[self.metrics[0]])

    def text(self, published: Mapping[str, float]) -> str:
        """Its words."""
        return "paper: " + re.sub(r"\{(.*?)\}", lambda m: f"{published[m[1]]:,g}", self.words)


@dataclass(frozen=True)
class FigureSpec:
    """One figure of the paper: its axes, curves and quoted values.

    Attributes
    ----------
    number : str
        The figure's number in the paper, and its key in the distributions.
    slug, title, caption : str
        For file names; over and under the figure.
    kind : str
        ``ranks`` (size against rank), ``cumulative`` (things with at most x) or ``counts`` (things
        with exactly x; an inset has those with at least x, on log scales).
    x, y : str
        Titles of the axes.
    thing : str
        What is counted, in the plural.
    measures : tuple of str
        What is shown of each system.
    marks : tuple of Mark
    log_x : bool
        The x axis is logarithmic, and what has a value of 0 is left out.
    unicast_in_inset : bool
        Systems that send every packet from the source have curves too long for the figure proper.
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
        """Such as ``figure-07-delay-penalty``."""
        return f"figure-{int(self.number):02d}-{self.slug}"
