"""The pages of the reference that are written from the code: config, tables, measures, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from scribe_spark import schemas
from scribe_spark.cli.program import PURPOSES, CommandLine
from scribe_spark.config import RunConfig
from scribe_spark.config.fields import COMMANDS, FieldRecord, documentation
from scribe_spark.measures.metrics import all_measures
from scribe_spark.systems.registry import all_systems, described
from scribe_spark.worlds.summary import measure_of, summary_units
from tools.meanings import COLUMNS, MEASURES, ROWS, unit_of
from tools.pages import table

_PROGRAM = CommandLine("scribe-spark")

# ------------------------------------------------------------------------------- configuration.md

_ABOUT_FIELDS = """\
# Configuration

Each setting is an option of the command line (`--leaf-set 16`), a key of a TOML file for `--config` (`leaf_set = 16`, at the top or in `[overlay]`), and an argument in Python (`RunConfig(leaf_set=16)`). Options override the file. `--set` sweeps any setting.

A dot marks the commands that have the setting: `run` and `sweep`, `world`, `reference-tree` (*tree*). A setting without a default is unset; one without values is `true` or `false`.
"""

_HEADER = ("setting", "run", "world", "tree", "values", "default", "unit", "meaning")


def configuration_page() -> str:
    """Return ``docs/configuration.md``."""
    sections: dict[str, list[list[str]]] = {}
    for by_command in documentation():
        first, *_ = by_command.values()
        sections.setdefault(first.section, []).append(_field_row(first, by_command))
    parts = [_ABOUT_FIELDS]
    for section, rows in sections.items():
        title = "Outside of sections" if section == "run" else f"`[{section}]`"
        parts.append(f"\n## {title}\n\n" + "".join(f"{line}\n" for line in table(_HEADER, rows)))
    return "".join(parts)


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
    values = {command: _code(field.typical) for command, field in fields.items()}
    first, *_ = values.values()
    others = {command: value for command, value in values.items() if value != first}
    more = [f"{command}: {value or 'unset'}" for command, value in others.items()]
    return ", ".join([first, *more] if first else more)


def _code(value: str) -> str:
    return f"`{value}`" if value else ""


# -------------------------------------------------------------------------- measures_reference.md

_ABOUT_MEASURES = """\
# All measures

The numbers in a run's `metrics.json` and in a world's table `rounds`. `SYSTEM` stands for the name of a system. The name of a number ends with a statistic, if the measure has several: `scribe.rad.median`.

| statistic | value |
|---|---|
| `mean`, `median`, `max`, `p50` ... `p99` | over the values that the definition names (percentiles by nearest rank) |
| `largest` | of the largest group, or the largest value |
| `below_1`, `below_2_25`, `below_4` | share of the members with a smaller value |
| `mean`, `median` of a stress | over the paper's number of links (*slots*): links between routers, and 100 LAN links per router, in both directions; missing if there are more links |
| `mean_existing`, `median_existing` | over all links, in both directions |

