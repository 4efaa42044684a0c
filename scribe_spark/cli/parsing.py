"""Commands of click, their output without secrets, and the completion of their words in shells."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import click
from click.shell_completion import get_completion_class, shell_complete

from scribe_spark.cli import PROGRAM
from scribe_spark.core.errors import InputError, check_names, redacted


def tell(line: str, *, err: bool = False) -> None:
    """Print a line on stdout, or on stderr with `err`, without secrets."""
    with _nobody_may_read(err=err):
        click.echo(redacted(line), err=err)


def tell_toml(fields: Mapping[str, Any]) -> None:
    """Print a config as a TOML file."""
    from scribe_spark.config import write_toml  # loaded here, as it takes a while

    with _nobody_may_read():
        click.echo(write_toml(redacted(dict(fields))), nl=False)


@contextmanager
def _nobody_may_read(*, err: bool = False) -> Iterator[None]:
    """Ignore, from now on, that the program that reads our output has ended (as in ``| head``)."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (sys.stderr if err else sys.stdout).fileno())


@contextmanager
def refuse_unknown_flags(command: click.Command, ctx: click.Context) -> Iterator[None]:
    """Turn click's error for an unknown flag into an `InputError` that names the nearest flag."""
    try:
        yield
    except click.NoSuchOption as error:
        options = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
        flags = [name for option in options for name in option.opts]
        check_names([error.option_name], flags, "flag")
        raise


class Flag(click.Option):
    """An option that ``--help`` lists in a section."""

    def __init__(self, *args: Any, section: str = "options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Command(click.Command):
    """A command that reports unknown flags and unexpected arguments as InputErrors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with refuse_unknown_flags(self, ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.args:
            raise InputError("argument", ctx.args[0], "is not expected; see --help")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from scribe_spark.config.fields import about  # only the help of a command needs the config

        def section(param: click.Parameter) -> str:
            return getattr(param, "section", "options")

        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        for name, params in groupby(options, section):
            rows = [row for param in params if (row := param.get_help_record(ctx))]
            if rows:  # a section may have hidden flags only
                with formatter.section(name.capitalize()):
                    if text := about(name):
                        indent = " " * formatter.current_indent
                        text = click.wrap_text(text, formatter.width, indent, indent)
                        formatter.write(f"{text}\n\n")
                    formatter.write_dl(rows)


#: The environment variable by which a shell asks for possible next words.
VARIABLE = "_SCRIBE_SPARK_COMPLETE"

_SHELLS = ("bash", "zsh", "fish")


def answer_shell(program: click.Group) -> bool:
    """Answer a shell that asks for possible next words; return False if no shell asks."""
    asked = os.environ.get(VARIABLE)
    if asked and (code := shell_complete(program, {}, PROGRAM, VARIABLE, asked)):
        sys.exit(code)
    return bool(asked)


def _completion(shell: str) -> None:
    check_names([shell], _SHELLS, "shell")
    made = get_completion_class(shell)
    assert made is not None
    tell(made(click.Group(PROGRAM), {}, PROGRAM, VARIABLE).source())


completion = Command(
    "completion",
    callback=_completion,
    params=[click.Argument(["shell"], metavar="|".join(_SHELLS))],
    help="Print a script for a shell, which then completes commands and flags.",
    epilog="\b\nExamples:\n"
    "  source <(scribe-spark completion bash)    # in ~/.bashrc; zsh the same, in ~/.zshrc\n"
    "  scribe-spark completion fish | source     # in ~/.config/fish/config.fish",
)
