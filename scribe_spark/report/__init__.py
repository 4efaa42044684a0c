"""The pages of runs, worlds, sweeps and comparisons: cards, figures and tables in one HTML file.

The modules are pure functions of plain values and do not use Spark.
"""

from scribe_spark.report.compare import Compared, Side, compared_measures, render_compare
from scribe_spark.report.comparison import difference
from scribe_spark.report.page import Report, preload
from scribe_spark.report.run import render
from scribe_spark.report.run_figures import Latency
from scribe_spark.report.svg import figure_files
from scribe_spark.report.sweep import MOST_LINES, render_sweep

__all__ = [
    "MOST_LINES",
    "Compared",
    "Latency",
    "Report",
    "Side",
    "compared_measures",
    "difference",
    "figure_files",
    "preload",
    "render",
    "render_compare",
    "render_sweep",
]
