"""Experiments, the folders that they leave, and the pages that are written from these."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
import pyarrow.compute as pc
import pyarrow.dataset as ds
from jinja2 import Environment, StrictUndefined

from scribe_spark.systems.scribe.scribe import CONTROL_KINDS
from scribe_spark.worlds.summary import WINDOW, first_steady, measures_by_round, totals_by_number
from tools import pages
from tools.pages import number, over_seeds, share_cell

#: What becomes of deliveries.
COUNTS = ("expected", "due", "in_time", "late", "lost", "first_copies", "duplicates")

#: Files of which a complete run, a complete world, and an experiment in Python have one.
_ENDS = ("metrics.json", "tables/rounds", "result.json")


@dataclass(frozen=True)
class Folder:
    """What a run or a world has left, and one of its systems."""

    path: Path
    system: str = "scribe"

    @classmethod
    def find(cls, out: Path, patterns: str) -> list[Self]:
        """Return the complete folders of some patterns, by name; nothing if a pattern has none."""
        every = (map(cls, sorted(out.glob(pattern))) for pattern in patterns.split())
        found = [[one for one in some if one.is_complete] for some in every]
        return [one for some in found for one in some] if all(found) else []

    @property
    def is_complete(self) -> bool:
        """True if the experiment was played to its end."""
        return any((self.path / end).exists() for end in _ENDS)

    def json(self, name: str) -> Any:
        return json.loads((self.path / name).read_text("utf-8"))

    @cached_property
    def manifest(self) -> dict[str, Any]:
        return self.json("manifest.json")

    @property
    def config(self) -> dict[str, Any]:
        """The values of all fields of the config."""
        return self.manifest["resolved"]

    @property
    def round_seconds(self) -> float:
        return float(self.manifest["round"]["seconds"])

    def table(
        self, name: str, columns: Sequence[str] | None = None, system: str | None = None
    ) -> pd.DataFrame:
        """Return a table, or some of its columns, of one system where rows are of systems."""
        rows = ds.dataset(self.path / "tables" / name)
        mine = pc.field("system") == (system or self.system)
        of = mine if "system" in rows.schema.names and name != "rounds" else None
        return rows.to_table(columns=columns, filter=of).to_pandas()

    # --- a run

    @cached_property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """The rows of ``metrics.json`` by their names."""
        return {row["name"]: row for row in self.json("metrics.json")}

    def value(self, metric: str, system: str | None = None) -> float | None:
        """Return a metric of the system, or of another one of the run."""
        return self.number(f"{system or self.system}.{metric}")

    def values(self, metrics: Iterable[str], system: str | None = None) -> list[float | None]:
        """Return some metrics of a system."""
        return [self.value(metric, system) for metric in metrics]

    def number(self, name: str) -> float | None:
        """Return a number of the run by its whole name."""
        return self.metrics.get(name, {}).get("value")

    def systems(self, metric: str) -> list[str]:
        """Return the systems that have a metric."""
        end = f".{metric}"
        return [name.removesuffix(end) for name in self.metrics if name.endswith(end)]

    # --- a world

    @cached_property
    def measures(self) -> pd.DataFrame:
        """The measures by rounds; 0 where a round does not have one."""
        return measures_by_round(self.table("rounds")).fillna(0.0)

    def of(self, measure: str) -> pd.Series:
        """Return a measure by rounds; 0 where the world does not have it."""
        return of(self.measures, measure)

    def total(self, *measures: str) -> float:
        """Return the sum of some measures over all rounds."""
        return float(sum(self.of(name).sum() for name in measures))

    def spread(self, prefix: str) -> dict[int, int]:
        """N -> the sum of ``PREFIX.N`` over all rounds, where it is not 0."""
        counts = totals_by_number(self.measures, prefix)
        return {n: int(count) for n, count in counts.items() if count}

    @cached_property
    def publications(self) -> pd.DataFrame:
        """The system's publications: ``round, group`` and :data:`COUNTS`, by rounds."""
        return self.table("publications").sort_values(["round", "group"])

    @cached_property
    def is_lost(self) -> pd.Series:
        """True for the publications of groups without a delivery in the last round."""
        table = self.publications
        last = table[table["round"] == table["round"].max()]
        gone = last.loc[(last["in_time"] + last["late"] == 0) & (last["expected"] > 0), "group"]
        return table["group"].isin(gone)

    # --- a world under churn

    @cached_property
    def told(self) -> pd.DataFrame:
        """The publications that count: not those of round 0, and those that are due."""
        table = self.publications
        last = table.loc[table["due"] > 0, "round"].max()
        return table[table["round"].between(1, last)]

    @property
    def last(self) -> int:
        """The last round whose publications count."""
        return int(self.told["round"].max())

    def rate(self, kinds: Iterable[str]) -> pd.Series:
        """Return Scribe's messages of some kinds per live node and second, by rounds."""
        sent = sum((self.of(f"messages.{kind}") for kind in kinds), start=0.0)
        return sent / self.measures["nodes.live"] / self.round_seconds

    @cached_property
    def control(self) -> pd.Series:
        """Control messages per live node and second, by rounds: without Pastry's own."""
        own = self.system != "scribe"
        return self.of(f"{self.system}.control") if own else self.rate(CONTROL_KINDS)

    @cached_property
    def begin(self) -> int | None:
        """The first round of the steady state (docs/rules.md, Measures by round), if there is one.

        After a mass failure no state is steady, and all rounds count but the first.
        """
        if "mass-failure" in (self.config.get("generator") or ""):
            return 1
        expected = self.told.groupby("round")["expected"].sum()
        late = 1 - in_time_by_group(self.told, ("round", "group")).groupby("round").mean()
        lines = (line.reindex(expected.index) for line in (expected, late, self.control))
        begin = first_steady([line.to_numpy() for line in lines])
        return None if begin is None else int(expected.index[begin])

    @property
    def first(self) -> int:
        """The first round that counts: of the steady state, or of the last rounds without one."""
        return self.last + 1 - WINDOW if self.begin is None else self.begin

    @property
    def steady(self) -> pd.DataFrame:
        """The publications of the rounds that count."""
        return self.told[self.told["round"] >= self.first]

    def sum(self, count: str) -> float:
        """Return one of :data:`COUNTS`, of the rounds that count."""
        return float(self.steady[count].sum())

    def share(self, count: str) -> float:
        """Return the share of the expected deliveries of the rounds that count, in per cent."""
        return 100 * self.sum(count) / max(1.0, self.sum("due"))

    @property
    def median_group(self) -> float:
        """The median over groups of the share delivered in time, in per cent."""
        return 100 * float(in_time_by_group(self.steady).median())

    def steadily(self, measure: str) -> pd.Series:
        """Return a measure in the rounds that count."""
        return self.of(measure).loc[self.first : self.last]


