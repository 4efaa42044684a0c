"""The experiments on the reference tree: numbers beside published ones, and the page.

The page has Figures 3 and 4, larger degrees, and large trees.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.measures.published import check_range
from scribe_spark.report import page
from scribe_spark.report.charts import Axis, Panel, draw, from_zero, lines_panel
from scribe_spark.report.comparison import check_verdict
from scribe_spark.report.style import as_text, marked_style, short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# --- the numbers

#: The shares of hosts of each degree in an independent simulation with 10 to 120 hosts.
CHECKED_DEGREES = {1: "39 %", 2: "24-39 %", 3: "21-37 %"}

#: The mean sizes of the reconfiguration area in that simulation, with and without the host that
#: arrived or left.
CHECKED_AREAS = {"area": "3.2-3.6", "area_without": "2.2-2.6"}

_NOTE = 'the paper: "between two and three"'

_UNITS = {
    "degree": "neighbours",
    "depth": "hops",
    "key_depth": "hops",
    "links": "links",
    "hosts": "hosts that compute anew",
    "faults": "trees",
    "rounds": "rounds",
    **dict.fromkeys(("parent_lookup_hops", "child_lookup_hops"), "hops"),
    **dict.fromkeys(("parent_lookup_delay", "child_lookup_delay"), "ms"),
    **dict.fromkeys(("parent_lookups", "child_lookups", "repeated_lookups", "notices"), "messages"),
}

_FIGURES = {"degree": "3", "area": "4", "area_without": "4"}

_POINT = ["experiment", "hosts", "bits", "children", "assignment"]


def reference_tree_metrics(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return all numbers in the table `schemas.REFERENCE_TREE` as rows of `metrics.json`."""
    found: list[dict[str, Any]] = []
    for key, point in rows.groupby(_POINT, sort=False):
        experiment, hosts, _, children, _ = key
        prefix = f"{experiment}.n{hosts}.c{children}"
        is_papers = experiment == "events" and _is_papers(point) and 10 <= hosts <= 120
        for measure, counts in point.groupby("measure", sort=True):
            found += _metrics_of(prefix, str(measure), counts, children, is_papers)
        if experiment == "scaling":
            found.append(_metric(f"{prefix}.log2_hosts", math.log2(hosts), "hops", None))
    return found


def _is_papers(rows: pd.DataFrame) -> bool:
    """Return True for rows with the settings of the paper, which the independent check has."""
    return tuple(rows[["bits", "children", "assignment"]].iloc[0]) == (8, 2, "chord")


def _metrics_of(
    prefix: str, measure: str, counts: pd.DataFrame, children: int, is_papers: bool
) -> Iterator[dict[str, Any]]:
    total = counts["count"].sum()
    mean = float((counts["value"] * counts["count"]).sum() / total)
    kind = measure.split(".")[0]
    unit = _UNITS.get(kind, "hosts" if kind.startswith("area") else "")
    figure, known = _FIGURES.get(kind), {}
    if is_papers and kind in CHECKED_AREAS:
        known = {"check": CHECKED_AREAS[kind], "note": _NOTE}
    yield _metric(f"{prefix}.{measure}.mean", mean, unit, figure, **known)
    yield _metric(f"{prefix}.{measure}.max", int(counts["value"].max()), unit, figure)
    if measure == "degree":
        shares = counts.set_index("value")["count"] / total
        for degree in range(1, min(children + 2, 5)):
            is_checked = is_papers and degree in CHECKED_DEGREES
            known = {"check": CHECKED_DEGREES[degree]} if is_checked else {}
            share = float(shares.get(degree, 0.0))
            yield _metric(f"{prefix}.degree.{degree}", share, "of hosts", figure, **known)
        above = float(shares[shares.index > children + 1].sum())
        yield _metric(f"{prefix}.degree.above_bound", above, "of hosts", figure)


def _metric(name: str, value: float, unit: str, figure: str | None, **known: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "paper": None, "figure": figure, **known}


# --- the page


#: Up to this number of numbers, their table is unfolded.
_MOST_OPEN = 40


