"""All of Section IV, over ten topologies.

spark-submit --py-files dist/scribe_spark.zip jobs/paper.py --resume --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("paper")
