"""Flags from the fields of configs, and the settings that flags and a TOML file give together."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from scribe_spark.cli.parsing import Flag
from scribe_spark.config import (
    Execution,
    FieldRecord,
    Paper,
    RunConfig,
    fields_of,
    read_toml,
)
from scribe_spark.config.execution import PHASES, RUN_OUT
from scribe_spark.config.fields import COMMANDS, all_fields
from scribe_spark.config.section import ValueKind
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.core.errors import InputError
from scribe_spark.core.registry import import_extensions
from scribe_spark.systems.registry import (
    check_systems,
    described,
    system_choices,
    variant_choices,
)

EXECUTION_FIELDS = fields_of(Execution, "execution")
PAPER_FIELDS = fields_of(Paper, "paper")


class _Value(click.ParamType):
    """The type of a flag's values for click; the config checks their range and meaning."""

    def __init__(self, kind: ValueKind) -> None:
        self.kind = kind
        self.name = {"str": "text", "list": "names"}.get(kind.name, kind.name)

    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> Any:
        field = param.name if param and param.name else "value"
        if not isinstance(value, str):
            return value
        if value.startswith("--"):
            raise InputError(field, "", f"needs a value; {value} is the next flag")
        return self.kind.parse(field, value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the choices that begin with `incomplete`; without choices, shells offer files."""
        choices = list(map(str, self.kind.choices))
        before = ""
        if param.name in ("systems", "variants"):
            before, comma, incomplete = incomplete.rpartition(",")
            before += comma
            choices = variant_choices() if param.name == "variants" else system_choices()
        if not choices:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(before + text) for text in choices if text.startswith(incomplete)]


TEXT = _Value(ValueKind("str"))


def options(fields: Iterable[FieldRecord], out: str = RUN_OUT) -> list[Flag]:
    """Return an option of click for each field of a config; its value is None if it is not used."""
    return [_option(field, out if field.flat == "out" else field.typical) for field in fields]


def refused(names: Iterable[str]) -> list[Flag]:
    """Return hidden options for the names of fields that only the config of another command has."""
    return [Flag(["--" + name.replace("_", "-")], type=TEXT, hidden=True) for name in names]


def ignored(fields: Iterable[FieldRecord], why: str) -> list[Flag]:
    """Return hidden options for fields that a command does not use; `why` ends each error."""

    def refuse(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is not None:
            raise InputError(str(param.name), value, why)
        return value

    flags = options(fields)
    for flag in flags:
        flag.hidden, flag.callback = True, refuse
    return flags


def _option(field: FieldRecord, default: str) -> Flag:
    flag, text = "--" + field.flat.replace("_", "-"), described(field)
    if field.kind.name == "bool":
        # --no-... overrides a field that is true in the TOML file
        spelling = flag if field.section == "execution" else f"{flag}/--no-{flag[2:]}"
        text += "  [default: on]" if field.default is True else ""
        return Flag([spelling], default=None, help=text, is_flag=True, section=field.section)
    text += f"  [default: {default}]" if default else ""
    choices = "|".join(map(str, field.kind.choices)) or None
    kind = _Value(field.kind)
    return Flag([flag], type=kind, metavar=choices, help=text, section=field.section)


CONFIG = Flag(
    ["--config"],
    type=TEXT,
    metavar="FILE",
    help="TOML file with settings, named as the flags (leaf_set = 16), at the top or in sections "
    "([overlay], then leaf_set = 16); flags override the file",
)
DRY_RUN = Flag(
    ["--dry-run"],
    is_flag=True,
    help="Check the input as far as that is possible without Spark, print all settings as TOML, "
    "and stop",
)
SET = Flag(
    ["--set", "sets"],
    type=TEXT,
    multiple=True,
    metavar="FIELD=VALUE,...",
    help="Simulate once for each of these values of a setting; repeat the flag for a grid of "
    "several settings. Overrides the table [sweep] of the TOML file, which has lists: "
    "b = [1, 2, 4]",
)
PHASE = Flag(
    ["--phase", "phases"],
    type=TEXT,
    multiple=True,
    metavar="|".join(PHASES),
    help="Run only this phase, with the tables that earlier phases wrote into the folder of --out; "
    "may be repeated. The other flags must be the same in all phases",
)
FAIL_BELOW = Flag(
    ["--fail-below"],
    type=TEXT,
    multiple=True,
    metavar="MEASURE=NUMBER",
    help="Exit with 1 if a measure has no value or is below a limit: scribe.within_800ms=99% names "
    "measure and limit. For a world, the mean over the rounds counts; may be repeated",
)


#: The key of a TOML file with the same meaning as the flag ``--import``.
_IMPORT = "import"

IMPORT = Flag(
    ["--import", "imports"],
    type=TEXT,
    multiple=True,
    metavar="MODULE",
    help="Import this Python module first, which registers your own systems, measures or other "
    "extensions (docs/extending.md); for a file my_systems.py in the working directory, give "
    '--import my_systems. May be repeated; in a TOML file: import = ["my_systems"]',
)


def import_first(arguments: Sequence[str]) -> None:
    """Import the modules of ``--import`` before flags are made: modules may add sections."""
    pairs = itertools.pairwise(arguments)
    names = [name for flag, name in pairs if flag == "--import" and not name.startswith("--")]
    names += [one.removeprefix("--import=") for one in arguments if one.startswith("--import=")]
    if names:
        import_extensions(names)


def with_added(command: click.Command, name: str) -> click.Command:
    """Return the command with flags for the fields that imported extensions have added."""
    if name not in ("run", "sweep", "world"):
        return command
    extended, there = copy.copy(command), {param.name for param in command.params}
    fields = COMMANDS["run" if name == "sweep" else name].values()
    extended.params = [*command.params, *options(one for one in fields if one.flat not in there)]
    return extended


def _names(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(_IMPORT, value, "must be a list of names of modules")
    return names


def given_only(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return those flags that were used, as a dict without None."""
    return {name: value for name, value in flags.items() if value is not None}


def resolve(given: Mapping[str, Any]) -> tuple[RunConfig, Execution]:
    """Return the config and the execution from flags, and from the TOML file that flags name."""
    file, flags, execution = sources(given)
    config = RunConfig.of(file, flags)
    check_systems(config.trees.variants, config.trees.systems)
    refuse_unused(flags, [config])
    return config, execution


def sources(
    given: Mapping[str, Any],
    *tables: str,
    config: type[Sectioned] = RunConfig,
    out: str = RUN_OUT,
) -> tuple[dict[str, Any], dict[str, Any], Execution]:
    """Return the settings of the file, those of the flags, and the execution."""
    flags = given_only(given)
    path, modules = flags.pop("config", None), flags.pop("imports", ())
    read = {} if path is None else dict(read_toml(path))
    # first, as extensions may add sections
    import_extensions([*_names(read.pop(_IMPORT, [])), *modules])
    file = config.flat_values(read, beside={"execution": Execution}, tables=tables)
    where = {n: v for n, v in (file | flags).items() if n in EXECUTION_FIELDS}
    file, flags = ({n: v for n, v in some.items() if n not in where} for some in (file, flags))
    return file, flags, Execution(**{"out": out} | where)


def refuse_unused(flags: Mapping[str, Any], configs: Sequence[Sectioned]) -> None:
    """Refuse a flag without effect in all configs, unless it has the default value.

    Settings of a file are not checked: a file may serve several commands, and a flag may turn off
    the parts that other settings of the file describe.  Swept settings are checked, also those of a
    file: all points would be equal.
    """
    kind = type(configs[0])
    usual, values = kind().flat(), [config.flat() for config in configs]
    for name, field in all_fields(kind).items():
        if name not in flags or all(value[name] == usual[name] for value in values):
            continue
        for rule in field.rules:
            if not any(rule.test(config) for config in configs):
                raise InputError(name, flags[name], rule.remedy)
