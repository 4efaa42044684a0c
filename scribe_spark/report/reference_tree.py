"""The experiments on the reference tree: numbers beside published ones, and the page.

The page has Figures 3 and 4, larger degrees, and large trees.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.measures.published import check_range
from scribe_spark.report import page
from scribe_spark.report.charts import Axis, Panel, draw, line_of
from scribe_spark.report.comparison import check_verdict
from scribe_spark.report.style import as_text, marked_style, short_number

if TYPE_CHECKING:
    import pandas as pd
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

_POINT = ["experiment", "hosts", "bits", "children", "assignment"]


def reference_tree_metrics(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return all numbers in the table `schemas.REFERENCE_TREE` as rows of `metrics.json`."""
    found: list[dict[str, Any]] = []
    for key, point in rows.groupby(_POINT, sort=False):
        experiment, hosts, bits, children, assignment = key
        prefix = f"{experiment}.n{hosts}.c{children}"
        is_papers = experiment == "events" and (bits, children, assignment) == (8, 2, "chord")
        is_papers = is_papers and 10 <= hosts <= 120
        for measure, counts in point.groupby("measure", sort=True):
            found += _metrics_of(prefix, str(measure), counts, children, is_papers)
        if experiment == "scaling":
            found.append(_metric(f"{prefix}.log2_hosts", math.log2(hosts), "hops", None))
    return found


def _metrics_of(
    prefix: str, measure: str, counts: pd.DataFrame, children: int, is_papers: bool
) -> list[dict[str, Any]]:
    total = counts["count"].sum()
    mean = float((counts["value"] * counts["count"]).sum() / total)
    kind = measure.split(".")[0]
    unit = _UNITS.get(kind, "hosts" if kind.startswith("area") else "")
    figure = {"degree": "3", "area": "4", "area_without": "4"}.get(kind)
    known = {"check": CHECKED_AREAS[kind], "note": _NOTE} if kind in CHECKED_AREAS else {}
    found = [
        _metric(f"{prefix}.{measure}.mean", mean, unit, figure, **(known if is_papers else {})),
        _metric(f"{prefix}.{measure}.max", int(counts["value"].max()), unit, figure),
    ]
    if measure == "degree":
        shares = counts.set_index("value")["count"] / total
        for degree in range(1, min(children + 2, 5)):
            known = {"check": CHECKED_DEGREES[degree]} if degree in CHECKED_DEGREES else {}
            name = f"{prefix}.degree.{degree}"
            share = float(shares.get(degree, 0.0))
            known = known if is_papers else {}
            found.append(_metric(name, share, "of hosts", figure, **known))
        above = float(shares[shares.index > children + 1].sum())
        found.append(_metric(f"{prefix}.degree.above_bound", above, "of hosts", figure))
    return found


def _metric(name: str, value: float, unit: str, figure: str | None, **known: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "paper": None, "figure": figure, **known}


# --- the page


#: Up to this number of numbers, their table is unfolded.
_MOST_OPEN = 40

#: The two ways to count a reconfiguration area.
_AREAS = {
    "area": "with the host that came or went",
    "area_without": "without it",
}

#: The measures of lookups that Pastry has routed.
_ROUTED = {what: (f"parent_lookup_{what}", f"child_lookup_{what}") for what in ("hops", "delay")}


