"""``python -m benchmarks.bandwidth [--sizes 30000,100000,1000000] [--no-runs]``: the clock's bars.

The clock with bandwidth is played on meshes of the paper's groups, without Spark: by one process,
and at the greatest size also by two that exchange messages.  Then whole runs are timed: GossipSub
with and without bandwidth at 100,000 nodes, and the preset of PeerDAS.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.exchange import in_processes
from benchmarks.measure import calibrate, run_job
from benchmarks.watch import windows
from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import ROOMS, Discipline, Nodes, TimedPublications
from scribe_spark.bandwidth.windows import COPIES, LINKS, play_windows
from scribe_spark.core import draws
from scribe_spark.engine.flight import Flight
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables

_TOPICS, _SIZE, _SEED = 1_500, 128_000, 1

#: Each node asks so many others of a topic into its mesh: the mean degree is twice as high.
_ASKED = 4

#: Microseconds between two nodes.
_LEAST_US, _SPAN_US = 2_000, 198_000

#: What a run keeps of GossipSub's copies.
_KEPT = ("publication", "node", "sender", "sent_us", "hops", "first")

_GIB = 2**20  # in KiB, the unit of /proc


# --- the clock alone


@dataclass(frozen=True)
class Played:
    """What a process has played.

    Attributes
    ----------
    links, copies : int
    seconds, cpu_seconds : float
    gib : float
        The most memory, with that of the links, but not that of the process before.
    """

    links: int
    copies: int
    seconds: float
    cpu_seconds: float
    gib: float


def _members(nodes: int) -> Iterator[np.ndarray]:
    """Yield the members of each topic: the paper's sizes, drawn nodes, ascending."""
    rng = np.random.default_rng(_SEED)
    for rank in range(1, _TOPICS + 1):
        size = max(2, int(nodes * rank**-1.25 + 0.5))
        yield np.sort(rng.choice(nodes, size, replace=False, shuffle=False))


def _links(nodes: int, first: int, last: int) -> tuple[Columns, np.ndarray]:
    """Return the links of the nodes from `first` to `last`, and the source of each topic."""
    rng, found, source = np.random.default_rng(_SEED), [], []
    for topic, members in enumerate(_members(nodes)):
        own = np.repeat(np.arange(len(members)), _ASKED)
        asked = rng.integers(0, len(members), len(own))
        a, b = members[own[own != asked]], members[asked[own != asked]]
        key = np.unique(np.concatenate([a * nodes + b, b * nodes + a]))
        node, peer = key // nodes, key % nodes
        mine = (node >= first) & (node < last)
        found.append((np.full(np.count_nonzero(mine), topic * ROOMS), node[mine], peer[mine]))
        source.append(int(members[0]))
    room, node, peer = (np.concatenate(column) for column in zip(*found, strict=True))
    bits = draws.bits_np(_SEED, "delay", np.minimum(node, peer), np.maximum(node, peer))
    delay_us = _LEAST_US + (bits % np.uint64(_SPAN_US)).astype(np.int64)
    alike = {"mesh": np.True_, "order": np.int64(0)}
    return {
        **{"room": room, "node": node, "to_room": room, "peer": peer, "delay_us": delay_us},
        **{name: np.broadcast_to(value, room.shape) for name, value in alike.items()},
    }, np.array(source)


def _setting(nodes: int, source: np.ndarray) -> ClockSetting:
    """Return 128 KB in each topic; a fifth of the nodes has 1,024 Mbit/s, the others have 50."""
    rng, zero = np.random.default_rng(_SEED), np.zeros(len(source), dtype=np.int64)
    rate = np.where(rng.random(nodes) < 0.2, 1_024, 50) * 10**6
    return ClockSetting(
        Nodes(np.arange(nodes), rate, rate, np.zeros(nodes, dtype=np.int64)),
        TimedPublications(zero, np.arange(len(source)), source, zero + _SIZE),
        Discipline(idontwant=0),
        kept=_KEPT,
    )


