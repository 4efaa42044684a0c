"""The output of commands, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from scribe_spark.redaction import redacted


def tell(line: str, *, err: bool = False) -> None:
    """Print a line on stdout, or stderr."""
    click.echo(redacted(line), err=err)


def tell_toml(fields: Mapping[str, Any]) -> None:
    """Print a config as a TOML file."""
    from scribe_spark.config import write_toml  # which takes a while to load

    click.echo(write_toml(redacted(dict(fields))), nl=False)
