"""The pages of the reference that are written from the package.

These are the pages of the settings, tables, measures, commands, rules and attributes; ``meanings.txt``
has what they say of tables, columns, measures and fields.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pandas as pd

from scribe_spark import schemas
from scribe_spark.cli.program import PURPOSES, CommandLine
from scribe_spark.config import RunConfig
from scribe_spark.config.fields import COMMANDS, FieldRecord, documentation
from scribe_spark.experiments import Run, Simulation
from scribe_spark.measures.metrics import all_measures
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period
from scribe_spark.rounds.system import LivingRound, SystemOnBuckets, SystemRound
from scribe_spark.systems.registry import all_systems, described
from scribe_spark.systems.scribe.variants import VariantContext
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.summary import measure_of, summary_units
from scribe_spark.worlds.world import World
from tools.pages import table

_PROGRAM = CommandLine("scribe-spark")

# --- meanings.txt

_TEXT = Path(__file__).with_name("meanings.txt").read_text("utf-8")


def _rows(section: str, several: bool = True) -> dict[str, list[str]]:
    """Return the cells of a section by the name, or each of several names, in their first cell."""
    lines = _TEXT.partition(f"\n# {section}\n")[2].partition("\n# ")[0].splitlines()
    rows = (line.split(" | ") for line in lines if line)
    return {
        name: cells for names, *cells in rows for name in (names.split() if several else [names])
    }


#: Table -> the meaning of a row.
ROWS = {name: cells[0] for name, cells in _rows("rows").items()}

#: Measure of a world's rounds, whose name may have blanks -> its meaning.
MEASURES = {name: cells[0] for name, cells in _rows("measures", several=False).items()}

#: Column -> unit and meaning.
COLUMNS = {name: (unit.strip("-"), meaning) for name, (unit, meaning) in _rows("columns").items()}

#: Field of a config -> unit, if its name does not tell the unit.
UNITS = {name: unit for name, (unit,) in _rows("units").items()}

_ENDINGS = {"_ms": "ms", "_seconds": "s"}
_KINDS = {"size": "bytes", "rate": "bit/s", "time": "time", "times": "time"}


def unit_of(field: FieldRecord) -> str:
    """Return the unit of a field; empty for names, choices and plain numbers."""
    by_name = (unit for ending, unit in _ENDINGS.items() if field.flat.endswith(ending))
    return next(by_name, UNITS.get(field.flat) or _KINDS.get(field.kind.name, ""))


# --- configuration.md

_HEADER = ("setting", "run", "world", "tree", "values", "default", "unit", "meaning")


def settings() -> Iterator[str]:
    """Yield the lines of ``docs/configuration.md``: a section for each one of the config."""
    sections: dict[str, list[list[str]]] = {}
    for by_command in documentation():
        first, *_ = by_command.values()
        sections.setdefault(first.section, []).append(_field_row(first, by_command))
    for section, rows in sections.items():
        title = "Outside of sections" if section == "run" else f"`[{section}]`"
        yield from ("", f"## {title}", "", *table(_HEADER, rows))


def _field_row(first: FieldRecord, by_command: Mapping[str, FieldRecord]) -> list[str]:
    """Return the row of a field."""
    marks = ["\N{BULLET}" if command in by_command else "" for command in COMMANDS]
    texts = list(dict.fromkeys(field.description for field in by_command.values()))
    named = first.description if first.flat == "variants" else described(first)
    text = ". ".join([named, *(f"In a world: {other}" for other in texts[1:])])
    default = _defaults(by_command)
    values = "" if first.values == "BOOL" else first.values
    return [f"`{first.flat}`", *marks, values, default, unit_of(first), text]


def _defaults(fields: Mapping[str, FieldRecord]) -> str:
    """Return the default of a field; of the commands where it is another one, beside it."""
    values = {name: field.typical and f"`{field.typical}`" for name, field in fields.items()}
    first, *_ = values.values()
    more = [f"{name}: {value or 'unset'}" for name, value in values.items() if value != first]
    return ", ".join([first, *more] if first else more)


# --- measures_reference.md

_STATISTICS = r"mean|median|max|min|sum|largest|p50|p90|p95|p99|never|mean_existing|median_existing|below_[\d_]+"
#: The beginning of a definition that only says the statistic.
_SAYS_STATISTIC = re.compile(
    r"^(?:(?:Mean number of|Mean|Median|Maximum|Greatest)|The \d+th percentile|Share below [\d.]+)"
    r"(?: \(nearest rank\))?,?(?: over publications,)?(?: of)?(?: the)? "
)
#: The ending of a measure that is another one for trees of Scribe, for comparison.
_BESIDE = ".scribe"
_SAYS_LINKS = re.compile(r", over (?:the paper's link slots: core|all directed links, those).*$")


#: A config with all questions, whose answers are metrics.
_ASKED = RunConfig(
    deadline="800ms", weights="weights.csv", quorum="2/3", replies=True, publications=2
)


def _together(rows: Iterable[tuple[str, ...]], *columns: str) -> pd.DataFrame:
    """Return what rows say of each name, in their first column: each different text once."""
    table = pd.DataFrame(rows, columns=["name", *columns])
    return table.groupby("name", sort=False).agg(lambda some: [*filter(None, dict.fromkeys(some))])


def _run_measures(of_systems: bool) -> pd.DataFrame:
    """Return the statistics, the units, the figures and the definitions of measures of runs."""
    rows = []
    for metric in (metric for measure in all_measures() for metric in measure.metrics_of(_ASKED)):
        if (metric.systems is not None) == of_systems:
            (name, statistic), text = _split(metric.name), metric.definition
            if statistic:
                text = _SAYS_LINKS.sub(".", _SAYS_STATISTIC.sub("", text))
                text = text[0].upper() + text[1:]
            name = f"SYSTEM.{name}" if of_systems else name
            rows.append((name, statistic, metric.unit, metric.figure or "", _any_number(text)))
    return _together(rows, "statistics", "units", "figures", "texts")


def measures_of_runs(of_systems: bool) -> list[str]:
    """Return the table of the measures of runs: those of each system, or the others."""
    found, rows = _run_measures(of_systems), []
    for name, of in found.iterrows():
        if str(name).endswith(_BESIDE):
            continue
        names, text = f"`{name}`", of["texts"][0]
        if f"{name}{_BESIDE}" in found.index:
            names += f", `{name}{_BESIDE}`"
            text += f" `{_BESIDE}`: in Scribe's trees."
        figure = "".join(of["figures"][:1])
        rows.append([names, " ".join(of["statistics"]), ", ".join(of["units"]), figure, text])
    return table("measure | statistics | unit | figure | definition", rows)


def _split(name: str) -> tuple[str, str]:
    """Return a metric's measure and its statistic, which may be empty."""
    measure, _, statistic = name.rpartition(".")
    if not re.fullmatch(_STATISTICS, statistic) or not measure:
        measure, statistic = name, ""
    return _any_number(measure), statistic


