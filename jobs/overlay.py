"""Nodes and their Pastry tables, over what topology left.

spark-submit --py-files dist/scribe_spark.zip jobs/overlay.py --out OUT ...
"""

from scribe_spark.cli import job

if __name__ == "__main__":
    job("overlay")
