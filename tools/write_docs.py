"""Write the generated pages of the documentation.

``python -m tools.write_docs [--paper OUT] [--example OUT] [--bench FILE ...] [--check]``

Always: ``docs/tables.md`` from the schemas, ``docs/configuration.md`` from the config's fields,
``docs/measures_reference.md`` from the measures.
With ``--paper``, the folder that ``make paper`` wrote: ``docs/results.md``, ``docs/results.csv``,
and the table of ten rows in ``README.md``.  With ``--example``, the folder that README's example run wrote: what it
told, and Figure 7.  With ``--world``, the folder of README's world: its table.  With ``--bench``, files that ``make bench`` wrote: the tables in
``docs/performance.md``.  With ``--check`` nothing is written; a page that would change is named,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scribe_spark import schemas
from scribe_spark.config.fields import documentation
from scribe_spark.core.paths import replace_file
from scribe_spark.measures.metrics import all_measures
from scribe_spark.report.overlays import OVERLAYS, met, published_numbers
from scribe_spark.systems import all_systems, described
from scribe_spark.worlds.summary import measure_of, summary_units
from tools.columns import COLUMNS
from tools.pages import table, with_lines

ROOT = Path(__file__).resolve().parents[1]

_RESULTS = (
    "<!-- results: written by `make docs PAPER=out/paper` -->\n",
    "<!-- end of results -->\n",
)
_EXAMPLE = (
    "<!-- example: written by `make docs EXAMPLE=out/seed2` -->\n",
    "<!-- end of example -->\n",
)
_WORLD = (
    "<!-- world: written by `make docs WORLD=out/world` -->\n",
    "<!-- end of world -->\n",
)
_FIGURE = "figure-07-delay-penalty.svg"
_BENCHES = (
    "<!-- benchmarks: written by `make docs BENCH='bench.json ...'` -->\n",
    "<!-- end of benchmarks -->\n",
)

_README_BENCHES = (
    "<!-- engines: written by `make docs BENCH='bench.json ...'` -->\n",
    "<!-- end of engines -->\n",
)
_ENGINES = ("jobs", "tasks")

#: The rows of the README's table: experiment and metric.
_README_ROWS = (
    ("main", "scribe.rad.median", "RAD, median"),
    ("main", "scribe.rmd.median", "RMD, median"),
    ("main", "scribe.rdp.mean", "RDP in the largest group, mean"),
    ("main", "scribe.children_entries.mean", "entries per node, mean"),
    ("main", "scribe.messages", "messages, Scribe"),
    ("main", "scribe.link_stress.max", "link stress, maximum: Scribe"),
    ("small_groups", "scribe.children_entries.mean", "30,000 groups of 11: entries per node"),
)

_ABOUT_TABLES = """\
# Tables of a run

A Parquet folder each, in `OUT/tables/`. Columns may be added later; these keep their names, types and meaning. This page is written from `scribe_spark/schemas.py` by `make docs`.

