"""The measures, over what trees left.

spark-submit --py-files dist/scribe_spark.zip jobs/measures.py --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("measures")
