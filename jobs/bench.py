"""``python jobs/bench.py [--sizes 10000,100000] [--repeat 3] [flags of scribe-spark run]``."""

import sys

from scribe_spark.bench import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
