"""A sweep: a grid over the config's fields, with an ordinary run at each point (`run_sweep`).

OUT holds a run's folder a point (``b=2,nodes=1000/``), ``sweep`` (Parquet, tidy rows:
`run_sweep.sweep_rows`), ``sweep.html`` and a manifest that says which grid it is.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from scribe_spark.config import RUN_FIELDS, RunConfig, flat_values
from scribe_spark.errors import InputError, check_names
from scribe_spark.experiments.phases import TABLE_PHASES
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.systems import check_variants

__all__ = ["COSTS", "KINDS", "SHOW", "Point", "Sweep"]

#: Kind of every field: ``int``, ``float``, ``str`` or ``bool``; a list is swept as a text.
KINDS = {name: {"list": "str"}.get(f.kind.name, f.kind.name) for name, f in RUN_FIELDS.items()}

#: What names of swept fields are, in messages.
_FIELD = "sweep field"

#: What a point costs: seconds of the phases that leave tables, and their sum.  The report's are
#: left out: it is drawn again whenever a sweep goes on.
COSTS = {**{f"cost.{phase}.seconds": "s" for phase in TABLE_PHASES}, "cost.seconds": "s"}

#: The metrics on the page, unless the TOML file says which.
SHOW = (
    "pastry.hops.mean",
    "pastry.table_entries.mean",
    "scribe.rad.median",
    "scribe.rmd.median",
    "scribe.children_entries.mean",
    "scribe.children_entries.max",
    "scribe.link_stress.mean_existing",
    "scribe.link_stress.max",
    "cost.seconds",
)

#: Every point is a run with a folder of its own, and a line of the page: more are a mistake.
MOST_POINTS = 10_000

_LONGEST = 200  # of a folder's name; file systems take 255


@dataclass(frozen=True)
class Point:
    """One run of a sweep.

    Attributes
    ----------
    values : dict
        Swept field -> its value here.
    config : RunConfig
    """

    values: dict[str, Any]
    config: RunConfig

    @property
    def name(self) -> str:
        """``field=value,...``: a folder's name, whatever the values hold."""
        name = ",".join(f"{field}={_safe(value)}" for field, value in self.values.items())
        if len(name) <= _LONGEST:
            return name
        return f"{name[: _LONGEST - 20]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Sweep:
    """A grid over config fields.

    Attributes
    ----------
    base : RunConfig
        The fields that are not swept.
    grid : mapping
        Field -> its values, in the order in which points are run: the last field's change first.
    show : tuple of str
        The metrics on the page.

    Raises
    ------
    InputError
        Nothing to sweep, an unknown field or metric, no value or one twice, or a point that the
        config refuses.
    """

    base: RunConfig
    grid: Mapping[str, tuple[Any, ...]]
    show: tuple[str, ...] = SHOW

    def __post_init__(self) -> None:
        _check_grid(self.grid)
        check_names(dict.fromkeys(self.show), [*metric_definitions(), *COSTS], "show")
        assert self.points  # each is checked as it is made

    @classmethod
    def of(cls, file: Mapping[str, Any], flags: Mapping[str, Any], sets: Sequence[str]) -> Sweep:
        """A sweep out of a TOML file, flags and ``--set field=value,value`` texts.

        Flags win over the file: a flag of a field that the file sweeps keeps it at one value.

        Parameters
        ----------
        file : mapping
            Config fields, and the table ``sweep``: field -> list of values, and ``show``.
        flags : mapping
            Config fields.
        sets : sequence of str

        Raises
        ------
        InputError
            As :class:`Sweep`; or what is given contradicts itself.
        """
        fixed = {name: value for name, value in file.items() if name != "sweep"}
        table = file.get("sweep", {})
        if not isinstance(table, Mapping):
            raise InputError("sweep", table, "must be a table: [sweep], then b = [1, 2, 4]")
        fixed, flags = flat_values(fixed), flat_values(flags)
        lists = {name: given for name, given in table.items() if name != "show"}
        listed = {n: _values(n, given) for n, given in flat_values(lists, _FIELD).items()}
        typed = _sets(sets)
        for swept, given, where in ((listed, fixed, "[sweep]"), (typed, flags, "--set")):
            for name in swept:
                if name in given:
                    remedy = f"is in {where} too; leave one of them out"
                    raise InputError(name, given[name], remedy)
        grid = {name: values for name, values in listed.items() if name not in flags} | typed
        _check_grid(grid)
        base = {name: value for name, value in {**fixed, **flags}.items() if name not in grid}
        config = RunConfig.of(base, {name: values[0] for name, values in grid.items()})
        check_variants(config.trees.variants)
        for variants in grid.get("variants", ()):
            check_variants(config.replace(variants=variants).trees.variants)
        return cls(config, grid, _metrics(table["show"]) if "show" in table else SHOW)

    @cached_property
    def points(self) -> list[Point]:
        """Every point of the grid."""
        rows = itertools.product(*self.grid.values())
        found = [dict(zip(self.grid, row, strict=True)) for row in rows]
        return [Point(values, self.base.replace(**values)) for values in found]

    def as_dict(self) -> dict[str, Any]:
        """Every config field, a swept one with the list of its values, and which are swept."""
        swept = {name: list(values) for name, values in self.grid.items()}
        return {"sweep": list(swept), **self.base.flat(), **swept}


