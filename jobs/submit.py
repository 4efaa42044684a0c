"""A command of ``scribe-spark``, for ``spark-submit``.

spark-submit --py-files dist/scribe_spark.zip jobs/submit.py run --out OUT ...
"""

from scribe_spark.cli import main

if __name__ == "__main__":
    main()
