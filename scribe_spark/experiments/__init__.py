"""A run: the phases of one experiment over a folder, resumable, and every table in between."""

from scribe_spark.experiments.run import PHASES, Run, check, report, run
from scribe_spark.experiments.simulation import Simulation

__all__ = ["PHASES", "Run", "Simulation", "check", "report", "run"]
