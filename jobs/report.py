"""The figures and report.html again, from the tables of a run.

spark-submit --py-files dist/scribe_spark.zip jobs/report.py --out OUT
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("report")
