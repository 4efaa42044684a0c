"""The console script: it finds commands by name, and reports bad input in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from scribe_spark import __version__
from scribe_spark.cli import PROGRAM, last_words
from scribe_spark.cli.parsing import answer_shell, refuse_unknown_flags, tell
from scribe_spark.core.errors import InputError, RunError, check_names, error_of_task
from scribe_spark.runtime.interrupts import end_processes, exit_code, interrupted, say

_FAILED, _BAD_INPUT = 1, 2

#: The purpose of each command; `commands` has the command under the same name, with underscores.
PURPOSES = {
    "compare": "Compare runs or worlds; exit with 1 if they differ too much.",
    "completion": "Print the completion script of your shell.",
    "doctor": "Check that a run can start; name a remedy for what is missing.",
    "paper": "Run every experiment of the Scribe paper, over ten topologies.",
    "reference-tree": "Measure the reference tree of Costa and Frey over a DHT.",
    "report": "Draw the report and the figures of a run again.",
    "run": "Simulate, measure and draw one experiment.",
    "sweep": "Run an experiment for each point of a grid of settings.",
    "topology": "Print the statistics of a topology; needs no Spark.",
    "verify": "Check that the tables of a folder are undamaged.",
    "world": "Simulate rounds in which nodes arrive, leave and fail.",
}

_EXAMPLES = """\b
Examples:
  scribe-spark run --nodes 2000 --groups 50 --out out/small
  scribe-spark report --out out/small
  scribe-spark verify out/small
  scribe-spark compare out/before out/after --fail-above 5%
  scribe-spark sweep --set b=1,2,4 --nodes 2000 --out out/b
  scribe-spark topology --seed 2
  scribe-spark paper --seeds 10 --out out/paper
  scribe-spark world --config data/world_mass_failure.toml
  scribe-spark reference-tree --children 2,3

Each command has its own --help."""


class CommandLine(click.Group):
    """The group of all commands; a command is imported at its use, so the list needs no config."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PURPOSES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        from scribe_spark.cli import commands, flags

        if name not in PURPOSES:
            return None
        return flags.with_added(getattr(commands, name.replace("-", "_")), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(PURPOSES.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with refuse_unknown_flags(self, ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        check_names([args[0]], PURPOSES, "command")
        if any(one.startswith("--import") for one in args):
            from scribe_spark.cli.flags import import_first

            import_first(args)
        return super().resolve_command(ctx, args)


def start(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name; return after a success, and exit otherwise."""
    _refuse_no_folder()
    text = "Simulate Scribe over Pastry, and other multicast systems, on Spark (JSAC 2002)."
    version = click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
    program = version(CommandLine(PROGRAM, help=text, epilog=_EXAMPLES))
    try:
        if answer_shell(program):
            return
        # not program.main(), which reports an interrupt in another way
        with program.make_context(PROGRAM, list(arguments) or ["--help"]) as context:
            program.invoke(context)
    except click.exceptions.Exit:  # --help, --version
        pass
    except KeyboardInterrupt:
        _leave(arguments)
    except Exception as error:
        if interrupted():  # the interrupt made a call fail
            _leave(arguments)
        _refuse(error, arguments)


def _refuse_no_folder() -> None:
    """Exit if the working directory was deleted: paths, Python and Java need it."""
    try:
        os.getcwd()
    except OSError as error:
        _stop(f"the working directory cannot be used ({error.strerror}); change to another one")


def _leave(arguments: Sequence[str]) -> NoReturn:
    """Exit after an interrupt with its exit code, and end all processes that were started."""
    if interrupted():
        end_processes()
    say(last_words(arguments))
    sys.exit(exit_code())


def _refuse(error: Exception, arguments: Sequence[str]) -> NoReturn:
    """Exit with one line for bad input; raise other errors."""
    error = error_of_task(error) or error
    match error:
        case click.BadOptionUsage(option_name=name):
            given = next((text for text in arguments if text.startswith(name)), name)
            _stop(str(InputError("flag", given, error.format_message())))
        case click.ClickException():
            _stop(str(InputError("arguments", " ".join(arguments), error.format_message())))
        case InputError():
            _stop(str(error))
        case RunError():
            _stop(str(error), _FAILED)
        case BrokenPipeError():  # the reader of stdout has ended, for example `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_FAILED)
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in ("pyspark", "py4j"):
            remedy = "pip install 'scribe-spark[spark]', or use the cluster's own pyspark"
            _stop(f"Spark is not installed: {remedy}; `{PROGRAM} doctor` looks for all it needs")
    raise error


def _stop(line: str, code: int = _BAD_INPUT) -> NoReturn:
    tell(f"{PROGRAM}: error: {line}", err=True)
    sys.exit(code)
