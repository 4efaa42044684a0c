"""The router network and its routes.

spark-submit --py-files dist/scribe_spark.zip jobs/topology.py --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("topology")
