"""Runs, which are resumable phases over a folder; sweeps, which are grids of runs; and worlds."""

from scribe_spark.experiments.checks import check
from scribe_spark.experiments.comparing import Comparison, Floors, Limits, compare, missing_measures
from scribe_spark.experiments.phases import PHASES
from scribe_spark.experiments.reference_tree import TreeSweep
from scribe_spark.experiments.reporting import report
from scribe_spark.experiments.run import Run, run
from scribe_spark.experiments.run_world import run_world
from scribe_spark.experiments.simulation import Simulation, TreeGraph
from scribe_spark.experiments.sweep import Sweep, check_sweep, run_sweep
from scribe_spark.experiments.verifying import check_verify, verify
from scribe_spark.experiments.world_setup import check_world_run, make_world

__all__ = [
    "PHASES",
    "Comparison",
    "Floors",
    "Limits",
    "Run",
    "Simulation",
    "Sweep",
    "TreeGraph",
    "TreeSweep",
    "check",
    "check_sweep",
    "check_verify",
    "check_world_run",
    "compare",
    "make_world",
    "missing_measures",
    "report",
    "run",
    "run_sweep",
    "run_world",
    "verify",
]
