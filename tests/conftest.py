"""What the tests share: one Spark session, started by the first test that asks for it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

# workers run this very Python, whatever `python3` is on the PATH
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

MASTER, PARTITIONS = "local[2]", 2


def _session(out: str) -> SparkSession:
    if importlib.util.find_spec("scribe_spark.runtime.session"):
        from scribe_spark.config import Execution
        from scribe_spark.runtime.session import session

        return session(Execution(out=out, master=MASTER), nodes=1000)
    return SparkSession.builder.master(MASTER).config("spark.ui.enabled", False).getOrCreate()


#: What takes longest is begun first, so that the workers end together.
SLOW = (
    "test_determinism",
    "test_jobs",
    "test_variants",
    "test_notebooks",
    "test_resume",
    "test_sweep",
    "test_paper",
    "test_edge_sizes",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files of tests."""
    places = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as a run makes it, on two cores; queries use two partitions and no AQE."""
    session = _session(str(tmp_path_factory.mktemp("out")))
    session.sparkContext.setLogLevel("ERROR")
    session.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    session.conf.set("spark.sql.adaptive.enabled", False)
    yield session
    session.stop()
