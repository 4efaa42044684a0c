"""The files of data/ that are questions: what they ask, and one of them played at a small size."""

from pathlib import Path

import numpy as np
import pytest

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig
from scribe_spark.config.toml import read_toml
from scribe_spark.core.node_classes import NodeClasses

ROOT = Path(__file__).parents[2]


def question(name: str, **changes) -> RunConfig:
    """The config of a file; its paths are relative to the top of the repository."""
    return RunConfig.of(read_toml(str(ROOT / "data" / name)), changes)


@pytest.mark.parametrize(
    ("name", "groups", "size", "topic_of_all"),
    [
        ("waku.toml", 1, "2KB", True),
        ("ethereum_block.toml", 1, "100KB", True),
        ("peerdas.toml", 128, "96KB", False),
    ],
)
def test_what_they_ask(name, groups, size, topic_of_all, monkeypatch):
    monkeypatch.chdir(ROOT)
    config = question(name)
    assert config.has_system("gossipsub")
    assert (config.groups.count, config.bandwidth.message_size) == (groups, size)
    assert (config.groups.size == config.overlay.nodes) == topic_of_all
    # a comment says the origin of each value, but of the seed and the overlay
    lines = (ROOT / "data" / name).read_text("utf-8").partition("[[classes]]")[0].splitlines()
    values = [line for line in lines if "=" in line and not line.startswith("#")]
    bare = [line.split()[0] for line in values if "#" not in line]
    assert set(bare) <= {"group_size", "seed", "overlay", "systems"}


def test_columns_reach_their_custodians(spark, tmp_path):
    """Of 16 columns a class of 300 nodes keeps all; peers of one graph serve all topics."""
    config = question("peerdas.toml", nodes=300, groups=16, systems="gossipsub")
    execution = Execution(
        out=str(tmp_path / "out"), master="local[2]", partitions=2, engine="tasks"
    )
    with experiments.run(spark, config, execution, experiments.PHASES[:3]) as done:
        kept = done.table("members").toPandas().groupby("node")["group"].count()
        heard = done.table("deliveries").where("system = 'gossipsub'").toPandas()
    custody = NodeClasses.of(config).values("custody", np.arange(300), 4)
    assert set(custody.tolist()) == {4, 8, 128}
    assert np.array_equal(kept.reindex(range(300)).to_numpy(), np.minimum(custody, 16))
    # the source of a column is no delivery
    assert len(heard) == kept.sum() - 16