def _any_number(text: str) -> str:
    """Return a name or a definition with letters for its depth, its percentage or its number."""
    text = re.sub(r"(depth[ _])\d+([ _](\d+|and[ _]deeper))?", r"\1D", text)
    text = re.sub(r"\bwithin([_ ])800ms", r"within\1T", text)
    text = re.sub(r"\b(time_to|hops_to)_\d+", r"\1_P", re.sub(r"\b\d+ %", "P %", text))
    return re.sub(r"\.\d+$", ".N", text)


_ALSO = "These measures of a round are defined as those of a run:"


def measures_of_rounds() -> list[str]:
    """Return the table of the measures of a world's rounds, and those that are as in a run."""
    rows, as_of_runs, of_runs = [], [], _run_measures(True)["statistics"]
    living = {system.name for system in all_systems() if system.world} | {"scribe"}
    for name, of in round_measures().iterrows():
        short, which, statistics = str(name).removeprefix("SYSTEM."), "", " ".join(of["statistics"])
        if set(of["systems"]) == living - {"scribe"}:
            which = "all but scribe"
        elif not living <= set(of["systems"]):
            which = " ".join(of["systems"])
        if short in MEASURES:
            text = MEASURES[short]
            rows.append([f"`{name}`", statistics, ", ".join(of["units"]), which, text])
            continue
        notes = [statistics] if {*of_runs[name]} != {*of["statistics"]} else []
        notes += [f"of {which}"] if which else []
        as_of_runs.append(f"`{name}`" + (f" ({'; '.join(notes)})" if notes else ""))
    lines = table("measure | statistics | unit | systems | definition", rows)
    return [*lines, "", f"{_ALSO} {', '.join(as_of_runs)}."]


