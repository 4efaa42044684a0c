"""The same tables, to the bit, however the work is cut up and wherever it is done.

`test_jobs` adds local[1] in one partition, by spark-submit.
"""

from __future__ import annotations

import sys

from .conftest import GROWN, command, flags, left, shell

#: Of the small run, by table: rows and digest.  They change only with a definition.
GOLDEN = {
    "routers": (28, "cbd57b8e3-e1c5e0cb7"),
    "links": (64, "1b31575d78-1bee78d05c"),
    "nodes": (200, "6a751cafd3-620643a966"),
    "members": (451, "e34268aee7-e58712ef69"),
    "groups": (8, "226aebe4f-29991c960"),
    "tree_edges": (1382, "2b21d3a9737-2be1f3168a9"),
    "deliveries": (1347, "29dd2315374-29bf3fde946"),
    "node_stress": (600, "13778e4ed86-137f4338bdb"),
    "link_stress": (806, "18f2cca9812-18be487e8c4"),
    "group_delay": (24, "b6f878869-c384e4ef2"),
}


def test_partitions(make, grown, tmp_path):
    """Two partitions against sixteen; against four below, against one in `test_jobs`."""
    out = tmp_path / "sixteen"
    make(out, partitions=16, write_routing_table=True, **GROWN)
    assert left(out) == left(grown.out)


def test_executors_of_their_own(grown, tmp_path):
    """Two executor processes, which share nothing with the driver but OUT."""
    out = tmp_path / "cluster"
    where = ("--master", "local-cluster[2,1,1024]", "--partitions", "4", "--write-routing-table")
    run = command("run", *flags(GROWN), *where, "--out", str(out))
    done = shell(run, PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert left(out) == left(grown.out)


def test_seed(make, small, tmp_path):
    """Another seed is another world."""
    out = tmp_path / "seed"
    make(out, seed=2, phases=("topology", "overlay"))
    ours = left(out)
    assert all(ours[name] != left(small.out)[name] for name in ours)


def test_golden(small):
    kept = left(small.out)
    assert {name: (kept[name]["rows"], kept[name]["digest"]) for name in GOLDEN} == GOLDEN
