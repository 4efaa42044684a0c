"""The mesh links of a subscriber in a run, a metric of `metrics.json`."""

import pandas as pd

from scribe_spark import RunConfig, experiments
from scribe_spark.config import Execution


def test_mesh_links_of_a_subscriber(spark, tmp_path):
    """Four members with links to all others, and a member alone: (4 * 3 + 0) / 5 links."""
    members = [(1, node) for node in range(4)] + [(2, 7)]
    pd.DataFrame(members, columns=["group", "node"]).to_csv(tmp_path / "m.csv", index=False)
    config = RunConfig(
        nodes=20,
        members=str(tmp_path / "m.csv"),
        source="direct",  # a member
        systems=["gossipsub", "can"],
        transit_domains=1,
        stub_size=2,
    )
    how = Execution(out=str(tmp_path / "out"), partitions=1, engine="tasks")
    with experiments.run(spark, config, how, experiments.PHASES[:-1]) as run:
        found = {row["name"]: row for row in run.metrics()}
        state = run.table("system_state").where("system = 'gossipsub' and kind = 'mesh'").collect()
    metric = found["gossipsub.mesh.mean"]
    assert (metric["value"], metric["unit"]) == (2.4, "links per membership")
    assert "can.mesh.mean" not in found
    rows = sorted((row["group"], row["node"], row["entries"]) for row in state)
    assert rows == [*((1, node, 3) for node in range(4)), (2, 7, 0)]