def round_measures() -> pd.DataFrame:
    """Return the statistics, the units and the systems of the measures of a world's rounds."""
    systems, rows = [system.name for system in all_systems()], []
    for metric, unit in summary_units([(_ASKED.coverage, True)]).items():
        system, _, rest = measure_of(metric).partition(".")
        system, rest = (system, rest) if system in systems else ("", measure_of(metric))
        name, statistic = _split(rest)
        name = re.sub(r"\b(refused|messages)\..*", r"\1.KIND", name)
        name = re.sub(r"\bjoins\.(?!at_root$).*", "joins.CAUSE", name)
        rows.append((f"SYSTEM.{name}" if system else name, statistic, unit, system))
    return _together(rows, "statistics", "units", "systems")


# --- tables.md


def _tables(contract: Mapping[str, Any]) -> list[str]:
    """Return the tables of a contract: name, meaning of a row, columns and their types."""
    columns = {
        name: " ".join(f"{f.name}:{f.dataType.simpleString().upper()}" for f in schema.fields)
        for name, schema in contract.items()
    }
    rows = ([f"`{name}`", ROWS[name], schema] for name, schema in columns.items())
    return table(("table", "a row", "columns"), rows)


def _columns() -> list[str]:
    """Return a row for each column of all tables; columns of one meaning share a row."""
    every = [schema for of in schemas.CONTRACTS.values() for schema in of.values()]
    names = sorted({name for schema in every for name in schema.names})
    alike: dict[tuple[str, str], list[str]] = {}
    for name in names:
        alike.setdefault(COLUMNS[name], []).append(f"`{name}`")
    rows = [[", ".join(same), *described] for described, same in alike.items()]
    return table(("column", "unit", "meaning"), rows)


# --- commands.md


def commands() -> Iterator[str]:
    """Yield the lines of ``docs/commands.md``: a section for each command, with two examples."""
    context = click.Context(_PROGRAM)
    for name, purpose in PURPOSES.items():
        command = _PROGRAM.get_command(context, name)
        assert command is not None
        text = (command.epilog or "").partition("Examples:\n")[2]
        examples = [line.strip() for line in text.splitlines() if line.strip()]
        options = _used_options(command, {word for line in examples for word in line.split()})
        yield from ("", f"## {name}", "", purpose, "", *options, "```sh", *examples[:2], "```")


def _used_options(command: click.Command, used: set[str]) -> list[str]:
    """Return a table of the options that examples use and that are no fields of the config."""
    described = (field.flat for by_command in documentation() for field in by_command.values())
    fields = {f"--{name.replace('_', '-')}" for name in described} | {"--config"}
    rows = [
        [f"`{option.opts[0]}`", _first_clause(option.help or "")]
        for option in command.params
        if isinstance(option, click.Option) and used & {*option.opts} - fields
    ]
    return [*table(("option", "meaning"), rows), ""] if rows else []


def _first_clause(text: str) -> str:
    """Return the beginning of an option's help, up to its first semicolon or a list."""
    text = text.partition(" [default")[0].partition("; ")[0]
    head, _, rest = text.partition(": ")
    return (text if rest and len(head.split()) <= 2 else head).strip()


# --- first_500_lines.md

#: The lines to read first: file, the beginnings of the first line (empty: of the file) and of the
#: line after the last one, how the page names them, and what they contain.
_READ_FIRST = (
    ("DESIGN.md", "## 1.", "## 2.", ", section 1", "the steps of a run and of a world, and their files"),
    ("scribe_spark/engine/program.py", "", "@dataclass", ", up to `Together`", "a *program*: one step of a protocol on one bucket, with its tables and its inbox"),
    ("scribe_spark/engine/player.py", "class PlaysSteps", "def play_in_turn", ", `PlaysSteps` to `Player`", "a *player*, which executes programs: `play`, `has` and `take`"),
    ("scribe_spark/systems/scribe/heartbeat.py", "", "# --- the steps", ", up to `Refresh`", "the rules of a protocol: heartbeats, refreshes and timeouts"),
    ("scribe_spark/engine/in_task.py", "", "def _exchanged", ", `play`", "the simplest player: all buckets in one process"),
    ("scribe_spark/measures/stress.py", "# --- node stress", "# --- link stress", ", node stress", "a measure and its metrics"),
)  # fmt: skip


