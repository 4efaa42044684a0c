"""``python -m scribe_spark.cli``."""

import sys

if not sys.flags.safe_path:  # what lies in the working directory replaces no module
    sys.path.append(sys.path.pop(0))

from scribe_spark.cli import main

if __name__ == "__main__":
    main()
