"""The benchmark: what it makes of a run's lines, memory and event log; and one real run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.command import main
from benchmarks.event_log import logging_to, read_event_log, supersteps
from benchmarks.measure import run_job
from benchmarks.watch import watch

ROOT = Path(__file__).resolve().parent.parent

SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"


def query(number: int, description: str, start: int, end: int) -> list[dict]:
    """Start and end of a query, milliseconds."""
    about = {"executionId": number, "description": description, "time": start}
    return [
        {"Event": f"{SQL}Start", **about},
        {"Event": f"{SQL}End", "executionId": number, "time": end},
    ]


def job(number: int, stages: list[int], of_query: int | None, at: int = 0) -> dict:
    properties = {} if of_query is None else {"spark.sql.execution.id": str(of_query)}
    return {
        "Event": "SparkListenerJobStart", "Job ID": number, "Stage IDs": stages,
        "Submission Time": at, "Properties": properties,
    }  # fmt: skip


def task(stage: int, read: int = 0, remote: int = 0, written: int = 0) -> dict:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Metrics": {
            "Shuffle Read Metrics": {"Local Bytes Read": read, "Remote Bytes Read": remote},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": written},
        },
    }


EVENTS = [
    *query(0, "parquet at NativeMethodAccessorImpl.java:0", 0, 900),
    job(0, [0], 0),
    task(0, written=7),
    *query(1, "JOIN superstep 0", 1000, 1400),
    job(1, [1, 2], 1),
    task(1, written=100),
    task(2, read=60, remote=40),
    *query(2, "JOIN superstep 0", 1450, 1500),  # what the loop keeps of the round
    job(2, [1, 3], 2),  # stage 1 has run already
    job(3, [4], 2),
    {"Event": "SparkListenerTaskEnd", "Stage ID": 4, "Task Metrics": None},  # a failed task
    *query(3, "JOIN superstep 1", 2000, 2300),
    job(4, [5], 3),
    task(5, written=5),
    *query(4, "publish all superstep 0", 9000, 9250),
    job(5, [6], None),  # not of a query
    task(6, written=1000),
]
LINES = ["trees: started", "  JOIN: round 0, 1,234 messages left, 0.5 s"]
LINES += ["  publish all: round 0, 3 messages left, 0.3 s"]


GREEDY = """
import subprocess, sys, time
more = "held = b'x' * (150 * 2**20); import time; time.sleep(1.5)"
print("topology: started", file=sys.stderr, flush=True)
subprocess.run([sys.executable, "-c", more])
sys.exit(3)
"""


def test_the_whole_process_tree_is_watched(capsys):
    watched = watch([sys.executable, "-c", GREEDY])
    assert watched.code == 3
    assert watched.seconds > 1.5
    assert [line for _, line in watched.lines] == ["topology: started"]
    assert "topology: started" in capsys.readouterr().err
    assert watched.peak()["peak_rss"] > 150 * 2**20
    assert watched.peak()["peak_pss"] <= watched.peak()["peak_rss"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--sizes", "10,x"], "'x' must be a whole number"),
        (["--repeat", "0"], "'0' must be a whole number"),
        (["--json", "/nowhere/b.json"], "json = '/nowhere/b.json': cannot be written"),
        (["--folder", "/nowhere"], "folder = '/nowhere': is no folder"),
        (["--out", "here"], "bench writes to a folder of its own"),
        (["--nods", "5"], "did you mean '--nodes'"),
        (["--sizes", "100,5", "--group-size", "10"], "more members than the 5 nodes"),
    ],
)
def test_bad_input_is_one_line(words, line, capfd, tmp_path):
    json_path = [] if "--json" in words else ["--json", str(tmp_path / "json")]
    with pytest.raises(SystemExit) as stopped:
        main([*words, *json_path])
    assert stopped.value.code == 2
    told = capfd.readouterr().err
    assert line in told
    assert told.count("\n") == 1


#: A stand-in for the main job, which leaves the lines, the manifest and the event log of one.
STAND_IN = """
import json, os, sys, time
from pathlib import Path
flags = sys.argv[1:]
nodes = int(flags[len(flags) - flags[::-1].index("--nodes")])
if "--dry-run" in flags:
    engine = flags[flags.index("--engine") + 1] if "--engine" in flags else "auto"
    print(f"nodes = {nodes}\\ngroups = 2\\nseed = 1\\nengine = '{engine}'")
    sys.exit()
say = lambda line: print(line, file=sys.stderr, flush=True)
out = Path(flags[flags.index("--out") + 1])
out.mkdir()
phases = [{"name": "trees", "rows": 1236}]
(out / "manifest.json").write_text(json.dumps({"phases": phases, "seconds": {"page": 0.5}}))
for word in os.environ.get("PYSPARK_SUBMIT_ARGS", "").split():
    if word.startswith("spark.eventLog.dir=file://"):
        log = Path(__file__).with_name("log").read_text()
        Path(word.split("file://")[1], "app").write_text(log)
for line in LINES:
    say(line)
