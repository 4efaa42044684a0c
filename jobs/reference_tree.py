"""The experiments on the reference tree of Costa and Frey.

spark-submit --py-files dist/scribe_spark.zip jobs/reference_tree.py --out OUT ...
"""

import sys

from scribe_spark.cli import main

if __name__ == "__main__":
    main(["reference-tree", *sys.argv[1:]])
