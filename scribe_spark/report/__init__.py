"""The report of a run: its figures, drawn as the paper draws them, and measured against published.

Pure functions of plain values; nothing here knows Spark.
"""

from scribe_spark.report.page import Report, difference, render

__all__ = ["Report", "difference", "render"]
