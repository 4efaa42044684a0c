"""``jobs/submit.py`` under pyspark's own spark-submit: phase after phase over one folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scribe_spark.experiments import PHASES

from .conftest import FLAGS, JAVA, ROOT, left, manifest, shell

SUBMIT = Path(sys.executable).parent / "spark-submit"


def submit(command: str, *flags: str):
    options = ["--master", "local[1]", "--driver-java-options", JAVA]
    program = [str(SUBMIT), *options, str(ROOT / "jobs" / "submit.py"), command]
    return shell([*program, *flags], PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT))


@pytest.mark.slow
def test_phase_after_phase(small, tmp_path):
    """One core, one partition; the tables are those of two cores and two partitions."""
    out = tmp_path / "out"
    flags = [*FLAGS, "--write-routing-table", "--partitions", "1", "--out", str(out)]
    for number, phase in enumerate(PHASES, start=1):
        done = submit("run", "--phase", phase, *flags)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == str(out)
        assert f"{phase}: started" in done.stdout
        assert [entry["name"] for entry in manifest(out)["phases"]] == list(PHASES[:number])
    assert manifest(out)["execution"]["master"] == "local[1]"
    assert left(out) == left(small.out)
    assert (out / "report.html").stat().st_size > 10_000


def test_bad_input_is_one_line(tmp_path):
    done = submit(
        "run", "--phase", "trees", *FLAGS, "--leaf-set", "7", "--out", str(tmp_path / "out")
    )
    assert done.returncode == 2
    # spark-submit hands a program's stderr on as stdout
    assert done.stdout == "scribe-spark: error: leaf_set = 7: must be even, for example 16\n"
    assert "Traceback" not in done.stderr