time.sleep(nodes / 1000)
say("trees: done in 0.1 s")
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    program = tmp_path / "job.py"
    program.write_text(f"LINES = {LINES!r}\n{STAND_IN}")
    (tmp_path / "log").write_text("\n".join(map(json.dumps, EVENTS)))
    job = [sys.executable, str(program)]
    monkeypatch.setattr("benchmarks.measure.job_command", lambda flags: [*job, *flags])
    monkeypatch.setattr("benchmarks.measure.calibrate", lambda: 0.5)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    return tmp_path / "json"


def test_several_sizes_several_times(stand_in, capsys):
    words = ["--sizes", "50,350", "--repeat", "3", "--json", str(stand_in)]
    assert main([*words, "--nodes", "7"]) == 0
    made = json.loads(stand_in.read_text())
    assert [size["nodes"] for size in made["sizes"]] == [50, 350]
    assert 0 < made["growth_exponent"] < 1
    assert made["machine"]["cores"] == os.cpu_count()
    one = made["sizes"][0]
    assert len(one["each"]) == 3
    assert one["calibration"] == 0.5
    assert one["calibrations"] == round(one["seconds"] / 0.5, 2)
    assert one["seconds"] == sorted(one["each"])[1]
    assert [phase["name"] for phase in one["phases"]] == ["start", "trees", "end"]
    assert one["phases"][1]["rows"] == 1236
    assert [tuple(step.values()) for step in one["supersteps"]] == [
        ("JOIN", 0, 1234, 1.0, 3, 100, 100),
        # the loop's last round has no message, so the progress lines do not tell of it
        ("JOIN", 1, 0, 0.3, 1, 0, 5),
        ("publish all", 0, 3, 0.25, 0, 0, 0),
    ]
    assert one["peak_rss"] >= one["peak_pss"] > 0
    assert one["peak_disk"] >= 0
    assert one["parts"] == {"page": 0.5}
    told = capsys.readouterr().out
    assert "seconds of parts, by the manifest: page 0.5" in told
    assert "N = 50, G = 2" in told
    assert "growth exponent" in told
    assert "JOIN 0" in told


@pytest.mark.slow
def test_supersteps_of_a_real_run(tmp_path):
    logs = tmp_path / "events"
    logs.mkdir()
    flags = ["--nodes", "20", "--groups", "2", "--group-size", "8", "--master", "local[2]"]
    flags += ["--topology", str(ROOT / "data" / "tiny_topology.csv"), "--partitions", "2"]
    # the first three phases: all that has supersteps
    flags += [word for name in ("topology", "overlay", "trees") for word in ("--phase", name)]
    run = run_job(flags, tmp_path / "out", logging_to(logs))
    (path,) = logs.iterdir()
    steps = supersteps(
        *read_event_log(path.read_text().splitlines()), (line for _, line in run.lines)
    )
    by_loop: dict[str, list] = {}
    for step in steps:
        by_loop.setdefault(step["loop"], []).append(step)
    silent = "silent systems, ip_multicast/Remember to naive_unicast/WriteViews"
    loops = ["PlayEvents to LeaveTrees", "SendJoins", silent, "FindRoots to Disseminate"]
    assert list(by_loop) == loops
    for loop in by_loop.values():
        assert [step["round"] for step in loop] == list(range(len(loop)))
        # the last round of a loop finds that there are no messages left
        assert all(step["rows"] for step in loop[:-1])
        assert not loop[-1]["rows"]
        assert all(step["seconds"] > 0 and step["jobs"] for step in loop)
    # each of two groups has eight members, who send JOINs and get a copy
    assert by_loop["SendJoins"][0]["rows"] == 16
    assert [step["rows"] for step in by_loop["FindRoots to Disseminate"]] == [16, 0]
    assert sum(step["shuffle_written"] for step in by_loop["SendJoins"]) > 0
    assert run.peak()["peak_pss"] > 100 * 2**20


# --- pairs of two checkouts

#: Works for some time in a process whose parent has ended.
_WORKS = """
import pathlib, subprocess, sys
seconds = pathlib.Path("seconds").read_text()
work = f"import time\\nwhile time.process_time() < {seconds}: pass"
subprocess.Popen([sys.executable, "-c", work])
"""

_PAIRS = """
import sys
from benchmarks import pairs
pairs.CASES = {"works": (("-c", sys.argv[1]), 1.05), "another": (("-c", "exit(9)"), 1.05)}
sys.exit(pairs.main([*sys.argv[2:], "--pairs", "1", "--only", "works"]))
"""


def test_pairs_compare_the_processor_time_of_all_processes(tmp_path):
    """Also of a process that goes on when its parent has ended, as Spark's JVM does."""
    for name, seconds in (("old", "0.1"), ("new", "0.5")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "seconds").write_text(seconds)
    program = [sys.executable, "-c", _PAIRS, _WORKS, str(tmp_path / "old")]
    done = subprocess.run(
        [*program, "--new", str(tmp_path / "new")], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1, done.stderr
    *_, row = done.stdout.splitlines()
    name, *_, before, after, ratio, most = row.split(" | ")
    assert (name, most) == ("works", "1.05")
    assert float(before) >= 0.1
    assert float(after) >= 0.5
    assert float(ratio) > 1.05