# --- what is swept


def _check_grid(grid: Mapping[str, tuple[Any, ...]]) -> None:
    if not grid:
        raise InputError("sweep", "", "sweeps no field; name one, such as --set b=1,2,4")
    check_names(grid, KINDS, _FIELD)
    points = math.prod(map(len, grid.values()))
    if points > MOST_POINTS:
        raise InputError("sweep", points, f"points are too many; must be at most {MOST_POINTS:,}")
    for name, values in grid.items():
        if not values:
            raise InputError(name, "", "needs a value at least, such as --set b=1,2,4")
        for place, value in enumerate(values):
            if value in values[:place]:
                raise InputError(name, value, "is swept twice; leave one of them out")


def _sets(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """``field=value,value`` texts; a value may stand in double quotes, as in CSV."""
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        name = name.strip()
        if not (equals and name):
            raise InputError("set", text, "must be FIELD=VALUE,VALUE,..., such as b=1,2,4")
        if "." in name:
            (name,) = flat_values({name: None}, _FIELD)
        check_names([name], RUN_FIELDS, _FIELD)
        if name in grid:
            raise InputError("set", text, f"sweeps {name} again; give all its values in one --set")
        try:
            (cells,) = csv.reader([rest], skipinitialspace=True, strict=True) if rest else [[]]
        except (csv.Error, ValueError):
            remedy = 'must be values separated by commas, "quoted" where they hold one'
            raise InputError(name, rest, remedy) from None
        grid[name] = tuple(RUN_FIELDS[name].kind.parse(name, cell.strip()) for cell in cells)
    return grid


def _values(name: str, given: Any) -> tuple[Any, ...]:
    """A field's values out of TOML."""
    if not isinstance(given, list):
        raise InputError(name, given, "must be a list in [sweep], such as [1, 2, 4]")
    if RUN_FIELDS[name].kind.name == "list":
        return tuple(",".join(map(str, v)) or "plain" if isinstance(v, list) else v for v in given)
    real = KINDS[name] == "float"
    return tuple(float(v) if real and type(v) is int else v for v in given)


def _metrics(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InputError("show", given, 'must be a list of metrics, such as ["pastry.hops.mean"]')
    return tuple(dict.fromkeys(given))


def _safe(value: Any) -> str:
    """A value as part of a folder's name: letters, digits and ``_.-``, others as ``~2F``.

    URLs have their ``%2F`` undone here and there.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe="").replace("~", "%7E").replace("%", "~")
