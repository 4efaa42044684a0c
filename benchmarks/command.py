"""The flags of ``make bench``, and what is written: JSON, and tables for a terminal."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.measure import growth_exponent, machine, measure, resolve
from scribe_spark.core.errors import InputError
from scribe_spark.core.paths import replace_file


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _stop(message)


def _stop(line: str) -> NoReturn:
    print(f"benchmarks: error: {line}", file=sys.stderr)
    sys.exit(2)


def _whole(value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} must be a whole number, at least 1")
    return number


def _sizes(value: str) -> list[int]:
    return [_whole(size) for size in value.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m benchmarks",
        description="Time the main job; every flag of scribe-spark run may be given too.",
        allow_abbrev=False,
    )
    parser.add_argument("--sizes", type=_sizes, metavar="N,N,...", help="one benchmark per N")
    parser.add_argument(
        "--engines", metavar="jobs,tasks", help="one benchmark per engine, side by side"
    )
    parser.add_argument("--repeat", type=_whole, default=1, metavar="K", help="medians of K runs")
    parser.add_argument("--json", default="bench.json", metavar="FILE", help="[bench.json]")
    parser.add_argument(
        "--no-event-log", action="store_true", help="no shuffled bytes, and one run less"
    )
    parser.add_argument(
        "--remote",
        nargs="?",
        const="local[*]",
        metavar="URL",
        help="in a session of Spark Connect; without a URL of a server started for each run",
    )
    parser.add_argument("--folder", help="where runs are written for the time being")
    return parser


def main(arguments: Sequence[str]) -> int:
    given, flags = _parser().parse_known_args(arguments)
    try:
        if any(word.split("=")[0] == "--out" for word in flags):
            raise InputError("flag", "--out", "bench writes to a folder of its own; see --folder")
        path = Path(given.json)
        if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
            raise InputError("json", given.json, "cannot be written")
        if given.folder is not None and not os.path.isdir(given.folder):
            raise InputError("folder", given.folder, "is no folder")
    except InputError as error:
        _stop(str(error))
    if given.remote is not None:  # whose log is the server's
        flags, given.no_event_log = [*flags, "--remote", given.remote], True
    sizes = [["--nodes", str(size)] for size in given.sizes or []] or [[]]
    engines = [["--engine", one] for one in (given.engines or "").split(",") if one] or [[]]
    chosen = [[*size, *engine] for size in sizes for engine in engines]
    # all of them are looked at before the first one runs
    resolved = [resolve([*flags, *size]) for size in chosen]
    bench: dict[str, Any] = {"machine": machine(), "config": resolved[0], "sizes": []}
    for size, config in zip(chosen, resolved, strict=True):
        result = measure([*flags, *size], given.repeat, not given.no_event_log, given.folder)
        about = {name: config.get(name) for name in ("nodes", "groups", "seed")}
        # runs without rounds are jobs unless tasks are asked for
        about["engine"] = "tasks" if config["engine"] == "tasks" else "jobs"
        bench["sizes"].append({**about, **result})
    first = bench["sizes"][0]["engine"]
    different = {
        size["nodes"]: size["seconds"] for size in bench["sizes"] if size["engine"] == first
    }
    growth = None
    if len(different) > 1:
        growth = round(growth_exponent(list(different), list(different.values())), 3)
    bench["growth_exponent"] = growth
    replace_file(path, f"{json.dumps(bench, indent=2)}\n".encode())
    print(text(bench))
    return 0


# --- tables

_MIB, _GIB = 2**20, 2**30


def text(bench: Mapping[str, Any]) -> str:
    """The benchmark as tables for a terminal."""
    on = bench["machine"]
    lines = [f"{on['cores']} cores, {on['memory'] / _GIB:.1f} GiB, load {on['load']} at the start"]
    for size in bench["sizes"]:
        lines += ["", *_size_text(size)]
    if bench["growth_exponent"] is not None:
        lines += ["", f"growth exponent of seconds in N: {bench['growth_exponent']:.2f}"]
    return "\n".join(lines)


def _size_text(size: Mapping[str, Any]) -> list[str]:
    logged = "supersteps" in size
    each = ", ".join(f"{seconds:.1f}" for seconds in size["each"])
    runs = f" (median of {each})" if len(size["each"]) > 1 else ""
    groups = "members from a table" if size["groups"] is None else f"G = {size['groups']:,}"
    about = f"N = {size['nodes']:,}, {groups}, in {size['engine']}"
    lines = [f"{about}: {size['seconds']:.1f} s{runs}"]
    calibrations = f"{size['calibrations']:.1f} calibrations of {size['calibration']:.2f} s"
    lines += [f"that is {calibrations}, taken before and after"]
    parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in size["parts"].items())
    lines += [f"seconds of parts, by the manifest: {parts}"]
    lines += [f"temporary files and tables: {_gib(size['peak_disk'])} GiB of disk at most", ""]
    total = {"name": "all", **size, "rows": sum(p["rows"] or 0 for p in size["phases"])}
    for name in ("jobs", "shuffle_read", "shuffle_written"):
        total[name] = sum(phase.get(name, 0) for phase in size["phases"])
    lines += _table(
        {
            "phase": phase["name"],
            "seconds": f"{phase['seconds']:.1f}",
            "calibrations": f"{phase['seconds'] / size['calibration']:.1f}",
            "rows": _count(phase["rows"]),
            "RSS GiB": _gib(phase["peak_rss"]),
            "PSS GiB": _gib(phase["peak_pss"]),
            **(_shuffled(phase) if logged else {}),
        }
        for phase in [*size["phases"], total]
    )
    if logged:
        steps = (
            {
                "superstep": f"{step['loop']} {step['round']}",
                "seconds": f"{step['seconds']:.2f}",
                "rows": _count(step["rows"]),
                **_shuffled(step),
            }
            for step in size["supersteps"]
        )
        lines += ["", *_table(steps)]
        lines += ["", f"with the event log: {size['seconds_with_event_log']:.1f} s"]
    return lines


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _gib(value: int | None) -> str:
    return "" if value is None else f"{value / _GIB:.2f}"


def _shuffled(entry: Mapping[str, Any]) -> dict[str, str]:
    read, written = (f"{entry[f'shuffle_{way}'] / _MIB:.2f}" for way in ("read", "written"))
    return {"jobs": str(entry["jobs"]), "read MiB": read, "written MiB": written}


def _table(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Lines of a table; the first column to the left, numbers to the right."""
    found = list(rows)
    every = [list(found[0]), *(list(row.values()) for row in found)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return [
        "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])])
        for first, *others in every
    ]
