"""The report of a run: its figures, drawn as the paper draws them, and measured against published.
Of a sweep: small multiples.

Pure functions of plain values; nothing here knows Spark.
"""

from scribe_spark.report.compare import Compared, Side, compared_measures, render_compare
from scribe_spark.report.comparison import difference
from scribe_spark.report.page import Latency, Report, render
from scribe_spark.report.preload import preload
from scribe_spark.report.sweep import render_sweep
from scribe_spark.report.sweep_rounds import MOST_LINES

__all__ = [
    "MOST_LINES",
    "Compared",
    "Latency",
    "Report",
    "Side",
    "compared_measures",
    "difference",
    "preload",
    "render",
    "render_compare",
    "render_sweep",
]
