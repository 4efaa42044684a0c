"""``python -m benchmarks [--sizes 10000,100000] [--repeat 3] [flags of scribe-spark run]``."""

import sys

from benchmarks.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
