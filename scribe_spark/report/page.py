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

from scribe_spark.report.figures import FIGURES, draw

__all__ = ["Difference", "Report", "render"]

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
    what: str
    name: str
    measured: str
    unit: str
    paper: str
    difference: Difference | None
    check: str
    note: str


@dataclass(frozen=True)
class _Section:
    title: str
    rows: list[_Row]


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
        ``check`` (the independent check's range, as text) and ``note``.  Rows keep their order;
        the first of each figure that has a published value is one of the headline numbers.
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

    drawings = [draw(spec, distributions) for spec in FIGURES]
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
        figures=[(drawing, Markup(drawing.svg)) for drawing in drawings],
        sections=sections,
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
    """The rows by figure, in the paper's order; those of no figure come last."""
    titles = {spec.number: f"Figure {spec.number}: {spec.title}" for spec in FIGURES}
    grouped: dict[str, list[_Row]] = {}
    for metric in metrics:
        figure = metric.get("figure")
        grouped.setdefault("" if figure is None else str(figure), []).append(_row(metric))

    def order(figure: str) -> tuple[bool, float]:
        return figure == "", float(figure) if figure.isdecimal() else math.inf

    return [
        _Section(titles.get(figure) or _section_title(figure), grouped[figure])
        for figure in sorted(grouped, key=order)
    ]


def _section_title(figure: str) -> str:
    return f"Figure {figure}" if figure.isdecimal() else figure or "Other measures"


def _row(metric: Mapping[str, Any]) -> _Row:
    value, paper = metric.get("value"), metric.get("paper")
    name = str(metric.get("name") or "")
    return _Row(
        what=_readable(name),
        name=name,
        measured=_text(value),
        unit=str(metric.get("unit") or ""),
        paper=_text(paper),
        difference=_difference(value, paper),
        check=_text(metric.get("check")),
        note=str(metric.get("note") or ""),
    )


def _difference(value: Any, paper: Any) -> Difference | None:
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


def _plain(value: Any) -> str:
    """A setting as it would be typed."""
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
