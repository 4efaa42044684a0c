"""The console script: commands by name, and one line for whatever is wrong with the input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from scribe_spark.cli.parsing import refuse_unknown_flags
from scribe_spark.errors import InputError, RunError, check_names
from scribe_spark.runtime.interrupts import EXIT_CODE

__all__ = ["job", "main"]

_PROGRAM = "scribe-spark"
_FAILED, _BAD_INPUT = 1, 2

#: What each command does, in a line; the command itself is in `commands`, by the same name
#: with underscores.
_COMMANDS = {
    "paper": "Every experiment of Section IV, over ten topologies.",
    "reference-tree": "Costa and Frey's tree over a DHT: degrees, reconfiguration areas.",
    "report": "Draw report.html and the figures of a run again.",
    "run": "Simulate, measure, draw.",
    "sweep": "A grid of runs, one table.",
    "topology": "Statistics of a topology; no Spark needed.",
    "verify": "Whether all tables of a folder are as they were written.",
    "world": "Nodes come and go, round by round.",
}

_EXAMPLES = """\b
Examples:
  scribe-spark run --nodes 2000 --groups 50 --out out/small
  scribe-spark report --out out/small
  scribe-spark verify out/small
  scribe-spark sweep --set b=1,2,4 --nodes 2000 --out out/b
  scribe-spark topology --seed 2
  scribe-spark paper --seeds 10 --out out/paper
  scribe-spark world --config data/world_mass_failure.toml
  scribe-spark reference-tree --children 2,3

Each command has its own --help."""


class _Program(click.Group):
    """All commands, each loaded when it is asked for: the list of them needs no config."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        from scribe_spark.cli import commands

        return getattr(commands, name.replace("-", "_")) if name in _COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with refuse_unknown_flags(self, ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        check_names([args[0]], _COMMANDS, "command")
        return super().resolve_command(ctx, args)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script ``scribe-spark``."""
    arguments = sys.argv[1:] if arguments is None else arguments
    text = "Scribe over Pastry on Spark: the evaluation of JSAC Section IV from one command."
    _start(_Program(_PROGRAM, help=text, epilog=_EXAMPLES), arguments or ["--help"])


def job(command: str) -> NoReturn:
    """Run `command` with the flags of this process: the body of each script in ``jobs/``."""
    main([command, *sys.argv[1:]])


def _start(command: click.Command, arguments: Sequence[str]) -> NoReturn:
    """Run `command`; whatever is wrong with the input is one line and exit code 2."""
    try:
        # not command.main(), which has words of its own for an interrupt
        with command.make_context(command.name, list(arguments)) as context:
            command.invoke(context)
    except click.exceptions.Exit:  # --help
        pass
    except click.BadOptionUsage as error:
        given = next((a for a in arguments if a.startswith(error.option_name)), error.option_name)
        _stop(str(InputError("flag", given, error.format_message())))
    except click.ClickException as error:
        _stop(str(InputError("arguments", " ".join(arguments), error.format_message())))
    except InputError as error:
        _stop(str(error))
    except RunError as error:
        _stop(str(error), _FAILED)
    except KeyboardInterrupt:
        line = "interrupted; the same command with --resume goes on after the last complete phase"
        click.echo(f"{_PROGRAM}: {line}", err=True)
        sys.exit(EXIT_CODE)
    sys.exit(0)


def _stop(line: str, code: int = _BAD_INPUT) -> NoReturn:
    click.echo(f"{_PROGRAM}: error: {' '.join(line.split())}", err=True)
    sys.exit(code)
