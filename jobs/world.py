"""Nodes come and go, round by round.

spark-submit --py-files dist/scribe_spark.zip jobs/world.py --generator churn --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("world")