The unit x is a ratio. *Figure*: the figure or section of JSAC 2002. P is 50, 90, 95, 99 or 100, T a deadline. [concepts.md](concepts.md#the-measures) explains the main measures.
"""

_STATISTICS = r"mean|median|max|min|sum|largest|p50|p90|p95|p99|never|mean_existing|median_existing|below_[\d_]+"
#: The beginning of a definition that only says the statistic.
_SAYS_STATISTIC = re.compile(
    r"^(?:(?:Mean number of|Mean|Median|Maximum|Greatest)|The \d+th percentile|Share below [\d.]+)"
    r"(?: \(nearest rank\))?,?(?: over publications,)?(?: of)?(?: the)? "
)
#: The ending of a measure that is another one for trees of Scribe, for comparison.
_BESIDE = ".scribe"
_SAYS_LINKS = re.compile(r", over (?:the paper's link slots: core|all directed links, those).*$")


def measures_page() -> str:
    """Return ``docs/measures_reference.md``."""
    parts = [_ABOUT_MEASURES]
    for title, of_systems in (("Of a run", False), ("Of each system of a run", True)):
        found = _run_measures(of_systems)
        beside = {name for name, _ in found if name.endswith(_BESIDE)}
        rows = []
        for (name, text), of in found.items():
            if name in beside:
                continue
            names = f"`{name}`"
            if name + _BESIDE in beside:
                names += f", `{name}{_BESIDE}`"
                text += f" `{_BESIDE}`: in Scribe's trees."
            cells = [" ".join(of["statistics"]), ", ".join(of["units"]), of["figure"], text]
            rows.append([names, *cells])
        header = ("measure", "statistics", "unit", "figure", "definition")
        parts.append(f"\n## {title}\n\n" + "".join(f"{line}\n" for line in table(header, rows)))
    parts.append(_of_rounds())
    return "".join(parts)


#: A config with all questions, whose answers are metrics.
_ASKED = RunConfig(
    deadline="800ms", weights="weights.csv", quorum="2/3", replies=True, publications=2
)


def _run_measures(of_systems: bool) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the measures of runs: (name, definition) -> statistics, units, figure."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    texts: dict[str, str] = {}
    every = (metric for measure in all_measures() for metric in measure.metrics_of(_ASKED))
    for metric in every:
        if (metric.systems is not None) != of_systems:
            continue
        name, statistic = _split(metric.name)
        text = _without_statistic(metric.definition) if statistic else metric.definition
        name = f"SYSTEM.{name}" if of_systems else name
        key = name, texts.setdefault(name, _any_number(text))
        of = found.setdefault(key, {"statistics": {}, "units": {}, "figure": metric.figure or ""})
        of["statistics"] |= {statistic: None} if statistic else {}
        of["units"][metric.unit] = None
    return found


def _split(name: str) -> tuple[str, str]:
    """Return a metric's measure and its statistic, which may be empty.

    Examples
    --------
    >>> _split("time_to_90.p95"), _split("failure.depth_3.links"), _split("messages")
    (('time_to_P', 'p95'), ('failure.depth_D.links', ''), ('messages', ''))
    """
    measure, _, statistic = name.rpartition(".")
    if not re.fullmatch(_STATISTICS, statistic) or not measure:
        measure, statistic = name, ""
    return _any_number(measure), statistic


def _without_statistic(definition: str) -> str:
    """Return a definition of a measure without its statistic.

    Examples
    --------
    >>> _without_statistic("The 95th percentile (nearest rank) of the hops to a copy.")
    'Hops to a copy.'
    """
    text = _SAYS_LINKS.sub(".", _SAYS_STATISTIC.sub("", definition))
    return text[0].upper() + text[1:]


def _any_number(text: str) -> str:
    """Return a name or a definition with letters for its depth, its percentage or its number."""
    text = re.sub(r"(depth[ _])\d+([ _](\d+|and[ _]deeper))?", r"\1D", text)
    text = re.sub(r"\bwithin([_ ])800ms", r"within\1T", text)
    text = re.sub(r"\b(time_to|hops_to)_\d+", r"\1_P", re.sub(r"\b\d+ %", "P %", text))
    return re.sub(r"\.\d+$", ".N", text)


_ABOUT_ROUNDS = """
## Of a world's rounds

A sweep adds `.first`, `.last`, `.least`, `.most` and `.steady`. `CAUSE` is the cause of a JOIN (`own`, `forwarder`, `parent failed`, ...), `KIND` a kind of message, N a number of rounds or hops.

"""


_AS_OF_A_RUN = "As of a run."
_ALSO = "These measures of a round are defined as those of a run:"


def _of_rounds() -> str:
    """Return the section of the measures of a world's rounds."""
    rows, as_of_runs = [], []
    for name, of in round_measures().items():
        text, statistics = meaning_of(name), " ".join(of["statistics"])
        if text == _AS_OF_A_RUN:
            of_runs = {statistic for (run, _), row in _run_measures(True).items() if run == name
                       for statistic in row["statistics"]}  # fmt: skip
            notes = [statistics] if of_runs != {*of["statistics"]} else []
            notes += [f"of {_which(of)}"] if _which(of) else []
            as_of_runs.append(f"`{name}`" + (f" ({'; '.join(notes)})" if notes else ""))
        else:
            rows.append([f"`{name}`", statistics, ", ".join(of["units"]), _which(of), text])
    header = ("measure", "statistics", "unit", "systems", "definition")
    lines = "".join(f"{line}\n" for line in table(header, rows))
    return f"{_ABOUT_ROUNDS}{lines}\n{_ALSO} {', '.join(as_of_runs)}.\n"


def round_measures() -> dict[str, dict[str, dict[str, None]]]:
    """Return the measures of a world's rounds: name -> its statistics, units and systems."""
    systems = [system.name for system in all_systems()]
    found: dict[str, dict[str, dict[str, None]]] = {}
    for metric, unit in summary_units([(_ASKED.coverage, True)]).items():
        system, _, rest = measure_of(metric).partition(".")
        name, statistic = _split(rest if system in systems else measure_of(metric))
        name = re.sub(r"\b(joins|refused|messages)\.(?!at_root$).*", _kind, name)
        of = found.setdefault(
            f"SYSTEM.{name}" if system in systems else name,
            {"statistics": {}, "units": {}, "systems": {}},
        )
        of["statistics"] |= {statistic: None} if statistic else {}
        of["units"][unit] = None
        of["systems"] |= {system: None} if system in systems else {}
    return found


def _kind(found: re.Match[str]) -> str:
    return f"{found[1]}.{'CAUSE' if found[1] == 'joins' else 'KIND'}"


def meaning_of(name: str) -> str:
    """Return the meaning of a measure of a world's rounds."""
    measure = name.removeprefix("SYSTEM.")
    if measure in MEASURES:
        return MEASURES[measure]
    if name in {of for of, _ in _run_measures(True)}:
        return _AS_OF_A_RUN
    raise KeyError(name)


def _which(of: Mapping[str, Mapping[str, None]]) -> str:
    """Return the systems of a measure; nothing for a measure of all that a world can have."""
    living = {system.name for system in all_systems() if system.world} | {"scribe"}
    if set(of["systems"]) == living - {"scribe"}:
        return "all but scribe"
    return "" if living <= set(of["systems"]) else " ".join(of["systems"])


# -------------------------------------------------------------------------------------- tables.md

_ABOUT_TABLES = """\
# Tables

A run or a world writes its tables as Parquet folders into `OUT/tables/`. Later versions may add columns, but keep names, types and meanings.

Nodes, groups and routers have numbers: nodes from 0; groups from 1, the largest first, or as in the file of `--members`. `(id_hi, id_lo)` and `(key_hi, key_lo)` are the halves of an unsigned 128-bit number. The [last section](#every-column) explains all columns.

## Tables of a run

"""

_OF_RUNS = """
- `routers`: `kind`, `domain`, `x` and `y` are NULL if the topology does not have them.
- `deliveries`: with IP multicast and naive unicast, `hops` is 1. `Run.arrivals()` adds the sender of each first copy.
- `latency`: a run has one publication for each group, with the number 0. `unit` is `ms`; systems whose clock may be hops also have rows with `hops`. `t50` to `t100` are NULL if that share is never reached.
- `latency_counts`: `count` is the number of latencies above `value` - 1 and at most `value`.
- `link_stress` has only links with packets. `node_stress` of IP multicast is zero, since routers duplicate the packets.
- `routing_table` needs the option `--write-routing-table`.
- A run with [events](living.md#a-run-with-failures) also has the table `events`; its other tables cover the nodes that are alive at the end (rule S33).
- Other tables in the folder are internal and may change.
"""

_ABOUT_SYSTEMS = """
## Tables of some systems

A run has these tables if one of its systems provides them.

"""

_OF_SYSTEMS = """
- Trees have no rows in these tables: `tree_edges` has their copies and JOINs, and `node_stress` their state. `copies` also has the column `first` BOOLEAN: whether the copy is the first one at its receiver. `sent_ms` is NULL if the clock is hops.
- `control` counts the messages while members join. `control_stress` covers these and copies without payload; `link_stress` and `node_stress` cover payload only.
"""

_ABOUT_BYTES = """
## Bytes

A run with `message_size` has this table, with a row for every node and system.

"""

_OF_BYTES = """
- Each copy counts with the publication's size, without headers, at its sender and at its receiver; with IP multicast, at the source and at the members.
- Control messages count with their size in libp2p: IDONTWANT and IWANT 27 bytes, IHAVE 61, GRAFT 39, PRUNE 41; all others with `control_size`.
"""

_ABOUT_SCHEDULES = """
## Schedules of publications

A run with `schedule` or `publications` has these tables; `link_bytes` needs publications with a size. A world's `events` have `time` (ms) and `size` instead.

"""

_OF_SCHEDULES = """
- `deliveries` and `copies` also have the column `publication` BIGINT, the number in `schedule`, and `latency` has a row for each publication. Delays count from the time of the publication, `sent_ms` from time 0. `copies` includes copies of trees and IP multicast, but not the messages from sources to roots.
- `link_stress` and `bytes` are sums over all publications; `node_stress` counts each receiver of a node once. `tree_edges` has the edges of all sources.
"""

_ABOUT_PARTS = """
## Classes and regions

With [classes or regions](networks.md), `nodes` also has the column `class` or `region` STRING, and a run has these tables.

"""

_ABOUT_COVERAGE = """
## Deadlines and quorums

A run or world with `deadline` or `quorum` has these tables ([rules X1 to X6](rules.md#X1)).

"""

_OF_COVERAGE = """
- They have a row for each publication (and deadline), also if it reaches nobody. In a world they are those of the last round; `publication` is as in `latency`.
- Weights are NULL without `weights`. A time is NULL if it never comes.
"""

_ABOUT_WORLDS = """
## Tables of a world

A world has `routers`, `links`, `nodes` and these tables; the last three need groups.

"""

_OF_WORLDS = """
- `publications`: `in_time` + `late` + `lost` + `open` = `expected`.
- `rounds`: a count without a row is 0, except `publications.lost` (not due) and `control` (not simulated).
- `--measures delay` or `link_stress` adds the tables `tree_edges`, `deliveries`, `latency` and `latency_counts` of a run, for the publications of the last round (rule S25); without a schedule, the column `publication` is the round.
- `memberships` has the trees after the last round; `parent` is NULL at a root and at a node without a parent.
- `watched_trees` shows up to eight trees while they are repaired: before and after a round in which a node with children failed, then after each round until no orphan is left.
"""

_ABOUT_TREES = """
## Tables of `scribe-spark reference-tree`

"""

_ABOUT_COLUMNS = """
## Every column

"""


def tables_page() -> str:
    """Return ``docs/tables.md``."""
    of_a_world = schemas.WORLD_CONTRACT | schemas.GROUPS_CONTRACT | schemas.ROUND_PARTS_CONTRACT
    parts = (
        (_ABOUT_TABLES, schemas.CONTRACT, _OF_RUNS),
        (_ABOUT_SYSTEMS, schemas.SYSTEMS_CONTRACT, _OF_SYSTEMS),
        (_ABOUT_BYTES, schemas.BYTES_CONTRACT, _OF_BYTES),
        (_ABOUT_SCHEDULES, schemas.SCHEDULE_CONTRACT, _OF_SCHEDULES),
        (_ABOUT_PARTS, schemas.PARTS_CONTRACT, ""),
        (_ABOUT_COVERAGE, schemas.COVERAGE_CONTRACT, _OF_COVERAGE),
        (_ABOUT_WORLDS, of_a_world, _OF_WORLDS),
        (_ABOUT_TREES, schemas.REFERENCE_TREE_CONTRACT, ""),
    )
    text = "".join(before + _tables(contract) + after for before, contract, after in parts)
    return text + _ABOUT_COLUMNS + _columns([contract for _, contract, _ in parts])


def _tables(contract: Mapping[str, Any]) -> str:
    """Return the tables of a contract: name, meaning of a row, columns."""
    rows = [[f"`{name}`", ROWS[name], _schema(of)] for name, of in contract.items()]
    return "".join(f"{line}\n" for line in table(("table", "a row", "columns"), rows))


def _schema(schema: Any) -> str:
    """Return ``node:BIGINT id_hi:BIGINT``: the columns of a table and their types."""
    return " ".join(f"{f.name}:{f.dataType.simpleString().upper()}" for f in schema.fields)


def _columns(contracts: Iterable[Mapping[str, Any]]) -> str:
    """Return a row for each column of some contracts; columns of one meaning share a row."""
    names = sorted({name for of in contracts for schema in of.values() for name in schema.names})
    alike: dict[tuple[str, str], list[str]] = {}
    for name in names:
        alike.setdefault(COLUMNS[name], []).append(f"`{name}`")
    rows = [[", ".join(same), *described] for described, same in alike.items()]
    return "".join(f"{line}\n" for line in table(("column", "unit", "meaning"), rows))


# ------------------------------------------------------------------------------------ commands.md

_ABOUT_COMMANDS = """\
# Commands

Each command has two examples and its most important options here; `scribe-spark COMMAND --help` has all. [configuration.md](configuration.md) describes the options that are also settings of a file for `--config`.

| exit code | meaning |
|---|---|
| 0 | the command succeeded |
| 1 | the simulation failed, tables are damaged (`verify`), or measures differ too much (`compare --fail-above`) or are too low (`--fail-below`) |
| 2 | bad input: a message names the setting, its value and a remedy |
| 128 + N | signal N ended the command (130: Ctrl-C); repeat it with `--resume` to continue |
"""


def commands_page() -> str:
    """Return ``docs/commands.md``."""
    return _ABOUT_COMMANDS + "".join(
        f"\n## {name}\n\n{purpose}\n\n" + _used_options(command) + _examples(command)
        for name, purpose, command in _commands()
    )


def _commands() -> Iterator[tuple[str, str, click.Command]]:
    """Yield each command: its name, its purpose in a line, and its parser."""
    context = click.Context(_PROGRAM)
    for name, purpose in PURPOSES.items():
        command = _PROGRAM.get_command(context, name)
        assert command is not None
        yield name, purpose, command


#: The option of several commands that the page describes once.
_CONFIG = "--config"

#: The page has the first examples of a command; its help has all.
_EXAMPLES = 2


def _examples(command: click.Command) -> str:
    """Return the examples of a command as a block."""
    lines = _example_lines(command)[:_EXAMPLES]
    return "```sh\n" + "".join(f"{line}\n" for line in lines) + "```\n"


def _example_lines(command: click.Command) -> list[str]:
    text = (command.epilog or "").partition("Examples:\n")[2]
    return [line.strip() for line in text.splitlines() if line.strip()]


def _used_options(command: click.Command) -> str:
    """Return a table of the options that examples use and that are no fields of the config."""
    used = {word for line in _example_lines(command) for word in line.split()}
    described = (field.flat for by_command in documentation() for field in by_command.values())
    fields = {f"--{name.replace('_', '-')}" for name in described} | {_CONFIG}
    rows = [
        [f"`{option.opts[0]}`", _first_clause(option.help or "")]
        for option in command.params
        if isinstance(option, click.Option) and used & {*option.opts} - fields
    ]
    lines = table(("option", "meaning"), rows) if rows else []
    return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "")


def _first_clause(text: str) -> str:
    """Return the beginning of an option's help, up to its first semicolon or a list.

    Examples
    --------
    >>> _first_clause("Churn: mean lifetime of a node; at least a round  [default: 3]")
    'Churn: mean lifetime of a node'
    >>> _first_clause("Your own events: a table (round, node, event)")
    'Your own events'
    """
    text = text.partition(" [default")[0].partition("; ")[0]
    head, _, rest = text.partition(": ")
    return (text if rest and len(head.split()) <= 2 else head).strip()
