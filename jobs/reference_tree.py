"""The experiments on the reference tree of Costa and Frey.

spark-submit --py-files dist/scribe_spark.zip jobs/reference_tree.py --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("reference-tree")
