"""Compare folders of runs or worlds, without Spark: a page, tables, and limits of differences."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pandas as pd

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.config.coverage import CoverageConfig
from scribe_spark.core.errors import (
    InputError,
    RunError,
    exact,
    in_series,
    in_words,
    meant,
    one_line,
    unlike,
)
from scribe_spark.core.inputs import read_parquet
from scribe_spark.core.paths import is_local, local_path
from scribe_spark.core.units import parse_percentage
from scribe_spark.experiments.checks import check_local, check_out
from scribe_spark.experiments.digests import text_digest
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.manifest import (
    COMPARISON,
    MANIFEST,
    RUN,
    WORLD,
    Owner,
    version_of,
)
from scribe_spark.experiments.plan import Plan
from scribe_spark.experiments.verifying import check_verify, verify
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.report.compare import Side, compared_measures, render_compare
from scribe_spark.report.comparison import Compared
from scribe_spark.report.style import as_text
from scribe_spark.systems.registry import systems_of_run
from scribe_spark.worlds.summary import measures_by_round, summarise, summary_units

#: The files that a comparison writes.
PAGE, ROWS, JSON = "compare.html", "compare.csv", "compare.json"

#: The table of deliveries by their latency.
_COUNTS = "latency_counts"

#: Numbers with a smaller difference are equal but for rounding.
_ROUNDING = 1e-9

#: The greatest number of missing measures in a line.
_NAMED = 3


_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


def _limits(texts: Iterable[str], field: str, form: str, plain: bool) -> dict[str, Fraction]:
    """Return the limits in texts of users, ``MEASURE=PERCENTAGE``, as shares.

    If they may be `plain` numbers, they need a measure; others without one are of measure "".
    """
    found: dict[str, Fraction] = {}
    for text in texts:
        measure, _, value = text.rpartition("=")
        number = parse_percentage(value)
        if plain and _NUMBER.fullmatch(value):
            number = Fraction(value)
        if number is None or (plain and not measure):
            raise InputError(field, text, f"must be {form}")
        if measure in found:
            raise InputError(field, text, "gives a second limit; leave one of them out")
        found[measure] = number
    return found


@dataclass(frozen=True)
class Limits:
    """The allowed differences from the first folder, by measure, in per cent of its value.

    The limit of measure "" is that of every headline measure without its own limit.
    """

    measures: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Limits:
        """Return the limits in users' texts, such as ``5%`` or ``scribe.rad.median=2.5%``."""
        form = "a percentage, such as 5% or scribe.rad.median=5%"
        found = _limits(texts, "fail_above", form, plain=False)
        return cls({name: float(share * 100) for name, share in found.items()})

    def limit_of(self, row: Compared) -> float | None:
        """Return the limit of a compared measure in per cent; None if it has none."""
        return self.measures.get(row.measure, self.measures.get("") if row.headline else None)


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison of folders, which have runs or worlds (`noun`)."""

    page: str
    noun: str
    sides: list[Side]
    rows: list[Compared]

    def summary(self) -> str:
        """Return a line with the greatest difference of a headline measure."""
        rows = [row for row in self.rows if row.headline and row.is_compared]
        worst = max(rows, key=lambda row: row.most, default=None)
        if worst is None or worst.most == 0:
            return f"{len(rows)} headline measures, all of them equal"
        apart = self._told(worst, worst.farthest)
        return f"{len(rows)} headline measures; greatest difference: {apart}"

    def check(self, limits: Limits) -> None:
        """Refuse, by a RunError, differences beyond limits."""
        beyond = [
            (abs(percent), row, side)
            for row in self.rows
            if (limit := limits.limit_of(row)) is not None
            for side in row.others
            if (percent := row.percent(side)) is not None
            and abs(percent) > limit * (1 + _ROUNDING) + _ROUNDING
        ]
        if beyond:
            _, row, side = max(beyond, key=lambda found: found[0])
            others = len(beyond) - 1
            more = f"; {others} more above their limits" if others else ""
            limit = limits.limit_of(row) or 0.0
            allowed = f"the limit is {exact(limit)}%"
            raise RunError(f"{self._told(row, side, limit)}; {allowed}{more}; see {self.page}")

    def _told(self, row: Compared, side: int, limit: float = math.nan) -> str:
        """Describe the difference of a measure between the base and a side."""
        percent = row.percent(side)
        apart = "from 0"
        if percent is not None and math.isfinite(percent):
            apart = f"{'+' if percent > 0 else '-'}{unlike(abs(percent), limit, digits=3)}%"
        base, other = self.sides[0].folder, self.sides[side].folder
        values = f"{as_text(row.values[side])} in {other}, {as_text(row.values[0])} in {base}"
        return in_words(f"{row.measure} {apart} ({values})")


def compare(
    folders: Sequence[str], out: str, limits: Limits | None = None, any_version: bool = False
) -> Comparison:
    """Compare local runs or worlds with the first one; write a page and tables into OUT."""
    _check_folders(folders)
    check_compare_out(out)
    owners, sides = zip(*map(_read, folders), strict=True)
    for folder, owner, side in zip(folders, owners, sides, strict=True):
        if owner is not owners[0]:
            remedy = (
                f"holds {owner.noun}, and {folders[0]} {owners[0].noun}; give folders of one kind"
            )
            raise InputError("folder", folder, remedy)
        versions = [one.manifest["versions"].get("scribe_spark") for one in (side, sides[0])]
        if versions[0] != versions[1] and not any_version:
            made = f"was made by scribe_spark {versions[0]}, and {folders[0]} by {versions[1]}"
            remedy = f"{made}; give --any-version to compare them anyway"
            raise InputError("folder", folder, remedy)
    noun = "run" if owners[0] is RUN else "world"
    rows = compared_measures(sides)
    _refuse_missing(folders, rows, limits or Limits())
    here = local_path(out).absolute()
    pages = [local_path(folder).absolute() / "report.html" for folder in folders]
    page = render_compare(sides, rows, noun, [os.path.relpath(one, here) for one in pages])
    texts = _tables(sides, rows, noun)
    manifest = {
        "compared": noun,
        "resolved": {"folders": list(folders)},
        "versions": {"scribe_spark": version_of("scribe_spark")},
        "texts": {name: text_digest(text) for name, text in texts.items()},
    }
    with StoredFolder(None, out) as stored:
        stored.clear(COMPARISON)
        # first, so that the folder is a comparison's even if the command is interrupted
        stored.write_json(MANIFEST, manifest)
        for name, text in texts.items():
            stored.write_text(name, text)
        location = stored.write_page(page, PAGE)
    return Comparison(location, noun, [*sides], rows)


def check_compare_out(out: str) -> None:
    """Refuse OUT unless it is a local folder that is new or has an earlier comparison."""
    check_local(out)
    check_out(Plan(COMPARISON, Execution(out=out, overwrite=True), {}, {}, about={}, done={}))


def missing_measures(sides: Sequence[Side], rows: Sequence[Compared]) -> list[str]:
    """Return a line for each folder that lacks measures which other folders have."""
    lines = []
    for at, side in enumerate(sides):
        lacks = [
            row.measure
            for row in rows
            if row.values[at] is None and any(value is not None for value in row.values)
        ]
        if lacks:
            some = in_series(lacks[:_NAMED], len(lacks))
            lines.append(in_words(f"{side.folder} lacks measures of the others: {some}", 2_000))
    return lines


def _check_folders(folders: Sequence[str]) -> None:
    if len(folders) < 2:
        remedy = "is not enough; give at least two folders of runs or worlds"
        raise InputError("folders", " ".join(folders), remedy)
    real = [os.path.realpath(local_path(f)) if is_local(f) else f for f in folders]
    for at, folder in enumerate(folders):
        if folder and is_local(folder) and real[at] in real[:at]:
            raise InputError("folder", folder, "is given twice; leave one of them out")
        _check_one(folder)


def _check_one(folder: str) -> None:
    if not folder:
        raise InputError("folder", folder, "must be a non-empty text")
    if not is_local(folder):
        raise InputError("folder", folder, "is not on this machine; copy it here first")
    try:
        check_verify(folder)
    except InputError as error:
        raise InputError("folder", folder, error.remedy) from None


def _read(folder: str) -> tuple[Owner, Side]:
    """Verify a folder; return the command that wrote it, and its data to compare."""
    try:
        found = verify(folder, None, RUN, WORLD)
        if found.damaged:
            more = f" and {len(found.damaged) - 1} more" if len(found.damaged) > 1 else ""
            remedy = f"is damaged: {found.damaged[0]}{more}; `scribe-spark verify` lists all"
            raise InputError("folder", folder, remedy)
        if not found.finished:
            remedy = "is not finished; continue its command with --resume"
            raise InputError("folder", folder, remedy)
        side = _run_side if found.owner is RUN else _world_side
        return found.owner, side(folder, found.manifest)
    except InputError as error:
        raise InputError("folder", folder, error.remedy) from None
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        remedy = f"cannot be read ({one_line(error)}); `scribe-spark verify` checks its tables"
        raise InputError("folder", folder, remedy) from None


def _run_side(folder: str, manifest: Mapping[str, Any]) -> Side:
    with StoredFolder(None, folder) as stored:
        metrics = stored.read_json("metrics.json")
    return Side(
        folder,
        manifest,
        {row["name"]: row["value"] for row in metrics},
        {row["name"]: row["unit"] or "" for row in metrics},
        distributions=_distributions(folder),
    )


def _distributions(folder: str) -> pd.DataFrame:
    """Read the histograms of a run's folder, with those of latencies if they were counted."""
    spread = _table(folder, "distributions")
    if not (local_path(folder) / "tables" / _COUNTS).is_dir():
        return spread
    counts = _table(folder, _COUNTS)
    of_time = counts[counts["unit"] == "ms"][["system", "value", "count"]]
    return pd.concat([spread, of_time.assign(figure="latency", measure="latency")])


