"""All of Section IV, over ten topologies.

spark-submit --py-files dist/scribe_spark.zip jobs/paper.py --resume --out OUT ...
"""

import sys

from scribe_spark.cli import main

if __name__ == "__main__":
    main(["paper", *sys.argv[1:]])
