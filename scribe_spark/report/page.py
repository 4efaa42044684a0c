"""The report page: one self-contained HTML file, filled from a template.

Values come from users (paths, names) and are escaped by the template; only the drawings, which are
made here, enter it as markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import pandas as pd

from scribe_spark.report.figures import FIGURES, FigureSpec, draw, shown

__all__ = ["Difference", "Report", "difference", "render"]

#: A difference from the paper beyond this many per cent is pointed out.
NOTABLE = 10.0

_PERCENT = "\N{NO-BREAK SPACE}%"
_ABSENT = "\N{EN DASH}"
_ABBREVIATIONS = ("ip", "rad", "rmd", "rdp")


@dataclass(frozen=True)
class Report:
    """A run's report.

    Attributes
    ----------
    html : str
        The page.
    figures : dict of str to str
        The SVG of each figure, by a name such as ``figure-07-delay-penalty``.
    """

    html: str
    figures: dict[str, str]


@dataclass(frozen=True)
class Difference:
    """How far a measured number is from the published one, in per cent of the published."""

    percent: float

    @property
    def notable(self) -> bool:
        """Whether it is pointed out."""
        return abs(self.percent) > NOTABLE

    @property
    def words(self) -> str:
        """Such as ``over 10 % below``; empty where it is not notable."""
        if not self.notable:
            return ""
        return f"over {NOTABLE:g}{_PERCENT} {'above' if self.percent > 0 else 'below'}"

    def __str__(self) -> str:
        shown = f"{self.percent:+,.1f}".replace("-", "\N{MINUS SIGN}")
        return ("0" if shown[1:] == "0.0" else shown) + _PERCENT


@dataclass(frozen=True)
class _Row:
    experiment: str
    what: str
    name: str
    measured: str
    spread: str
    unit: str
    paper: str
    difference: Difference | None
    check: str
    note: str


@dataclass(frozen=True)
class _Section:
    title: str
    rows: list[_Row]


@dataclass(frozen=True)
class _Topologies:
    """The numbers of one experiment: for each a row, and its values in the order of `seeds`."""

    title: str
    seeds: list[str]
    rows: list[tuple[_Row, list[str]]]


def render(
    metrics: Sequence[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    distributions: pd.DataFrame,
) -> Report:
    """Draw the figures and write the page.

    Parameters
    ----------
    metrics : sequence of mappings
        ``name, value, unit, paper, figure``; value, paper and figure may be None.  Optional:
        ``check`` (the independent check's range, as text) and ``note``; of several topologies
        ``experiment``, ``std`` and ``seeds`` (each seed's value), `value` being the mean.  Rows
        keep their order; the first of each figure that has a published value is one of the
        headline numbers.
    manifest : mapping
        ``config, resolved, versions, seed, phases, machine``, any of them absent.
    distributions : DataFrame
        ``figure, system, measure, value, count``: how many things (groups, nodes, links) have each
        value.  For Figure 6 value is the rank and count the group's size.

    Returns
    -------
    Report
    """
    from markupsafe import Markup

    drawings = [draw(spec, distributions) for spec in shown(distributions)]
    sections = _sections(metrics)
    differences = [row.difference for section in sections for row in section.rows]
    compared = [difference for difference in differences if difference is not None]
    html = _fill(
        "template.html",
        facts=_facts(manifest),
        headlines=[row for section in sections for row in _headline(section)],
        compared=len(compared),
        near=sum(not difference.notable for difference in compared),
        notable=f"{NOTABLE:g}{_PERCENT}",
        figures=[
            (drawing, Markup(drawing.svg), _deviations(drawing.spec, metrics))
            for drawing in drawings
        ],
        sections=sections,
        topologies=_topologies(metrics),
        settings=_settings(manifest),
        origin=_origin(manifest),
        phases=_phases(manifest),
    )
    return Report(html, {drawing.spec.name: drawing.svg for drawing in drawings})


def _fill(template: str, **values: Any) -> str:
    """A template with every value escaped but those that are markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("scribe_spark.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


# Measured against published -----------------------------------------------------------------------


def _sections(metrics: Iterable[Mapping[str, Any]]) -> list[_Section]:
    """The rows by experiment and figure, in the paper's order; those of no figure come last."""
    grouped: dict[str, dict[str, list[_Row]]] = {}
    for metric in metrics:
        figure = metric.get("figure")
        of = grouped.setdefault(_experiment(metric), {})
        of.setdefault("" if figure is None else str(figure), []).append(_row(metric))

    def order(figure: str) -> tuple[bool, float]:
        return figure == "", float(figure) if figure.isdecimal() else math.inf

    return [
        _Section(f"{experiment}. {title}" if experiment else title, of[figure])
        for experiment, of in grouped.items()
        for figure, title in ((f, _section_title(f)) for f in sorted(of, key=order))
    ]


def _experiment(metric: Mapping[str, Any]) -> str:
    """Its name for readers; empty for the rows of a single run."""
    return _readable(str(metric.get("experiment") or ""))


def _section_title(figure: str) -> str:
    titles = {spec.number: f"Figure {spec.number}: {spec.title}" for spec in FIGURES}
    unnamed = f"Figure {figure}" if figure.isdecimal() else figure or "Other measures"
    return titles.get(figure, unnamed)


def _deviations(spec: FigureSpec, metrics: Iterable[Mapping[str, Any]]) -> str:
    """The average standard deviations, as under the paper's figures; empty of a single run."""
    figure = [metric for metric in metrics if str(metric.get("figure")) == spec.number]
    known = {metric.get("name"): metric for metric in figure}
    found = [(s.label, known[s.deviation_name]) for s in spec.series if s.deviation_name in known]
    words = [
        f"{label} {_text(row.get('value'))}"
        + ("" if row.get("paper") is None else f" (paper: {_text(row['paper'])})")
        for label, row in found
    ]
    return f"Average standard deviation: {', '.join(words)}." if words else ""


def _topologies(metrics: Iterable[Mapping[str, Any]]) -> list[_Topologies]:
    """Each experiment's numbers, seed by seed; none of a single run."""
    tables: dict[str, _Topologies] = {}
    for metric in metrics:
        seeds = _mapping(metric.get("seeds"))
        if seeds:
            title = _experiment(metric)
            table = tables.setdefault(title, _Topologies(title, [], []))
            table.seeds.extend(seed for seed in seeds if seed not in table.seeds)
            values = [_text(seeds.get(seed)) for seed in table.seeds]
            table.rows.append((_row(metric), values))
    return list(tables.values())


def _row(metric: Mapping[str, Any]) -> _Row:
    value, paper = metric.get("value"), metric.get("paper")
    name = str(metric.get("name") or "")
    return _Row(
        experiment=_experiment(metric),
        what=_readable(name),
        name=name,
        measured=_text(value),
        spread=_spread(metric.get("std")),
        unit=str(metric.get("unit") or ""),
        paper=_text(paper),
        difference=difference(value, paper),
        check=_text(metric.get("check")),
        note=str(metric.get("note") or ""),
    )


def difference(value: Any, paper: Any) -> Difference | None:
    """How far `value` is from the published one; None where they cannot be compared."""
    if not (_is_number(value) and _is_number(paper)) or paper == 0:
        return None
    return Difference(100.0 * (value - paper) / abs(paper))


def _headline(section: _Section) -> list[_Row]:
    """The section's first row with a difference, if it has one."""
    return [row for row in section.rows if row.difference is not None][:1]


# Provenance ---------------------------------------------------------------------------------------


def _facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was run, in a few words."""
    config = {**_mapping(manifest.get("config")), **_mapping(manifest.get("resolved"))}
    times = (phase.get("seconds") for phase in _phase_list(manifest))
    took = [float(seconds) for seconds in times if _is_number(seconds)]
    facts = [
        ("Topology", config.get("topology")),
        ("Nodes", config.get("nodes")),
        ("Groups", config.get("groups")),
        ("Experiments", _plain(config["experiments"]) if "experiments" in config else None),
        ("Topologies", config.get("seeds")),
        ("Seed", manifest.get("seed", config.get("seed"))),
        ("Time", _duration(sum(took)) if took else None),
    ]
    return [(what, _text(value)) for what, value in facts if value is not None]


def _settings(manifest: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Every setting, its value, and whether the user gave it."""
    given = _flat(_mapping(manifest.get("config")))
    resolved = _flat(_mapping(manifest.get("resolved")))
    return [(key, _plain(value), key in given) for key, value in {**given, **resolved}.items()]


def _origin(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Versions and machine."""
    both = {**_flat(_mapping(manifest.get("versions"))), **_flat(_mapping(manifest.get("machine")))}
    return [(key, _plain(value)) for key, value in both.items()]


def _phases(manifest: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, seconds and rows of each phase."""
    return [
        (
            _text(phase.get("name")),
            f"{seconds:,.1f}" if _is_number(seconds := phase.get("seconds")) else _ABSENT,
            _text(phase.get("rows")),
        )
        for phase in _phase_list(manifest)
    ]


def _phase_list(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    phases = manifest.get("phases")
    if not isinstance(phases, list | tuple):
        return []
    return [phase for phase in phases if isinstance(phase, Mapping)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Keys of inner mappings joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        inner = isinstance(value, Mapping)
        flat.update(_flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value})
    return flat


# Values as text -----------------------------------------------------------------------------------


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> str:
    """A number to four digits, whole numbers in full; a dash for none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return _ABSENT
    if not _is_number(value):
        return str(value)
    whole = value == int(value) or abs(value) >= 1000
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def _spread(std: Any) -> str:
    """A standard deviation to three digits; empty for none."""
    return _text(float(f"{std:.3g}")) if _is_number(std) else ""


def _plain(value: Any) -> str:
    """A setting as it would be typed."""
    if isinstance(value, list):
        return ",".join(map(str, value)) or _ABSENT
    return _ABSENT if value is None else str(value)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s" if minutes else f"{seconds:.1f} s"


def _readable(name: str) -> str:
    """``ip_multicast.link_stress.max`` as ``IP multicast, link stress, max``."""
    words = [
        word.upper() if word in _ABBREVIATIONS else word
        for word in name.replace(".", " , ").replace("_", " ").split()
    ]
    text = " ".join(words).replace(" ,", ",")
    return text[:1].upper() + text[1:]
