"""Memory and seconds of worlds on buckets: the table in docs/living.md.

Each world is a process of its own, watched from outside: the proportional set size (PSS) of the
driver, of the largest other Python process, of the JVMs, and of all together.

    python -m tools.world_buckets --nodes 300000 --buckets 1,4 --write
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

DOCS = Path(__file__).parents[1] / "docs" / "living.md"
BEGIN, END = (f"<!-- world_buckets: {word} -->" for word in ("begin", "end"))

#: Of every world here: 25 % of the nodes fail in round 3, reliable delivery.
FLAGS = {
    "--groups": "1500",
    "--generator": "mass-failure+publications",
    "--event-round": "3",
    "--share": "0.25",
    "--delivery": "reliable",
    "--lookups": "0",
}

HEAD = (
    "| nodes | buckets | master | seconds | supersteps "
    "| messages | their bytes | driver | largest worker | JVMs | all | disk |\n" + "|---" * 12 + "|"
)


@dataclass
class Peaks:
    """The largest PSS seen, in bytes, and how much the scratch folders' disk has filled by."""

    driver: int = 0
    worker: int = 0
    jvm: int = 0
    all: int = 0
    disk: int = 0
    first: int = field(default_factory=lambda: shutil.disk_usage(tempfile.gettempdir()).used)

    def look(self, pid: int) -> None:
        """Take a sample of a process and all below it."""
        sums = {"driver": 0, "worker": 0, "jvm": 0, "all": 0}
        try:
            processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return
        for process in processes:
            try:
                name, pss = process.name(), process.memory_full_info().pss
            except psutil.Error:  # it has just ended
                continue
            sums["all"] += pss
            if process.pid == pid:
                sums["driver"] = pss
            elif name.startswith("java"):
                sums["jvm"] += pss
            else:
                sums["worker"] = max(sums["worker"], pss)
        for name, size in sums.items():
            setattr(self, name, max(getattr(self, name), size))
        used = shutil.disk_usage(tempfile.gettempdir()).used
        self.disk = max(self.disk, used - self.first)


def main() -> None:
    """Play the worlds; print a row for each, and write them into the documentation if asked."""
    options = _options()
    rows = [
        row_of(options.nodes, int(buckets), options.rounds, options.master)
        for buckets in options.buckets.split(",")
    ]
    if options.write:
        before, rest = DOCS.read_text().split(BEGIN)
        old, after = rest.split(END)
        kept = [line for line in old.splitlines() if line.startswith("| ") and line[2].isdigit()]
        mine = {tuple(row.split("|")[1:4]): row for row in (*kept, *rows)}
        table = "\n".join([HEAD, *mine.values()])
        DOCS.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=300_000)
    parser.add_argument("--buckets", default="1,4")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def row_of(nodes: int, buckets: int, rounds: int, master: str) -> str:
    """Play a world; return its row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        flags = {"--nodes": str(nodes), "--rounds": str(rounds), "--master": master, **FLAGS}
        flags |= {"--buckets": str(buckets), "--out": str(out)}
        command = [sys.executable, "-m", "scribe_spark.cli", "world"]
        started, peaks = time.monotonic(), Peaks()
        child = subprocess.Popen([*command, *(word for flag in flags.items() for word in flag)])
        while child.poll() is None:
            looked = time.monotonic()
            peaks.look(child.pid)
            time.sleep(max(0.3, 10 * (time.monotonic() - looked)))
        if child.returncode:
            raise SystemExit(f"buckets {buckets}: exit code {child.returncode}")
        seconds = time.monotonic() - started
        costs = json.loads(Path(out, "manifest.json").read_text())["world"].get("costs", {})
    gib = [f"{size / 2**30:.2f} GiB" for size in (peaks.driver, peaks.worker, peaks.jvm, peaks.all)]
    total = {
        name: sum(one[name] for one in costs.values())
        for name in ("supersteps", "messages", "bytes")
    }
    told = [f"{total[name]:,}" for name in ("supersteps", "messages")] if costs else ["", ""]
    told.append(f"{total['bytes'] / 1e9:.2f} GB" if costs else "")
    cells = [f"{nodes:,}", str(buckets), f"`{master}`", f"{seconds:.0f}", *told, *gib]
    row = "| " + " | ".join([*cells, f"{peaks.disk / 2**30:.1f} GiB"]) + " |"
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