def render_reference_tree(
    rows: pd.DataFrame, metrics: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> page.Report:
    """Return the page and the figures of the experiments, from rows of values and metrics."""
    sections = [
        page.PageSection(f"section-{number}", title, [intro, page.Figures(drawn)], count=len(drawn))
        for number, (title, intro, drawn) in enumerate(
            (
                (title, intro, [draw(panel) for panel in panels])
                for title, intro, panels in (
                    ("The paper's experiment", _HELD, _papers(rows)),
                    ("Larger degrees", _CONJECTURE, _conjectured(rows)),
                    ("Large trees", "Hosts with random 128-bit ids.", _large(rows)),
                )
                if panels
            ),
            start=1,
        )
    ]
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
    is_open, table = len(rows) <= _MOST_OPEN, page.PageTable(heads, rows)
    folded = page.Folded(f"{len(rows)} numbers", [table], is_open)
    return page.PageSection("numbers", "Numbers", [_NAMES, folded])


def _cards(metrics: Sequence[Mapping[str, Any]]) -> list[page.Card]:
    """Return a card: how many values are in the ranges of the independent check."""
    checked = [metric for metric in metrics if metric.get("check")]
    if not checked:
        return []
    inside = sum(not check_verdict(metric) for metric in checked)
    title, what = "Independent check", "numbers in the ranges of a second implementation"
    return [page.Card(title, f"{inside} of {len(checked)}", what, "#0072b2")]


# --- the drawings


def _papers(rows: pd.DataFrame) -> list[Panel]:
    """Return the panels of Figures 3 and 4, for the least number of children."""
    events = rows[rows["experiment"] == "events"]
    if not len(events):
        return []
    mine = events[events["children"] == events["children"].min()]
    bits, children, assignment = (mine[name].iloc[0] for name in ("bits", "children", "assignment"))
    checked = (bits, children, assignment) == (8, 2, "chord")
    shares = _shares(mine)
    lines = {f"degree {degree}": shares[degree] for degree in shares}
    checks = {f"degree {d}": text for d, text in CHECKED_DEGREES.items()}
    found = [
        hosts_panel("figure-3-degrees", "Figure 3: degrees", "share of hosts", lines,
                checks if checked else {})
    ]  # fmt: skip
    for event, words in (("connection", "connections"), ("disconnection", "disconnections")):
        lines = {
            label: mean
            for measure, label in _AREAS.items()
            if len(mean := _means(mine, f"{measure}.{event}"))
        }
        checks = {_AREAS[name]: text for name, text in CHECKED_AREAS.items()}
        title = f"Figure 4: reconfiguration area, {words}"
        if lines:
            name = f"figure-4-area-{words}"
            found.append(hosts_panel(name, title, "hosts", lines, checks if checked else {}))
    return found


def _conjectured(rows: pd.DataFrame) -> list[Panel]:
    """Return panels of areas and of hosts above the bound, a line for each number of children."""
    events = rows[rows["experiment"] == "events"]
    if events["children"].nunique() < 2:
        return []
    of = dict(list(events.groupby("children")))
    found = []
    for event in ("connection", "disconnection"):
        lines = {f"{c} children": _means(mine, f"area.{event}") for c, mine in of.items()}
        lines = {label: line for label, line in lines.items() if len(line)}
        if lines:
            title = f"Reconfiguration area with the host, {event}s"
            found.append(hosts_panel(f"degrees-area-{event}s", title, "hosts", lines))
    above = {
        f"{c} children": _shares(mine).loc[:, lambda t, c=c: t.columns > c + 1].sum(axis=1)
        for c, mine in of.items()
    }
    title = "Hosts with more neighbours than a key"
    found.append(hosts_panel("degrees-above-bound", title, "share of hosts", above))
    return found


def _large(rows: pd.DataFrame) -> list[Panel]:
    """Return panels of the degrees, depths and lookups of large trees."""
    large = rows[rows["experiment"] == "scaling"]
    found = []
    for c, mine in large.groupby("children"):
        shares = _shares(mine)
        few = [degree for degree in shares if degree <= min(c + 1, 4)]
        lines = {f"degree {degree}": shares[degree] for degree in few}
        name, title = f"scaling-degrees-{c}", f"Degrees, {c} children"
        found.append(hosts_panel(name, title, "share of hosts", lines, logarithmic=True))
    of = dict(list(large.groupby("children")))
    if of:
        lines = {f"{c} children, mean": _means(mine, "depth") for c, mine in of.items()}
        lines |= {
            f"{c} children, maximum": _of_measure(mine, "depth").groupby("hosts")["value"].max()
            for c, mine in of.items()
        }
        hosts = np.unique(large["hosts"])
        lines["log2 N"] = pd.Series(np.log2(hosts), index=hosts)
        found.append(
            hosts_panel("scaling-depth", "Depth of hosts", "hops", lines, logarithmic=True)
        )
        areas = {f"{c} children": _means(_area(mine), "area") for c, mine in of.items()}
        areas = {label: line for label, line in areas.items() if len(line)}
        if areas:
            title = "Reconfiguration area with the host, of connections and disconnections together"
            found.append(hosts_panel("scaling-area", title, "hosts", areas, logarithmic=True))
        for measures, name, title, unit in (
            (("parent_lookups", "child_lookups"), "scaling-lookups", "Look-ups", "per host"),
            (_ROUTED["hops"], "scaling-lookup-hops", "Look-ups over Pastry", "hops, mean"),
            (_ROUTED["delay"], "scaling-lookup-delay", "Look-ups over Pastry", "ms, mean"),
        ):
            lines = {
                f"{c} children, {measure.replace('_', ' ')}": mean
                for c, mine in of.items()
                for measure in measures
                if len(mean := _means(mine, measure))
            }
            if lines:
                found.append(hosts_panel(name, title, unit, lines, logarithmic=True))
    return found


def _area(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with one measure of areas, in place of two for the kinds of event.

    A large tree has few events, so the mean area is over connections and disconnections.
    """
    of_events = rows["measure"].isin(["area.connection", "area.disconnection"])
    return rows[of_events].assign(measure="area")


def _of_measure(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    return rows[rows["measure"] == measure]


def _means(rows: pd.DataFrame, measure: str) -> pd.Series:
    """Return the mean of a measure, by number of hosts."""
    mine = _of_measure(rows, measure)
    total = (mine["value"] * mine["count"]).groupby(mine["hosts"]).sum()
    return total / mine["count"].groupby(mine["hosts"]).sum()


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of hosts of each degree (columns), by number of hosts."""
    counts = _of_measure(rows, "degree").pivot_table(
        index="hosts", columns="value", values="count", aggfunc="sum", fill_value=0
    )
    return counts.div(counts.sum(axis=1), axis=0)


def _bounds(text: str) -> tuple[float, float]:
    """Return the bounds of a range such as ``24-39 %``, widened by half a unit for rounding."""
    bounds = check_range(text.removesuffix(" %"))
    assert bounds is not None
    scale = 0.01 if text.endswith("%") else 1.0
    return bounds[0] * scale, bounds[1] * scale


def hosts_panel(
    name: str,
    title: str,
    unit: str,
    lines: Mapping[str, pd.Series],
    checks: Mapping[str, str] | None = None,
    logarithmic: bool = False,
) -> Panel:
    """Return the panel of lines over the number of hosts.

    Parameters
    ----------
    lines : mapping of str to Series
        Label -> values by number of hosts.
    checks : mapping of str to str, optional
        Label -> a range such as ``24-39 %``, which is shaded.
    logarithmic : bool
        True for a logarithmic axis of the numbers of hosts.
    """
    looks = {label: marked_style(number) for number, label in enumerate(lines)}
    ranges = {label: text for label, text in (checks or {}).items() if label in lines}

    def marks(axes: Axes) -> None:
        for label, text in ranges.items():
            axes.axhspan(*_bounds(text), color=looks[label]["color"], alpha=0.12, linewidth=0)

    numbers = {hosts for line in lines.values() for hosts in line.index}
    across = (
        Axis("hosts", scale="log", ticks=12, tick=short_number) if logarithmic else Axis("hosts")
    )
    if len(numbers) == 1:
        across = Axis("hosts", named={hosts: short_number(hosts) for hosts in numbers})
    top = max(float(line.max()) for line in lines.values())
    return Panel(
        *(name, title, "hosts"),
        [line_of(label, looks[label], line.index, line) for label, line in lines.items()],
        across,
        Axis(unit, 0, top * 1.15 or 1, ticks=5),
        " ".join(_line_words(label, line, ranges.get(label, "")) for label, line in lines.items()),
        lambda hosts: f"{as_text(hosts)} hosts",
        marks=marks,
        unit=unit,
        tables=("reference_tree",),
    )


def _line_words(label: str, line: pd.Series, check: str) -> str:
    """Return words with the first and the last value of a line, and the independent check."""
    ends = [f"{as_text(float(line.iloc[at]))} at {line.index[at]:,} hosts" for at in (0, -1)]
    text = f"{label}: {ends[0]}" + (f", {ends[1]}." if len(line) > 1 else ".")
    return text + (f" Independent check: {check.replace('-', ' to ')}." if check else "")
