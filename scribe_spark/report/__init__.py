"""The pages of runs, worlds, sweeps and comparisons: cards, figures and tables in one HTML file.

The modules are pure functions of plain values and do not use Spark.
"""
