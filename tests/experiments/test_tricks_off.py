"""Without private tricks, by Spark's public interface alone, a run leaves the same tables."""

from __future__ import annotations

from .conftest import FLAGS, command, left, shell


def test_the_same_tables_without_tricks(small, tmp_path):
    out = str(tmp_path / "out")
    done = shell(
        command("run", *FLAGS, "--write-routing-table", "--out", out, "--master", "local[2]"),
        SCRIBE_SPARK_TRICKS="none",
    )
    assert done.returncode == 0, done.stderr
    assert left(out) == left(small.out)
