"""The content of a figure of the paper, and the numbers that the paper quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """Numbers that the paper quotes, drawn as a thin line with a few words."""

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
    """One figure of the paper: its axes, curves and quoted values."""

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
