"""The output of commands, with secrets removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from scribe_spark.core.redaction import redacted


def tell(line: str, *, err: bool = False) -> None:
    """Print a line on stdout or stderr."""
    with _nobody_may_read(err=err):
        click.echo(redacted(line), err=err)


def tell_toml(fields: Mapping[str, Any]) -> None:
    """Print a config as a TOML file."""
    from scribe_spark.config import write_toml  # loaded here, as it takes a while

    with _nobody_may_read():
        click.echo(write_toml(redacted(dict(fields))), nl=False)


@contextmanager
def _nobody_may_read(*, err: bool = False) -> Iterator[None]:
    """Ignore, from now on, that the reader of the output has ended (as in ``| head``)."""
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (sys.stderr if err else sys.stdout).fileno())
