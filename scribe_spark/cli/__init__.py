"""The command line: flags and a TOML file in, one call out.

Flags are made from the fields of the config, so a field is described once.  Bad input is one line
on stderr and exit code 2, before Spark starts; nothing here imports pyspark until a run begins, so
``--help`` is quick.
"""

from scribe_spark.cli.main import job, main

__all__ = ["job", "main"]
