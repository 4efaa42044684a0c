"""Groups, members and their trees, over what overlay left.

spark-submit --py-files dist/scribe_spark.zip jobs/trees.py --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("trees")
