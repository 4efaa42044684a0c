"""The entry point of ``python -m scribe_spark.cli``."""

import sys

if not sys.flags.safe_path:  # a file in the working directory must not replace a module
    sys.path.append(sys.path.pop(0))

from scribe_spark.cli import main

if __name__ == "__main__":
    main()
