"""The same tables, to the bit, however the work is cut up and wherever it is done.

`test_jobs` adds local[1] in one partition, by spark-submit.
"""

from __future__ import annotations

import sys

from .conftest import FLAGS, SMALL, command, left, shell

#: Of the small run, by table: rows and digest.  They change only with a definition.
GOLDEN: dict[str, tuple[int, str]] = {}

#: Runs with more than the contract's tables say the same of them.
INTERNAL = {"pastry_routes", "distributions", "routing_table", "metrics.json"}


def test_partitions(make, small, tmp_path):
    """Two partitions against sixteen; against four below, against one in `test_jobs`."""
    out = tmp_path / "sixteen"
    make(out, partitions=16, write_routing_table=True)
    assert left(out) == left(small.out)


def test_executors_of_their_own(small, tmp_path):
    """Two executor processes, which share nothing with the driver but OUT."""
    out = tmp_path / "cluster"
    flags = ("--master", "local-cluster[2,1,1024]", "--partitions", "4", "--write-routing-table")
    done = shell(command("run", *FLAGS, *flags, "--out", str(out)), PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert left(out) == left(small.out)


def test_seed(make, small, tmp_path):
    """Another seed is another world."""
    out = tmp_path / "seed"
    make(out, seed=2, phases=("topology", "overlay"))
    ours = left(out)
    assert all(ours[name] != left(small.out)[name] for name in ours)


def test_golden(small):
    assert SMALL["nodes"] == 200
    kept = left(small.out)
    assert {
        name: (record["rows"], record["digest"])
        for name, record in kept.items()
        if name not in INTERNAL
    } == GOLDEN