def _world_side(folder: str, manifest: Mapping[str, Any]) -> Side:
    resolved = manifest["resolved"]
    several = any(resolved.get(name) is not None for name in ("publications", "schedule"))
    units = summary_units([(CoverageConfig.of_settings(resolved), several)])
    rounds = measures_by_round(_table(folder, "rounds"))
    numbers = summarise(rounds)
    values = {name: numbers[name] for name in map(str, rounds)}
    return Side(folder, manifest, values, units, rounds=rounds)


def _table(folder: str, name: str) -> pd.DataFrame:
    return read_parquet(local_path(folder) / "tables" / name).to_pandas()


def _refuse_missing(folders: Sequence[str], rows: Sequence[Compared], limits: Limits) -> None:
    """Refuse folders without a common measure, and folders without a measure that has a limit."""
    if not any(all(value is not None for value in row.values) for row in rows):
        raise InputError("folders", " ".join(folders), "have no measure in common")
    names = [row.measure for row in rows]
    for name in limits.measures:
        if name and name not in names:
            raise InputError(
                "fail_above", name, f"is not a measure of these folders{meant(name, names)}"
            )
    for at, folder in enumerate(folders):
        lacks = [
            row.measure
            for row in rows
            if limits.limit_of(row) is not None
            and row.values[at] is None
            and (row.values[0] is not None or row.measure in limits.measures)
        ]
        if lacks:
            some = in_series(lacks[:_NAMED], len(lacks))
            remedy = f"has no value of measures with a limit in --fail-above: {some}"
            raise InputError("folder", folder, remedy)


