"""A grid of runs: their numbers in one table, one page.

spark-submit --py-files dist/scribe_spark.zip jobs/sweep.py --config data/sweep_b.toml --out OUT ...
"""

import sys

from scribe_spark.cli import main

if __name__ == "__main__":
    main(["sweep", *sys.argv[1:]])
