"""Of a sweep of worlds: each measure over the rounds, a line for each point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scribe_spark.report.text import readable
from scribe_spark.report.world import draw_rounds, line_words

#: Points up to which there are such panels; with more, lines cannot be told apart.
MOST_LINES = 10


@dataclass(frozen=True)
class RoundsPanel:
    """A measure over the rounds of all points."""

    what: str
    unit: str
    words: str
    svg: Any


def rounds_panels(
    rounds: Mapping[str, pd.DataFrame], measures: Mapping[str, str]
) -> list[RoundsPanel]:
    """The panels, but those of measures that no round of any point has.

    Parameters
    ----------
    rounds : mapping of str to DataFrame
        Label of a point -> a row for each round, a column for each measure.
    measures : mapping of str to str
        Measure -> unit, in order.
    """
    from markupsafe import Markup

    panels: list[RoundsPanel] = []
    for measure, unit in measures.items():
        # a point without the measure keeps its place, and so every point its colour
        lines = {
            label: table[measure] if measure in table else pd.Series(float("nan"), table.index)
            for label, table in rounds.items()
        }
        if measure.startswith("link_stress."):  # not of every round: lines join those that have it
            lines = {label: line.dropna() for label, line in lines.items()}
        known = {label: line for label, line in lines.items() if line.notna().any()}
        if not known:
            continue
        what = readable(measure)
        words = " ".join(line_words(label, line) for label, line in known.items())
        svg = draw_rounds(f"rounds-{len(panels)}", what, words, lines, legend=False)
        panels.append(RoundsPanel(what, unit, words, Markup(svg)))
    return panels
