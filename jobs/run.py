"""The whole experiment, or with --phase a part of it.

spark-submit --py-files dist/scribe_spark.zip jobs/run.py --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("run")
