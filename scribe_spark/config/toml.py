"""TOML in and out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scribe_spark.errors import InputError

__all__ = ["read_toml", "write_toml"]


def read_toml(path: str | Path) -> dict[str, Any]:
    """The keys of a TOML config file.

    Raises
    ------
    InputError
        Missing or malformed file.
    """
    if not str(path).strip() or "\0" in str(path):
        raise InputError("config", str(path), "must name a file")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InputError("config", str(path), f"cannot be read ({error.strerror})") from None
    except RecursionError:
        raise InputError("config", str(path), "is not a config: it is nested too deeply") from None
    except ValueError as error:  # of its text, or of its encoding
        raise InputError("config", str(path), f"is not TOML: {error}") from None


def write_toml(values: Mapping[str, Any]) -> str:
    """Values as `read_toml` reads them; what is None is left out."""
    import tomli_w

    return tomli_w.dumps({name: value for name, value in values.items() if value is not None})
