"""How long the main job takes, how much memory, how many bytes it shuffles.

The job runs as a user runs it, in a process of its own, timed from that process's start to its end.
The memory of its process tree (driver, JVM, Python workers) is sampled on the way: resident (RSS),
and proportional (PSS), where a page that several processes share counts once.  Rows and shuffled
bytes of each superstep come from Spark's event log.  That costs time, so it is written in one more
run, whose seconds do not count.  Beside all seconds are those of a calibration.
"""