def _tables(sides: Sequence[Side], rows: Sequence[Compared], noun: str) -> dict[str, str]:
    """Return all compared measures as a CSV and a JSON text, by file."""
    measures, cells = [], []
    for row in rows:
        names = {"measure": row.measure, "unit": row.unit, "headline": row.headline}
        places = range(len(sides))
        apart = [row.difference(at) for at in places]
        percent = [row.percent(at) for at in places]
        percent = [of if of is None or math.isfinite(of) else None for of in percent]
        numbers = {"values": list(row.values), "differences": apart, "percent": percent}
        measures.append({**names, **numbers})
        folders = [side.folder for side in sides]
        for folder, *of in zip(folders, *numbers.values(), strict=True):
            cells.append([*names.values(), folder, *of])
    named = ("measure", "unit", "headline", "folder", "value", "difference", "percent")
    listed = [
        {
            "folder": side.folder,
            "seed": side.manifest.get("seed"),
            "versions": side.manifest["versions"],
        }
        for side in sides
    ]
    told = {"kind": noun, "folders": listed, "measures": measures}
    table = pd.DataFrame(cells, columns=named).to_csv(index=False, lineterminator="\n")
    return {ROWS: table, JSON: json.dumps(told, indent=1) + "\n"}


# --- least values of measures: a run or a world fails below them, as a check of a CI job


@dataclass(frozen=True)
class Floors:
    """The least values of measures that a user allows; 99 % is stored as 0.99."""

    least: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Floors:
        """Return the least values in users' texts, such as ``scribe.within_800ms=99%``."""
        form = "a measure and a number, such as scribe.within_800ms=99%"
        found = _limits(texts, "fail_below", form, plain=True)
        return cls({name: float(number) for name, number in found.items()})

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse names that are not among the known measures."""
        for name in self.least:
            if name not in known:
                remedy = f"is not a measure of these settings{meant(name, [*known])}"
                raise InputError("fail_below", name, remedy)

    def check_before(self, config: RunConfig | WorldConfig, out: str) -> None:
        """Refuse names of measures that a run or world will not have, and a remote OUT."""
        if not is_local(out):
            raise InputError("fail_below", out, "needs an OUT on this machine")
        if isinstance(config, WorldConfig):
            asked = config.coverage, config.bandwidth.several
            self.refuse_unknown(summary_units([asked]))
        else:
            systems = systems_of_run(config.trees.variants, config.trees.systems)
            self.refuse_unknown(metric_definitions(systems, config))

    def check(self, folder: str) -> None:
        """Raise a RunError if a measure of a run or world is below its least value."""
        if not self.least:
            return
        _check_one(folder)
        values = _read(folder)[1].values
        self.refuse_unknown(values)
        below = [
            (name, values[name], least)
            for name, least in self.least.items()
            if (value := values[name]) is None or value < least
        ]
        if below:
            name, value, least = below[0]
            is_now = "has no value" if value is None else f"is {unlike(value, least)}"
            more = f"; {len(below) - 1} more below their limits" if len(below) > 1 else ""
            told = f"{name} {is_now} in {folder}; the limit is {exact(least)}{more}"
            raise RunError(in_words(told))