def _played(rank: int, exchange: Flight, nodes: int, tasks: int) -> Played:
    """Play the nodes of a process."""
    bounds, before = np.linspace(0, nodes, tasks + 1).astype(np.int64), _gib("VmRSS")
    links, source = _links(nodes, *bounds[rank : rank + 2].tolist())
    count = len(links["node"])
    tables = Tables.of({LINKS: links})
    del links
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins here
    exchange.swap({}, b"")
    begun, cpu = time.perf_counter(), time.process_time()
    play_windows(InTask([tables], exchange), bounds, _setting(nodes, source))
    begun, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return Played(count, len(tables[COPIES]["node"]), begun, cpu, _gib("VmHWM") - before)


def _gib(name: str) -> float:
    """Return a number of /proc/self/status, such as the peak of the process's memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / _GIB


# --- whole runs


def _phases(flags: Sequence[str]) -> dict[str, float]:
    """Return the seconds of each phase of a run, and of all of it."""
    with tempfile.TemporaryDirectory(prefix="scribe-bench-") as folder:
        seen = run_job(flags, Path(folder, "run"))
    phases = {name: end - start for name, start, end in windows(seen)}
    return {**phases, "all": seen.seconds}


# --- the table


def _row(*cells: object) -> None:
    print(" | ".join(str(cell).rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)))


_WIDTHS = (9, 5, 10, 10, 7, 12, 9, 5)


def _kernel_bars(sizes: Sequence[int], tasks: int) -> Iterator[tuple[str, float, str]]:
    """Print a row for each size; yield what is found of the bars."""
    _row("nodes", "tasks", "links", "copies", "seconds", "calibrations", "us a copy", "GiB")
    copy_us, alone = {}, 0.0
    for nodes, count in [*((size, 1) for size in sizes), (sizes[-1], tasks)]:
        before = calibrate()
        found: list[Played] = in_processes(count, _played, nodes, count, patience=600)
        calibration = (before + calibrate()) / 2
        seconds, gib = max(one.seconds for one in found), sum(one.gib for one in found)
        links, copies = (sum(getattr(one, name) for one in found) for name in ("links", "copies"))
        cpu_us = 1e6 * sum(one.cpu_seconds for one in found) / copies
        cells = f"{seconds:.1f}", f"{seconds / calibration:.1f}", f"{cpu_us:.2f}", f"{gib:.2f}"
        _row(f"{nodes:,}", count, f"{links:,}", f"{copies:,}", *cells)
        if count > 1:
            yield f"{count} tasks instead of 1", alone / seconds, "at least 1.4 times as fast"
            continue
        copy_us[nodes], alone = cpu_us, seconds
        for size, most, memory in ((100_000, "1.2", "0.4"), (1_000_000, "17", "4")):
            if nodes == size:
                yield f"{nodes:,} nodes, the clock", seconds / calibration, f"{most} calibrations"
                yield f"{nodes:,} nodes, memory", gib, f"{memory} GiB, the links included"
    ratio = max(copy_us.values()) / min(copy_us.values())
    yield "the dearest copy by the cheapest", ratio, "at most 2"


def _run_bars() -> Iterator[tuple[str, float, str]]:
    """Yield what whole runs take in calibrations."""
    flags = ["--nodes", "100000", "--groups", str(_TOPICS), "--systems", "gossipsub"]
    flags += ["--overlay", "perfect"]
    sized = ["--message-size", "128KB", "--uplink", "50Mbit/s", "--downlink", "50Mbit/s"]
    before = calibrate()
    without, beyond = (_phases([*flags, *more])["trees"] for more in ((), sized))
    calibration = (before + calibrate()) / 2
    yield "100,000 nodes, beyond a run without", (beyond - without) / calibration, "at most 1.2"
    preset = _phases(["--config", "data/peerdas.toml"])["all"]
    yield "PeerDAS, from start to page", preset / calibrate(), "at most 20"


def main(arguments: Sequence[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bandwidth", allow_abbrev=False)
    parser.add_argument("--sizes", default="30000,100000,1000000", metavar="N,N,...")
    parser.add_argument("--tasks", type=int, default=2, metavar="B", help="processes [2]")
    parser.add_argument("--no-runs", action="store_true", help="the clock alone")
    given = parser.parse_args(arguments)
    sizes = sorted(int(size) for size in given.sizes.split(","))
    bars = list(_kernel_bars(sizes, given.tasks))
    for name, value, bar in itertools.chain(bars, () if given.no_runs else _run_bars()):
        print(f"{name:>36} | {value:>6.2f} | {bar}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
