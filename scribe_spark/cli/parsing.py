"""Commands of click, with errors for bad flags and arguments in the form of other bad input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import click

from scribe_spark.core.errors import InputError, check_names


@contextmanager
def refuse_unknown_flags(command: click.Command, ctx: click.Context) -> Iterator[None]:
    """Raise for an unknown flag; the error names the nearest flag, however different."""
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
