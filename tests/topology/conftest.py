import gzip

import pytest

from scribe_spark.config import RunConfig
from scribe_spark.topology.registry import load


@pytest.fixture
def graph_of(tmp_path):
    """A function of a file's text and name: the network of the file."""

    def read(text: str, name: str, **more):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return load(RunConfig(topology=str(path), **more))

    return read
