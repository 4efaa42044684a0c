"""A command of ``scribe-spark``, for ``spark-submit``.

spark-submit --py-files dist/scribe_spark.zip jobs/submit.py run --out OUT ...
"""

import sys

if not sys.flags.safe_path:  # what lies beside this file replaces no module
    sys.path.append(sys.path.pop(0))

from scribe_spark.cli import main

if __name__ == "__main__":
    main()
