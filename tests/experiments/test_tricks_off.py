"""Without private tricks, by Spark's public interface alone, a run leaves the same tables."""

from __future__ import annotations

import pytest

from scribe_spark.experiments import PHASES

from .conftest import FLAGS, command, left, shell


@pytest.mark.slow
def test_the_same_tables_without_tricks(small, tmp_path):
    out = str(tmp_path / "out")
    phases = [text for phase in PHASES if phase != "report" for text in ("--phase", phase)]
    flags = [*FLAGS, "--write-routing-table", *phases, "--master", "local[2]", "--out", out]
    done = shell(command("run", *flags), SCRIBE_SPARK_TRICKS="none")
    assert done.returncode == 0, done.stderr
    found, expected = left(out), left(small.out)
    assert {"tree_edges", "deliveries", "link_stress", "group_delay"} <= found.keys()
    assert found == {name: expected[name] for name in found}