def read_first() -> list[str]:
    """Return the table of ``docs/first_500_lines.md``."""
    rows, total = [], 0
    for file, begin, end, words, content in _READ_FIRST:
        text = "\n" + (_PACKAGE.parent / file).read_text("utf-8")
        count = text[text.index(f"\n{begin}") : text.index(f"\n{end}")].count("\n")
        rows.append([f"`{file}`{words}", f"{round(count, -1)}", content])
        total += count
    rows.append(["all", f"{round(total, -2)}", ""])
    return table("file | about how many lines | content", rows)


# --- rules.md

#: The folders whose file ``rules.md`` begins the page, in this order; those of systems follow.
_ROOMS = "rounds", "measures", "pastry", "can", "clock", "topology", "underlay", "bandwidth"

_PACKAGE = Path(__file__).resolve().parents[1] / "scribe_spark"


def rules() -> Iterator[str]:
    """Yield the lines of ``docs/rules.md``: the rules of each folder, those of systems last."""
    files = [_PACKAGE / room / "rules.md" for room in _ROOMS]
    for file in dict.fromkeys([*files, *sorted(_PACKAGE.rglob("rules.md"))]):
        text = file.read_text("utf-8")
        yield from ("", *re.sub(r"\]\((\.\./)+docs/", "](", text).splitlines())


# --- attributes.md

#: The classes of the page, in order.
CLASSES = (
    *(Run, Simulation, World, Overlays, Network, Kernel, GroupOverlays, GrownOverlays, Period),
    *(LivingRound, SystemOnBuckets, SystemRound, VariantContext),
)

_ROLE = re.compile(r":\w+:`~?([^`]*)`|``([^`]*)``")
_ENTRY = re.compile(r"^(\w[\w, ]*) : (.*)\n((?:    .*\n?|\n)+)", re.M)


def attributes() -> Iterator[str]:
    """Yield the lines of ``docs/attributes.md``: a section for each class."""
    for number, cls in enumerate(CLASSES):
        text = inspect.getdoc(cls) or ""
        rows = dict([*_described(text), *_members(cls)])
        yield from ([""] * (number > 0) + [f"## {cls.__name__}", "", _first(text), ""])
        yield from table(["name", "meaning"], rows.items())


def _described(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the meanings in the section "Attributes" of a docstring."""
    section = text.partition("\nAttributes\n----------\n")[2]
    section = re.split(r"\n\w+\n---+\n", section)[0]
    for names, kind, words in _ENTRY.findall(section + "\n"):
        meaning = _first(inspect.cleandoc(words))
        yield ", ".join(f"`{name}`" for name in names.split(", ")), f"{_plain(kind)}: {meaning}"


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class of the package, in order of its file."""
    for of in reversed(cls.__mro__):
        if not of.__module__.startswith("scribe_spark") or (of is not cls and of in CLASSES):
            continue
        for name, member in vars(of).items():
            text = inspect.getdoc(member) or ""
            own = text and text != inspect.getdoc(type(member))
            as_elsewhere = text.startswith("See ")
            if own and not (
                name.startswith("_") or dataclasses.is_dataclass(member) or as_elsewhere
            ):
                yield f"`{name}{_arguments(member)}`", _first(text)


def _arguments(member: object) -> str:
    """Return the arguments of a method in brackets; nothing for a property."""
    member = getattr(member, "__func__", member)
    if not inspect.isfunction(member):
        return ""
    return f"({', '.join([*inspect.signature(member).parameters][1:])})"


def _first(text: str) -> str:
    """Return the first sentence of a docstring."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return _plain(re.split(r"(?<=[.]) (?=[A-Z`:])", paragraph)[0])


def _plain(text: str) -> str:
    return _ROLE.sub(lambda found: f"`{found[1] or found[2]}`", text)


def reference() -> dict[str, dict[str, list[str]]]:
    """Return the lines that are written from the code: page -> part -> lines."""
    return {
        "docs/configuration.md": {"settings": [*settings()]},
        "docs/measures_reference.md": {
            "run": measures_of_runs(of_systems=False),
            "systems": measures_of_runs(of_systems=True),
            "rounds": measures_of_rounds(),
        },
        "docs/tables.md": {
            **{name: _tables(contract) for name, contract in schemas.CONTRACTS.items()},
            "columns": _columns(),
        },
        "docs/commands.md": {"commands": [*commands()]},
        "docs/rules.md": {"rules": [*rules()]},
        "docs/first_500_lines.md": {"lines": read_first()},
        "docs/attributes.md": {"classes": [*attributes()]},
    }
