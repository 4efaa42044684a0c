"""A benchmark as tables for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    columns = ["phase", "seconds", "calibrations", "rows", "RSS GiB", "PSS GiB"]
    columns += ["jobs", "read MiB", "written MiB"] if logged else []
    total = {"name": "all", **size, "rows": sum(p["rows"] or 0 for p in size["phases"])}
    for name in ("jobs", "shuffle_read", "shuffle_written"):
        total[name] = sum(phase.get(name, 0) for phase in size["phases"])
    rows = [
        [phase["name"], f"{phase['seconds']:.1f}"]
        + [f"{phase['seconds'] / size['calibration']:.1f}", _count(phase["rows"])]
        + [_gib(phase[peak]) for peak in ("peak_rss", "peak_pss")]
        + (_shuffled(phase) if logged else [])
        for phase in [*size["phases"], total]
    ]
    lines += _table(columns, rows)
    if logged:
        columns = ["superstep", "seconds", "rows", "jobs", "read MiB", "written MiB"]
        steps = [
            [f"{s['loop']} {s['round']}", f"{s['seconds']:.2f}", _count(s["rows"]), *_shuffled(s)]
            for s in size["supersteps"]
        ]
        lines += ["", *_table(columns, steps)]
        lines += ["", f"with the event log: {size['seconds_with_event_log']:.1f} s"]
    return lines


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _gib(value: int | None) -> str:
    return "" if value is None else f"{value / _GIB:.2f}"


def _shuffled(entry: Mapping[str, Any]) -> list[str]:
    read, written = entry["shuffle_read"], entry["shuffle_written"]
    return [str(entry["jobs"]), f"{read / _MIB:.2f}", f"{written / _MIB:.2f}"]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first column to the left, numbers to the right."""
    every = [columns, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in every
    ]