def render_reference_tree(
    rows: pd.DataFrame, metrics: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> page.Report:
    """Return the page and the figures of the experiments, from rows of values and metrics."""
    parts = (
        ("The paper's experiment", _HELD, _papers(rows)),
        ("Larger degrees", _CONJECTURE, _conjectured(rows)),
        ("Large trees", "Hosts with random 128-bit ids.", _large(rows)),
    )
    sections: list[page.PageSection] = []
    for title, intro, panels in parts:
        if of := [*map(draw, panels)]:
            name, figures = f"section-{len(sections) + 1}", page.Figures(of)
            sections.append(page.PageSection(name, title, [intro, figures], count=len(of)))
    facts = page.NamedValues(page.facts(manifest), "facts")
    return page.make_page(
        "The reference tree over a DHT",
        [_PAPER, facts, page.Cards(_cards(metrics))],
        [page.HOW_TO_READ, *sections, _numbers(metrics), page.provenance(manifest)],
    )


_HELD = (
    "Hosts are held constant: a connection, then a disconnection. Shaded: the ranges of an "
    "independent check, over 10 to 120 hosts."
)
_CONJECTURE = "The paper conjectures the same of trees with more children."
_PAPER = (
    "A simulation of Section 4 of P. Costa and D. Frey, “Publish-Subscribe Tree Maintenance over a "
    "DHT”."
)
_NAMES = (
    "A name consists of the experiment, the number of hosts (n), the number of children (c), and "
    "the measure. The paper says that a reconfiguration contacts “between two and three” hosts on "
    "average."
)


def _numbers(metrics: Sequence[Mapping[str, Any]]) -> page.PageSection:
    """Return the section of all numbers."""
    heads = ("Number", "Measured", page.Cell("Unit", look=""), "Independent check")
    rows = [
        (
            page.Cell(code=row["name"]),
            as_text(row["value"]),
            page.Cell(row["unit"], look=""),
            row.get("check") or "",
        )
        for row in metrics
    ]
    table = page.PageTable(heads, rows)
    folded = page.Folded(f"{len(rows)} numbers", [table], len(rows) <= _MOST_OPEN)
    return page.PageSection("numbers", "Numbers", [_NAMES, folded])


def _cards(metrics: Sequence[Mapping[str, Any]]) -> list[page.Card]:
    """Return a card: how many values are in the ranges of the independent check."""
    checked = [metric for metric in metrics if metric.get("check")]
    inside = sum(not check_verdict(metric) for metric in checked)
    title, what = "Independent check", "numbers in the ranges of a second implementation"
    card = page.Card(title, f"{inside} of {len(checked)}", what, "#0072b2")
    return [card] if checked else []


# --- the drawings: lines of measures by number of hosts

_AREA = "Reconfiguration area with the host"

#: The lines of large trees: name, title, unit, and each measure with the words of its lines.
_OF_LARGE = (
    ("scaling-area", f"{_AREA}, of connections and disconnections together", "hosts",
     {"area": ""}),
    ("scaling-lookups", "Look-ups", "per host",
     {name: f", {name.replace('_', ' ')}" for name in ("parent_lookups", "child_lookups")}),
    *((f"scaling-lookup-{what}", "Look-ups over Pastry", f"{unit}, mean",
       {f"{end}_lookup_{what}": f", {end} lookup {what}" for end in ("parent", "child")})
      for what, unit in (("hops", "hops"), ("delay", "ms"))),
)  # fmt: skip


def _papers(rows: pd.DataFrame) -> Iterator[Panel]:
    """Yield the panels of Figures 3 and 4, for the least number of children."""
    events = rows[rows["experiment"] == "events"]
    mine = events[events["children"] == events["children"].min()]
    if not len(mine):
        return
    is_checked = _is_papers(mine)
    lines = {f"degree {degree}": share for degree, share in _shares(mine).items()}
    checks = {f"degree {d}": text for d, text in CHECKED_DEGREES.items()} if is_checked else {}
    yield from hosts_panels(
        "figure-3-degrees", "Figure 3: degrees", "share of hosts", lines, checks
    )
    labels = {"area": "with the host that came or went", "area_without": "without it"}
    checks = {labels[name]: text for name, text in CHECKED_AREAS.items()} if is_checked else {}
    for event in ("connection", "disconnection"):
        lines = {label: _means(mine, f"{of}.{event}") for of, label in labels.items()}
        title = f"Figure 4: reconfiguration area, {event}s"
        yield from hosts_panels(f"figure-4-area-{event}s", title, "hosts", lines, checks)


def _conjectured(rows: pd.DataFrame) -> Iterator[Panel]:
    """Yield panels of areas and of hosts above the bound, a line for each number of children."""
    of = dict(list(rows[rows["experiment"] == "events"].groupby("children")))
    if len(of) < 2:
        return
    for event in ("connection", "disconnection"):
        lines = {f"{c} children": _means(mine, f"area.{event}") for c, mine in of.items()}
        yield from hosts_panels(f"degrees-area-{event}s", f"{_AREA}, {event}s", "hosts", lines)
    above = {
        f"{c} children": _shares(mine).loc[:, lambda t, c=c: t.columns > c + 1].sum(axis=1)
        for c, mine in of.items()
    }
    title = "Hosts with more neighbours than a key"
    yield from hosts_panels("degrees-above-bound", title, "share of hosts", above)


def _large(rows: pd.DataFrame) -> Iterator[Panel]:
    """Yield panels of the degrees, depths and lookups of large trees."""
    large = rows[rows["experiment"] == "scaling"]
    # a large tree has few events, so the mean area is over connections and disconnections
    large = large.replace({"measure": {f"area.{of}connection": "area" for of in ("", "dis")}})
    of = dict(list(large.groupby("children")))
    if not of:
        return
    for c, mine in of.items():
        shares = _shares(mine)
        lines = {f"degree {n}": shares[n] for n in shares if n <= min(c + 1, 4)}
        name, title = f"scaling-degrees-{c}", f"Degrees, {c} children"
        yield from hosts_panels(name, title, "share of hosts", lines, is_log=True)
    lines = {f"{c} children, mean": _means(mine, "depth") for c, mine in of.items()}
    lines |= {
        f"{c} children, maximum": mine[mine["measure"] == "depth"].groupby("hosts")["value"].max()
        for c, mine in of.items()
    }
    hosts = np.unique(large["hosts"])
    lines["log2 N"] = pd.Series(np.log2(hosts), index=hosts)
    yield from hosts_panels("scaling-depth", "Depth of hosts", "hops", lines, is_log=True)
    for name, title, unit, measures in _OF_LARGE:
        lines = {
            f"{c} children{words}": _means(mine, measure)
            for c, mine in of.items()
            for measure, words in measures.items()
        }
        yield from hosts_panels(name, title, unit, lines, is_log=True)


def _means(rows: pd.DataFrame, measure: str) -> pd.Series:
    """Return the mean of a measure, by number of hosts."""
    mine = rows[rows["measure"] == measure]
    total = (mine["value"] * mine["count"]).groupby(mine["hosts"]).sum()
    return total / mine["count"].groupby(mine["hosts"]).sum()


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of hosts of each degree (columns), by number of hosts."""
    counts = rows[rows["measure"] == "degree"].pivot_table(
        index="hosts", columns="value", values="count", aggfunc="sum", fill_value=0
    )
    return counts.div(counts.sum(axis=1), axis=0)


def _bounds(text: str) -> tuple[float, float]:
    """Return the bounds of a range such as ``24-39 %``, widened by half a unit for rounding."""
    bounds = check_range(text.removesuffix(" %"))
    assert bounds is not None
    scale = 0.01 if text.endswith("%") else 1.0
    return bounds[0] * scale, bounds[1] * scale


def hosts_panels(
    name: str,
    title: str,
    unit: str,
    lines: Mapping[str, pd.Series],
    checks: Mapping[str, str] | None = None,
    is_log: bool = False,
) -> Iterator[Panel]:
    """Yield the panel of lines (label -> values by number of hosts), if a line has values.

    `checks` has ranges such as ``24-39 %`` by label, which are shaded; the axis of the numbers of
    hosts is logarithmic if `is_log`.
    """
    lines = {label: line for label, line in lines.items() if len(line)}
    if not lines:
        return
    looks = {label: marked_style(number) for number, label in enumerate(lines)}
    ranges = {label: text for label, text in (checks or {}).items() if label in lines}

    def marks(axes: Axes) -> None:
        for label, text in ranges.items():
            axes.axhspan(*_bounds(text), color=looks[label]["color"], alpha=0.12, linewidth=0)

    numbers = {hosts for line in lines.values() for hosts in line.index}
    across = Axis("hosts", scale="log", ticks=12, tick=short_number) if is_log else Axis("hosts")
    if len(numbers) == 1:
        across = Axis("hosts", named={hosts: short_number(hosts) for hosts in numbers})
    panel = lines_panel(
        *("hosts", name, title, lines, across, from_zero(unit, lines)),
        lambda hosts: f"{as_text(hosts)} hosts",
        looks=looks,
        marks=marks,
        unit=unit,
        tables=("reference_tree",),
    )
    told = (f"{label}: {text.replace('-', ' to ')}" for label, text in ranges.items())
    checked = f" Independent check: {', '.join(told)}." if ranges else ""
    yield replace(panel, words=panel.words + checked)
