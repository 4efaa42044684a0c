"""Whether all tables and texts of a folder are as they were written.

spark-submit --py-files dist/scribe_spark.zip jobs/verify.py OUT
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("verify")
