"""``python -m scribe_spark.cli``."""

from scribe_spark.cli import main

if __name__ == "__main__":
    main()