def of(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return a measure by rounds; 0 where the world does not have it."""
    return table[measure] if measure in table else pd.Series(0.0, index=table.index)


def in_time_by_group(table: pd.DataFrame, by: Sequence[str] = ("group",)) -> pd.Series:
    """Return the share delivered in time, of the groups that expect any delivery."""
    sums = table.groupby(list(by))[["expected", "in_time"]].sum()
    sums = sums[sums["expected"] > 0]
    return sums["in_time"] / sums["expected"]


def rounds_in_words(begins: Sequence[int | None], last: int) -> str:
    """Return the rounds of the steady states of several seeds, by the first round of each."""
    known = sorted(begin for begin in begins if begin is not None)
    if len(known) < len(begins):
        return f"not settled; last {WINDOW}"
    return f"{'-'.join(map(str, dict.fromkeys((known[0], known[-1]))))} to {last}"


#: Head of a column -> a number of a world; shares are in per cent.
Columns = Mapping[str, Callable[[Any], float]]


def cells_of(columns: Columns, seeds: Sequence[Folder]) -> list[str]:
    """Return the cells of some columns for the worlds of several seeds."""
    return [
        over_seeds([value(one) for one in seeds], share_cell if "%" in head else number)
        for head, value in columns.items()
    ]


# --- pages

#: ``lines(OUT)``: the lines of a part of a page, of the experiments in OUT.
Lines = Callable[[Path], Sequence[str]]


class Page(NamedTuple):
    """A page of results.

    Attributes
    ----------
    experiments : mapping of str to str
        The command of each experiment, by the name of its folder in OUT.
    parts, readme : mapping of str to (str, callable)
        By the names of marks, of the page and of README.md: a pattern of paths in OUT, without
        which the part stays as it is, and the function that returns the lines.
    figures : callable, optional
        ``figures(OUT, FOLDER)`` writes the figures of the page into its folder.
    play : callable, optional
        ``play(OUT, name, words)`` runs an experiment that needs more than its command.
    """

    experiments: Mapping[str, str]
    parts: Mapping[str, tuple[str, Lines]]
    figures: Callable[[Path, Path], None] = lambda out, folder: None
    play: Callable[[Path, str, list[str]], None] | None = None
    readme: Mapping[str, tuple[str, Lines]] = {}

    def command(self, name: str, size: Sequence[str] | None = None) -> list[str]:
        """Return the words of a command, perhaps of another size; one group stays one group."""
        command = self.experiments[name]
        if size is not None:
            groups = "" if "--groups 1 " in f"{command} " else f" --groups {size[1]}"
            command += f" --nodes {size[0]}{groups}"
        return shlex.split(command)


def page_of(name: str, names: Mapping[str, Any], **more: Any) -> Page:
    """Return the page of ``texts/NAME.txt``, whose templates see the names of a module.

    Names have no underscore there.  The first section has an experiment in a line; a name with
    values in braces stands for an experiment of each, and the command has them at ``{0}``, ``{1}``.
    Each other section is the template of a part, after the part's name and needs.
    """
    text = Path(__file__).with_name("texts").joinpath(f"{name}.txt").read_text("utf-8")
    first, *others = re.split("^# ", text.removeprefix("# experiments\n"), flags=re.M)
    found: dict[str, str] = {}
    for line in first.strip().splitlines():
        folder, _, command = line.partition(" |")
        for values in product(*(one.split(",") for one in re.findall(r"\{(.*?)\}", folder))):
            found[re.sub(r"\{.*?\}", "{}", folder).format(*values)] = command.strip().format(
                *values
            )
    parts: dict[str, dict[str, tuple[str, Lines]]] = {"": {}, "README ": {}}
    for head, _, template in (one.partition("\n") for one in others):
        readme, part, needs = re.findall(r"(README )?(\w+): (\S+)", head)[0]
        parts[readme][part] = needs, partial(_rendered, template.rstrip(), names)
    return Page(found, parts[""], readme=parts["README "], **more)


def _rendered(template: str, names: Mapping[str, Any], out: Path) -> list[str]:
    """Return the lines of a template of the experiments in OUT."""
    return environment_of(names, out).from_string(template).render().splitlines()


def environment_of(names: Mapping[str, Any], out: Path) -> Environment:
    """Return the names and the filters of a template."""
    given = {
        name.lstrip("_"): value for name, value in {**vars(pages), **globals(), **names}.items()
    }
    find = partial(Folder.find, out)
    given |= {"out": out, "find": find, "all_of": lambda needs: filter(None, [find(needs)])}
    given["folder"] = lambda name: Folder(out / name)
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {
        **{name: value for name, value in given.items() if callable(value)},
        "n": pages.number,
        "ns": lambda values: " | ".join(map(pages.number, values)),
        "of_each": lambda shape, values: " | ".join(map(shape.format, values)),
        "code": lambda names: [f"`{name}`" for name in names],
        "head": lambda heads: "\n".join(pages.table(heads, [])),
        "map": environment.filters["map"],
    }
    environment.globals |= given
    return environment


def by(worlds: Iterable[Any], *names: str) -> list[tuple[Any, list[Any]]]:
    """Return worlds by the values of some fields of their configs."""

    def key(world: Any) -> list[Any]:
        return [world.config[name] for name in names]

    return [(values, [*some]) for values, some in groupby(sorted(worlds, key=key), key)]


def run(out: Path, name: str, words: Sequence[str]) -> None:
    """Run a command of scribe-spark, unless it is complete."""
    command = [sys.executable, "-m", "scribe_spark.cli", *words]
    subprocess.run([*command, "--out", str(out / name), "--resume"], check=True)
