"""What the tests of topologies share: a session that must not be used, how refusals are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from scribe_spark.config import RunConfig
from scribe_spark.errors import InputError, shown
from scribe_spark.topology import load


class Untouchable:
    """A Spark session that must not be used."""

    def __getattr__(self, name):
        raise AssertionError(f"spark.{name} was used")


def loaded(topology: str):
    return load(RunConfig(topology=topology), Untouchable())


def written(folder: Path, text: str) -> str:
    (folder / "links.csv").write_text(text)
    return str(folder / "links.csv")


def rows(graph) -> list[tuple]:
    return list(graph.edges.itertuples(index=False, name=None))


def refusal(topology: str) -> str:
    with pytest.raises(InputError) as error:
        loaded(topology)
    message = str(error.value)
    assert message.startswith(f"topology = {shown(topology)}: ")
    assert "\n" not in message
    return message
