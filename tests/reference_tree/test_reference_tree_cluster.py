"""Killed with -9, gone on with by executor processes, other partitions and buckets: the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from killed import killed_then_gone_on
from oracle.reference_tree.cases import random_case

from reference_tree.test_host_tree import as_rounds, changes, sets, table
from reference_tree.test_oracle_cases import all_hosts
from scribe_spark.reference_tree import HostTree, places
from scribe_spark.runtime.blocks import release

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


def answers(spark, seed: int, partitions: int, buckets: int) -> dict:
    """Places of a case's hosts, and its reconfigurations: what can be written as JSON."""
    case = random_case(seed)
    number = all_hosts(case)
    how = {
        "bits": case.bits,
        "children": case.children,
        "assignment": case.assignment,
        "buckets": buckets,
    }
    hosts = table(spark, case.hosts, number).repartition(partitions)
    placed = places(hosts, **how)
    found = {"places": sorted(map(list, placed.collect()), key=lambda row: row[0])}
    release(placed)
    tree = HostTree(hosts, **how)
    rounds = [as_rounds(tree.change(*changes(spark, events, number))) for events in case.events[:1]]
    neighbours = {str(node): others for node, others in sets(tree).items()}
    tree.release()
    return {**found, "rounds": rounds, "neighbours": neighbours}


def test_places_and_reconfigurations_on_executor_processes(spark, tmp_path):
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