| table | columns |
|---|---|
"""

_TABLE_NOTES = """
- `node`, `group` and `router` are whole numbers; `(id_hi, id_lo)` and `(key_hi, key_lo)` are the halves of an unsigned 128-bit number. Nodes are numbered from 0, groups from 1; without `--members` a group's number is its rank by size.
- `system` is `scribe`, `ip_multicast`, `naive_unicast`, a variant of Scribe's trees, `reference_tree`, or another system that `--systems` names.
- `links` has a row for each direction. `kind`, `domain`, `x`, `y` of `routers` are NULL where the topology has none.
- `deliveries` has a row for each member that is not the source; for the baselines a delivery is one hop.
- `latency` has a row for each publication of a system that somebody is expected to get; in a run each group has one, 0. `unit` is `ms`, and for systems by the clock of hops there are also rows in `hops`. `expected` are the members but the source, `reached` those of them that get it; `mean` (to three decimals), `p50` to `p99` (nearest rank: the ⌈q n / 100⌉-th smallest of n) and `max` are over the latter. `t50` to `t100` are the times until that share of the expected ones is reached, NULL if it never is.
- `latency_counts` has the number of deliveries whose latency is above `value` - 1 and at most `value`: summed up to a value it is exactly the number of deliveries within it, over the sum of `expected` the coverage at that time.
- Whence and when a member got its first copy: `deliveries` with the parents of `tree_edges`, or the senders of first `copies`, beside. `Run.arrivals()` returns that: system, group, publication, node, arrival_us, hops, from (NULL where the copy came on the way from a source to the root, which is in no table).
- `link_stress` has links with packets only. `kind` is `core`, `lan_up` (src is a node, dst its router) or `lan_down` (the reverse). IP multicast keeps nothing in end nodes, so its `node_stress` is zero.
- `routing_table` is written with `--write-routing-table` only, because it is large.
- What else is there is for the run's own measures, and its columns may change: `table_entries`, `arrival_messages`, `pastry_routes`, `extra_joins`, `overloaded`, `distributions`, and `knowledge` with `--write-knowledge` (`schemas.WRITTEN` has them).
"""

_NOTES_OF_ROUNDS = """
- A run with rounds ([living.md](living.md#the-papers-measures-after-failures)) also leaves `events`, as a world does. `nodes` are then those that are alive when the sources multicast, and `members`, `groups` and all others are of these (rule S33); node numbers have gaps.
"""

_ABOUT_SYSTEMS = """
## Tables of some systems

A run leaves these only where a system of the run hands them over; trees say all of it by their edges.

| table | columns |
|---|---|
"""

_NOTES_OF_SYSTEMS = """
- `copies` are those of systems whose copies form no trees, one row a copy that a node sends to a node. `kind` is `payload` or that of a control message; `hop` counts from 1 at the source's copies; `sent_ms` is NULL by the clock of hops. It has a further column `first` BOOLEAN: whether it is the first copy that its receiver gets. The copies of a tree are its `tree_edges`.
- `system_state` has how many entries of a kind a node keeps: a list of members, a mesh, neighbours. `group` is NULL where they are of no group. A tree without rows here keeps its children, as `node_stress` has them.
- `control` has how many control messages of a kind a node sends to a node while members join; `control_stress` is the link stress of these and of the copies that are no payload, while `link_stress` and `node_stress` are those of payload alone. Of Scribe each tree edge is a JOIN, the other way round.
"""

_ABOUT_PARTS = """
## Classes and regions

With classes or regions of nodes `nodes` (of a world, too) has a further column `class` or `region` STRING, and a run leaves:

| table | columns |
|---|---|
"""

_ABOUT_BYTES = """
## Bytes

A run with `message_size` leaves:

| table | columns |
|---|---|
"""

_NOTES_OF_BYTES = """
- Every node of every system has a row. A payload has the size of the publication, without headers; each copy counts at its sender (`up`) and its receiver (`down`); IP multicast's packets count at the source and at members. Control messages are those while members join and those of the publication: 27 bytes an IDONTWANT or IWANT, 61 an IHAVE, 39 a GRAFT, 41 a PRUNE (libp2p's protobufs, with a message id of 20 bytes and a topic of 32), any other one `control_size`.
"""

_ABOUT_SCHEDULES = """
## Schedules of publications

A run with `schedule` or `publications` leaves these, the second where publications have a size:

| table | columns |
|---|---|
"""

_NOTES_OF_SCHEDULES = """
- `deliveries` and `copies` have a further column `publication` BIGINT, the number in `schedule`, and `latency` has a row for each publication; delays count from the publication's own time, `sent_ms` from time 0. `copies` has those of trees and IP multicast, too, without the way from a source to the root.
- `link_stress` and `bytes` are of all publications; `node_stress` has each node that a node sends to once. Flooding, the reference tree and unicast have the edges of all their sources in `tree_edges`.
"""

_NOTES_OF_PARTS = """
- `by` is `class` or `region`; `measure` is `delay_ms` and `hops` of deliveries to the nodes of a part, or `children_tables` and `children_entries` of these nodes, or the columns of `bytes`. Percentiles are by nearest rank: the ceil(q n / 100)-th least value. Any other table is split by a join with `nodes`.
- `part_latencies` has the deliveries to the nodes of each part by their latency, as `latency_counts`: those above `value` - 1 and at most `value` ms.
"""

_ABOUT_WORLDS = """
## Tables of a world

A world leaves `routers`, `links` and `nodes`, and these, the last three of them with groups only:

| table | columns |
|---|---|
"""

_NOTES_OF_WORLDS = """
- With `--measures delay` or `link_stress` a world leaves `tree_edges` and `deliveries`, too, with the columns of a run's, of the multicasts of its last round (rule S25): Scribe's payloads that crossed an edge and the members that they reached, and for the baselines all other members. So the tables of a world of one round are those of a run. It leaves `latency` and `latency_counts` of these deliveries, too, whose `publication` is the round; `rounds` has the percentiles of every round and system.
- `memberships` has the trees after the last round; `parent` is NULL at the root and at nodes that wait for a parent.
- `watched_trees` has a few small trees (of the eight groups whose number of members at the start is nearest to 14; of at most 64 nodes) in the rounds in which something befell them: when a node with children has died, the tree `before` and `after` that round (`moment`), then after each round up to the first without an orphan. A node that died in the round is there with `alive` false and the parent that it had. An `orphan` is no root, and no live node is its parent and has it as a child.
"""

_ABOUT_TREES = """
## Tables of `scribe-spark reference-tree`

How often each value of a measure occurs; `experiment` is `events` (hosts come and go) or `scaling` (a large tree as it is), the tree has `children` children a key.

| table | columns |
|---|---|
"""


_ABOUT_COLUMNS = """
## Every column

| column | unit | meaning |
|---|---|---|
"""

_ABOUT_MEASURES = """\
# All measures

Every number of `metrics.json`, and every measure of a world's rounds, with its unit and definition. This page is written from the code by `make docs`; [concepts.md](concepts.md#the-measures) explains the main ones. `SYSTEM` is the name of a multicast system (`scribe`, `gossipsub`, ...); *figure* is the figure or section of the JSAC 2002 paper.
"""


def measures_page() -> str:
    """``docs/measures_reference.md``."""
    parts = [_ABOUT_MEASURES]
    for title, of_systems in (("Of a run", False), ("Of each system of a run", True)):
        parts.append(
            f"\n## {title}\n\n| metric | unit | figure | definition |\n|---|---|---|---|\n"
        )
        rows = {
            (_any_depth(metric.name), metric.unit, metric.figure or ""): metric.definition
            for measure in all_measures()
            for metric in measure.metrics
            if (metric.systems is not None) == of_systems
        }
        before = "SYSTEM." if of_systems else ""
        for (name, unit, figure), text in rows.items():
            text = _any_depth(text).replace("|", "\\|")
            parts.append(f"| `{before}{name}` | {unit} | {figure} | {text} |\n")
    parts.append(_of_rounds())
    return "".join(parts)


def _any_depth(text: str) -> str:
    """A name or a definition of the costs of failures, whatever the depth."""
    return re.sub(r"(depth[ _])\d+([ _](\d+|and[ _]deeper))?", r"\1D", text)


def _of_rounds() -> str:
    """The measures of the rounds of a world, those of numbers (``hops.3``) together."""
    units = {measure_of(name): unit for name, unit in summary_units().items()}
    rows = {re.sub(r"\.\d+$", ".N", name): unit for name, unit in units.items()}
    lines = [
        "\n## Of a world's rounds\n\n"
        "[living.md](living.md) explains them. A sweep also has `.first`, `.last`, `.least`, "
        "`.most` and `.steady` of each. Messages by kind (`messages.KIND`, `messages.lost KIND`) "
        "are counted for Pastry and for every system.\n\n"
        "| measure | unit | systems |\n|---|---|---|\n"
    ]
    systems = [system.name for system in all_systems()]
    merged: dict[tuple[str, str], list[str]] = {}
    for name, unit in rows.items():
        system, _, measure = name.partition(".")
        if ".messages" in f".{name}":
            continue
        if system in systems:
            merged.setdefault((f"SYSTEM.{measure}", unit), []).append(system)
        else:
            merged[name, unit] = []
    lines += [f"| `{n}` | {unit} | {', '.join(of)} |\n" for (n, unit), of in merged.items()]
    return "".join(lines)


def tables_page() -> str:
    """``docs/tables.md``."""
    of_a_world = schemas.WORLD_CONTRACT | schemas.GROUPS_CONTRACT
    contracts = (schemas.CONTRACT, of_a_world, schemas.REFERENCE_TREE_CONTRACT)
    of_runs, of_worlds, of_trees = map(_table_rows, contracts)
    runs = _ABOUT_TABLES + of_runs + _TABLE_NOTES.rstrip("\n") + _NOTES_OF_ROUNDS
    runs += _ABOUT_SYSTEMS + _table_rows(schemas.SYSTEMS_CONTRACT) + _NOTES_OF_SYSTEMS
    runs += _ABOUT_BYTES + _table_rows(schemas.BYTES_CONTRACT) + _NOTES_OF_BYTES
    runs += _ABOUT_SCHEDULES + _table_rows(schemas.SCHEDULE_CONTRACT) + _NOTES_OF_SCHEDULES
    runs += _ABOUT_PARTS + _table_rows(schemas.PARTS_CONTRACT) + _NOTES_OF_PARTS
    worlds = _ABOUT_WORLDS + of_worlds + _NOTES_OF_WORLDS
    return runs + worlds + _ABOUT_TREES + of_trees + _columns(contracts)


def _columns(contracts: Iterable[Mapping[str, Any]]) -> str:
    """The unit and the meaning of each column of the tables of some contracts."""
    tables = [
        *(schema for contract in contracts for schema in contract.values()),
        *schemas.SYSTEMS_CONTRACT.values(),
        *schemas.SCHEDULE_CONTRACT.values(),
    ]
    names = sorted({name for schema in tables for name in schema.names})
    lines = [_ABOUT_COLUMNS]
    lines += ["| `{}` | {} | {} |\n".format(name, *COLUMNS[name]) for name in names]
    return "".join(lines)


def _table_rows(contract: Mapping[str, Any]) -> str:
    return "".join(f"| `{name}` | {columns(schema)} |\n" for name, schema in contract.items())


def columns(schema: Any) -> str:
    """``node BIGINT, id_hi BIGINT``: a schema in the words of the contract."""
    return ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in schema.fields)


def configuration_page() -> str:
    """``docs/configuration.md``."""
    lines = [
        "# Configuration",
        "",
        "Every field is a flag (`leaf_set` is `--leaf-set`), a key of the TOML file that `--config`",
        "names (`leaf_set = 16`, or `[overlay]` with `leaf_set = 16`), an argument of",
        "`RunConfig(leaf_set=16)`, and can be swept. This page is written by `make docs`.",
        "",
        "| section | field | commands | type | default | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for field, commands, default in documentation():
        text = described(field)
        cells = (field.section, f"`{field.flat}`", commands, field.type, default, text)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def results_page(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return ``docs/results.md``: the published numbers in the ``metrics.json`` of ``make paper``."""
    most = max(len(row["seeds"]) for row in metrics)
    beside = {("main", row.name) for row in published_numbers(metrics)}
    rows = [
        row
        for row in metrics
        if row["paper"] is not None
        and row["value"] is not None
        and row["experiment"] != OVERLAYS["arrivals"]
        and (row["experiment"], row["name"]) not in beside
    ]
    header = ["experiment", "metric", "unit", "paper", "mean ± std", "difference"]
    cells = (
        [
            row["experiment"],
            f"`{row['name']}`",
            row["unit"],
            number(row["paper"]),
            *measured(row)[1:],
        ]
        for row in rows
    )
    return "".join(
        [
            "# Results\n\nThe numbers that JSAC 2002 publishes in Section IV, beside the mean over "
            f"{most} {'topology' if most == 1 else 'topologies'} (seeds 1 to {most}) ± the standard "
            "deviation between topologies. *Difference* is relative to the published number; "
            "[differences.md](differences.md) explains the differences. `make docs "
            "PAPER=out/paper` writes this page, and [results.csv](results.csv) with every metric "
            "of every experiment.\n",
            *_overlays(metrics),
            "\n## Other published numbers\n\n",
            "\n".join(table(header, cells)) + "\n",
        ]
    )


def results_csv(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return ``docs/results.csv``: every metric of every experiment, over its topologies."""
    lines = io.StringIO()
    names = ["experiment", "metric", "unit", "paper", "least", "mean", "greatest", "std"]
    written = csv.writer(lines, lineterminator="\n")
    written.writerow(names)
    for row in metrics:
        values = [value for value in _by_seed(row["seeds"]) if value is not None]
        if row["value"] is not None:
            of_topologies = [min(values, default=None), row["value"], max(values, default=None)]
            numbers = [row["paper"], *of_topologies, row.get("std")]
            cells = ["" if value is None else f"{value:.9g}" for value in numbers]
            written.writerow([row["experiment"], row["name"], row["unit"], *cells])
    return lines.getvalue()


def _overlays(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """The published numbers beside both overlays; nothing where only one was run."""
    numbers = published_numbers(metrics)
    if not numbers:
        return []
    counts = ", ".join(f"{count} with {overlay}" for overlay, count in met(numbers).items())
    parts = [
        "\n## Perfect routing tables, and routing tables of arrivals\n\n"
        f"Of {len(numbers)} published numbers that depend on the overlay, within 10 %: {counts}.\n\n",
        "| metric | paper |" + "".join(f" {overlay} | difference |" for overlay in OVERLAYS),
        " met by |\n|---|---|" + "---|---|" * len(OVERLAYS) + "---|\n",
    ]
    for row in numbers:
        cells = [f"`{row.name}`", row.paper]
        for overlay in OVERLAYS:
            cells += [row.measured[overlay], str(row.differences[overlay] or "")]
        parts.append("| " + " | ".join([*cells, row.verdict]) + " |\n")
    return parts


def readme_with(text: str, metrics: Sequence[Mapping[str, Any]]) -> str:
    """README.md with its table of results."""
    found = {(row["experiment"], row["name"]): row for row in metrics}
    most = max(len(row["seeds"]) for row in metrics)
    lines = [
        f"| mean over {most} topologies | paper | perfect tables | | tables of arrivals | |",
        "|---|---|---|---|---|---|",
    ]
    for experiment, name, label in _README_ROWS:
        row = found.get((experiment, name))
        if row is not None and row["value"] is not None:
            arrived = found.get((OVERLAYS["arrivals"], name)) if experiment == "main" else None
            cells = [label, number(row["paper"]), *measured(row)[1:]]
            cells += measured(arrived)[1:] if arrived and arrived["value"] is not None else ["", ""]
            lines.append("| " + " | ".join(cells) + " |")
    return with_lines(text, _RESULTS, lines)


def example_with(text: str, out: str) -> str:
    """README.md with the command of its example run, and what each phase of it told."""
    manifest = json.loads(Path(out, "manifest.json").read_text("utf-8"))
    seed = manifest["seed"]
    lines = [
        "```",
        f"$ scribe-spark run --config data/paper.toml --seed {seed} --out out/seed{seed}",
    ]
    lines += [f"{phase['name']}: done in {phase['seconds']:.1f} s" for phase in manifest["phases"]]
    return with_lines(text, _EXAMPLE, [*lines, f"out/seed{seed}", "```"])


def world_with(text: str, out: str) -> str:
    """Return README.md with what the failure of its world cost each system."""
    folder = Path(out, "tables")
    publications = pd.read_parquet(folder / "publications")
    rounds = pd.read_parquet(folder / "rounds")
    sums = publications.groupby(["system", "round"])[["expected", "in_time", "duplicates"]].sum()
    shares = (100 * sums["in_time"] / sums["expected"]).unstack("system")
    shown = range(2, 6)
    rows = []
    for system in shares:
        last = rounds[(rounds["system"] == system) & (rounds["round"] == shares.index.max())]
        of = last.set_index("measure")["value"]
        total = sums.loc[system].sum()
        cells = [f"{shares.loc[each, system]:.1f} %" for each in shown]
        cells += [number(of[f"{system}.latency.{name}"]) for name in ("p50", "p99")]
        rows.append([system, *cells, number(total["duplicates"] / total["in_time"])])
    heads = [f"in time, round {each}" for each in shown]
    heads += ["latency p50, ms (last round)", "p99, ms", "duplicates a delivery"]
    return with_lines(text, _WORLD, table(["system", *heads], rows))


def performance_with(text: str, benches: Sequence[Mapping[str, Any]]) -> str:
    """``docs/performance.md`` with its tables of benchmarks."""
    lines = [
        "| N | groups | engine | Spark master | seconds | calibration, s | calibrations "
        "| RSS, GiB | PSS, GiB | disk, GiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    steps = _phases([size for bench in benches for size in bench["sizes"]])
    for bench in benches:
        master = bench["config"]["master"]
        for size in bench["sizes"]:
            cells = (
                *(f"{size['nodes']:,}", f"{size['groups']:,}", size["engine"], f"`{master}`"),
                *(f"{size['seconds']:.0f}", f"{size['calibration']:.2f}"),
                f"{size['calibrations']:.1f}",
                *(f"{size[peak] / 2**30:.1f}" for peak in ("peak_rss", "peak_pss", "peak_disk")),
            )
            lines.append("| " + " | ".join(cells) + " |")
            steps += _steps(size)
        if bench["growth_exponent"] is not None:
            steps += ["", f"Growth exponent of the seconds in N: {bench['growth_exponent']:.2f}."]
    return with_lines(text, _BENCHES, lines + steps)


def engines_with(text: str, benches: Sequence[Mapping[str, Any]]) -> str:
    """Return the README with the seconds of both engines side by side."""
    found = {
        (size["nodes"], size["groups"], size["engine"]): size
        for bench in benches
        for size in bench["sizes"]
    }
    sizes = list(dict.fromkeys((nodes, groups) for nodes, groups, _ in found))
    rows = [
        [f"{nodes:,}", f"{groups:,}", *(_seconds(found.get((nodes, groups, e))) for e in _ENGINES)]
        for nodes, groups in sizes
    ]
    header = ["nodes", "groups", *(f"`--engine {engine}`" for engine in _ENGINES)]
    return with_lines(text, _README_BENCHES, table(header, rows))


def _seconds(size: Mapping[str, Any] | None) -> str:
    """Return the seconds of a run and their number of calibrations; empty where it is not there."""
    return "" if size is None else f"{size['seconds']:.0f} s ({size['calibrations']:.1f})"


def _phases(sizes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the seconds of each phase, side by side for all sizes and engines."""
    heads = [f"{size['nodes']:,} ({size['engine']})" for size in sizes]
    lines = ["", "| phase, seconds | " + " | ".join(heads) + " |", "|---" * (1 + len(sizes)) + "|"]
    for phases in zip(*[size["phases"] for size in sizes], strict=True):
        cells = [phases[0]["name"], *(f"{phase['seconds']:.1f}" for phase in phases)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _steps(size: Mapping[str, Any]) -> list[str]:
    """Jobs, time and shuffled bytes of the phases and supersteps of one size."""
    if "supersteps" not in size:
        return []
    lines = [
        *("", f"N = {size['nodes']:,}, phase by phase and superstep by superstep:", ""),
        "| step | seconds | messages or rows | jobs | shuffled, MiB |",
        "|---|---|---|---|---|",
    ]
    for step in (*size["phases"], *size["supersteps"]):
        name = step["name"] if "name" in step else f"{step['loop']} {step['round']}"
        rows = "" if step["rows"] is None else f"{step['rows']:,}"
        shuffled = f"{step['shuffle_written'] / 2**20:.1f}"
        lines.append(f"| {name} | {step['seconds']:.2f} | {rows} | {step['jobs']} | {shuffled} |")
    return lines


def measured(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Least to greatest, mean ± std and difference of a metric."""
    values = [value for value in _by_seed(row["seeds"]) if value is not None]
    least, greatest = (number(end(values)) if values else "" for end in (min, max))
    spread = least if least == greatest else f"{least} to {greatest}"
    std = f" ± {number(row['std'])}" if row.get("std") is not None else ""
    difference = "" if row.get("difference") is None else f"{row['difference']:+.1f} %"
    return spread, number(row["value"]) + std, difference


def _by_seed(seeds: Any) -> Iterable[float | None]:
    return seeds.values() if isinstance(seeds, Mapping) else seeds


def number(value: float | None) -> str:
    """Whole numbers from 100 on, else three digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or float(value).is_integer() else f"{value:.3g}"


def pages(
    paper: str | None,
    benches: Sequence[str],
    example: str | None = None,
    world: str | None = None,
) -> dict[Path, str]:
    """Every generated page and what it should be."""
    made = {
        ROOT / "docs" / "tables.md": tables_page(),
        ROOT / "docs" / "configuration.md": configuration_page(),
        ROOT / "docs" / "measures_reference.md": measures_page(),
    }
    readme = ROOT / "README.md"
    if paper is not None:
        metrics = json.loads(Path(paper, "metrics.json").read_text("utf-8"))
        made[ROOT / "docs" / "results.md"] = results_page(metrics)
        made[ROOT / "docs" / "results.csv"] = results_csv(metrics)
        made[readme] = readme_with(readme.read_text("utf-8"), metrics)
    if example is not None:
        made[readme] = example_with(made.get(readme) or readme.read_text("utf-8"), example)
        made[ROOT / "docs" / _FIGURE] = Path(example, "figures", _FIGURE).read_text("utf-8")
    if world is not None:
        made[readme] = world_with(made.get(readme) or readme.read_text("utf-8"), world)
    if benches:
        page = ROOT / "docs" / "performance.md"
        found = [json.loads(Path(bench).read_text("utf-8")) for bench in benches]
        made[page] = performance_with(page.read_text("utf-8"), found)
        made[readme] = engines_with(made.get(readme) or readme.read_text("utf-8"), found)
    return made


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Write the generated pages of the documentation.")
    parser.add_argument("--paper", metavar="OUT", help="folder that `make paper` wrote")
    parser.add_argument("--example", metavar="OUT", help="folder that README's example wrote")
    parser.add_argument("--world", metavar="OUT", help="folder that README's world wrote")
    parser.add_argument("--bench", nargs="+", default=[], metavar="FILE", help="of `make bench`")
    parser.add_argument("--check", action="store_true", help="write nothing, name what is old")
    given = parser.parse_args(arguments)
    made = pages(given.paper, given.bench, given.example, given.world)
    old = [p for p, text in made.items() if not p.exists() or p.read_text("utf-8") != text]
    for path in old:
        print(("old: " if given.check else "written: ") + str(path.relative_to(ROOT)))
        if not given.check:
            replace_file(path, made[path].encode())
    return 1 if old and given.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
