"""The figures of a sweep of worlds over the rounds: a line for each point."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from scribe_spark.report.series import measure_in_words
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.world import draw_rounds, line_words

#: The greatest number of points with such panels; more lines cannot be distinguished.
MOST_LINES = 10


def rounds_panels(
    rounds: Mapping[str, pd.DataFrame], measures: Mapping[str, str]
) -> list[PageFigure]:
    """Return a figure for each measure that a round of any point has."""
    panels: list[PageFigure] = []
    for measure, unit in measures.items():
        # a point without the measure stays among the lines: so every point keeps its colour
        lines = {
            label: table[measure] if measure in table else pd.Series(float("nan"), table.index)
            for label, table in rounds.items()
        }
        if measure.startswith("link_stress."):  # only some rounds have it: lines join these
            lines = {label: line.dropna() for label, line in lines.items()}
        known = {label: line for label, line in lines.items() if line.notna().any()}
        if not known:
            continue
        what = measure_in_words(measure)
        words = " ".join(line_words(label, line) for label, line in known.items())
        name = "rounds-" + re.sub(r"\W+|_", "-", measure)
        drawn = draw_rounds(name, what, words, lines, legend=False, unit=unit)
        panels.append(PageFigure(name, what, drawn, words=words, unit=unit))
    return panels
