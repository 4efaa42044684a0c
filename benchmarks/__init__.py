"""How long the main job takes, how much memory, how many bytes it shuffles.

The job runs as a user runs it, in a process of its own, timed from that process's start to its end.
The memory of its process tree (driver, JVM, Python workers) is sampled on the way: resident (RSS),
and proportional (PSS), where a page that several processes share counts once.  Rows and shuffled
bytes of each superstep come from Spark's event log.  That costs time, so it is written in one more
run, whose seconds do not count.  Beside all seconds are those of a calibration.
"""

from benchmarks.calibration import calibrate
from benchmarks.command import main
from benchmarks.event_log import Superstep, logging_to, read_event_log, supersteps
from benchmarks.measure import growth_exponent, run_job
from benchmarks.text import text
from benchmarks.watch import TreeMemory, Watched, tree_memory, watch, windows

__all__ = [
    "Superstep",
    "TreeMemory",
    "Watched",
    "calibrate",
    "growth_exponent",
    "logging_to",
    "main",
    "read_event_log",
    "run_job",
    "supersteps",
    "text",
    "tree_memory",
    "watch",
    "windows",
]
