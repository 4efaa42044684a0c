"""Killed with -9, gone on with by executor processes, other partitions and buckets: the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from identifiers import halves
from killed import killed_then_gone_on
from oracle.reference_tree.cases import random_case

from reference_tree.test_oracle_cases import all_hosts
from scribe_spark.runtime.blocks import release
from scribe_spark.systems.reference_tree.places import places

pytestmark = pytest.mark.slow


def test_killed_experiments_go_on(tmp_path):
    network = ["--topology=power-law", "--power-law-routers=60", "--power-law-links=150"]
    command = [
        *(sys.executable, "-m", "scribe_spark.cli", "reference-tree", "--hosts=6", "--scaling=70"),
        *("--connections=40", "--children=2,3", "--assignment=pastry", "--dht=routed", *network),
    ]
    left = []
    for name in ("killed", "at-once"):
        out = tmp_path / name
        flags = [f"--out={out}", "--resume"]
        if name == "killed":
            log = tmp_path / "log"
            killed_then_gone_on([*command, *flags], "scaling-70-children-3: started", log)
        else:
            done = subprocess.run(
                [*command, *flags, "--master=local[2]"], capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, done.stderr
        manifest = json.loads((out / "manifest.json").read_text())
        digest = manifest["tables"]["reference_tree"]["digest"]
        left.append((manifest["points"], digest, manifest["texts"]))
    assert left[0] == left[1]


def answers(spark, seed: int, partitions: int, buckets: int) -> list[list]:
    """Places of a case's hosts, as what can be written as JSON."""
    case = random_case(seed)
    number = all_hosts(case)
    how = {
        "bits": case.bits,
        "children": case.children,
        "assignment": case.assignment,
        "buckets": buckets,
    }
    rows = [(number[key], *halves(key)) for key in case.hosts]
    hosts = spark.createDataFrame(rows, "node bigint, id_hi bigint, id_lo bigint")
    hosts = hosts.repartition(partitions)
    placed = places(hosts, **how)
    found = sorted(map(list, placed.collect()), key=lambda row: row[0])
    release(placed)
    return found


def test_places_on_executor_processes(spark, tmp_path):
    """Those of this session in its two partitions, by two processes in three."""
    script = (
        "import json, sys\n"
        "from scribe_spark.config import Execution\n"
        "from scribe_spark.runtime.session import session\n"
        "from killed import CLUSTER\n"
        "from reference_tree.test_reference_tree_cluster import answers\n"
        "spark = session(Execution(out=sys.argv[1], master=CLUSTER), nodes=100)\n"
        "spark.conf.set('spark.sql.shuffle.partitions', 3)\n"
        "print(json.dumps(answers(spark, 14, 3, 2)))\n"
        "spark.stop()\n"
    )
    tests = Path(__file__).resolve().parents[1]
    root = tests.parent
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": f"{root}:{tests}"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == answers(spark, 14, 2, 4)
