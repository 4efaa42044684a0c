"""Completion of commands and flags in shells, by the library click."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import get_completion_class, shell_complete

from scribe_spark.cli import PROGRAM
from scribe_spark.cli.output import tell
from scribe_spark.cli.parsing import Command
from scribe_spark.core.errors import check_names

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
