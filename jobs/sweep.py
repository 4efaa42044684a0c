"""A grid of runs: their numbers in one table, one page.

spark-submit --py-files dist/scribe_spark.zip jobs/sweep.py --config data/sweep_b.toml --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("sweep")
