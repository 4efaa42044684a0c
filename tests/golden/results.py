"""The results of a run's folder as digests, and how two of them differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from table_digest import columns_of, digest_table, read_folder

#: Columns of each table by which results are compared; None for all that were recorded.
TABLES: dict[str, tuple[str, ...] | None] = {
    "routers": ("router", "kind", "domain", "x", "y"),
    "links": ("src", "dst", "delay_ms", "weight"),
    "nodes": ("node", "id_hi", "id_lo", "router"),
    "routing_table": ("node", "row", "col", "entry"),
    "table_entries": None,
    "groups": ("group", "key_hi", "key_lo", "size", "root"),
    "members": ("group", "node"),
    "pastry_routes": None,
    "tree_edges": ("system", "group", "parent", "child"),
    "deliveries": ("system", "group", "node", "hops", "delay_ms"),
    "extra_joins": None,
    "overloaded": None,
    "node_stress": ("system", "node", "children_tables", "children_entries"),
    "link_stress": ("system", "kind", "src", "dst", "packets"),
    "group_delay": ("system", "group", "size", "rad", "rmd"),
    "distributions": None,
    "latency": None,
    "latency_counts": None,
    # of worlds; what :mod:`worlds` adds begins with ``stepped``
    "events": ("round", "node", "event", "group"),
    "rounds": ("round", "system", "measure", "value"),
    "publications": None,
    "memberships": ("group", "node", "parent", "member", "root"),
    "watched_trees": None,
    "stepped_measures": None,
    "stepped_lookups": None,
    "stepped_new_leafs": None,
    "stepped_publications": None,
    "stepped_state": None,
    "stepped_leaf_sets": None,
    "stepped_cells": None,
    "stepped_memberships": ("group", "node", "parent", "member", "root"),
    "stepped_children": ("group", "parent", "child"),
}

#: Tables that are not compared: a world's state as it is saved, in the code's own form.
OWN = {"state_even", "state_odd"}

#: The value of what is not there; NULL is a value of metrics.
ABSENT = "(absent)"

#: Table -> column -> Arrow type.
Columns = dict[str, dict[str, str]]


def read_results(out: Path, columns: Columns) -> dict[str, Any]:
    """Return the digests of tables (``rows, sha256``) and the metrics of a run, by name.

    Tables that are not in `columns` are left out.
    """
    tables = {
        name: digest_table(read_folder(out / "tables" / name), columns[name])
        for name in _tables(out)
        if name in columns
    }
    metrics = out / "metrics.json"  # a world has none
    rows = json.loads(metrics.read_text()) if metrics.exists() else []
    return {"tables": tables, "metrics": {row["name"]: row["value"] for row in rows}}


def choose_columns(out: Path, chosen: Columns) -> Columns:
    """Add the columns of a run's tables to `chosen`; refuse a table that :data:`TABLES` lacks."""
    found = {}
    for name in _tables(out):
        if name not in TABLES:
            raise ValueError(f"{out} has a table that is not compared: {name}")
        types = columns_of(read_folder(out / "tables" / name))
        found[name] = {column: types[column] for column in TABLES[name] or types}
    return found | chosen


def _tables(out: Path) -> list[str]:
    folders = (folder for folder in (out / "tables").iterdir() if folder.is_dir())
    return sorted(folder.name for folder in folders if folder.name not in OWN)


@dataclass(frozen=True)
class Difference:
    """A table or metric that is not as recorded; :data:`ABSENT` where there is nothing."""

    part: str  # `tables` or `metrics`
    name: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        kind = self.part.removesuffix("s")
        return f"{kind} {self.name}: {_shown(self.recorded)} recorded, {_shown(self.found)} now"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        digest = value["sha256"]
        return f"{value['rows']:,} rows {digest if ' ' in digest else digest[:12]}"
    return str(value)


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> Iterator[Difference]:
    """Yield each table and metric that was recorded and is not the same now.

    What was not recorded is not compared: tables and metrics may be added.
    """
    for part in ("tables", "metrics"):
        for name, value in recorded[part].items():
            now = found[part].get(name, ABSENT)
            if now != value:
                yield Difference(part, name, value, now)
