"""Names of a package that are loaded when they are first asked for (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from scribe_spark.errors import shown


def load(package: str, name: str, homes: Mapping[str, str]) -> Any:
    """Return what a name of a package stands for.

    Parameters
    ----------
    homes : mapping of str to str
        Name -> the module of the package that has it, such as ``measures.measure``.

    Raises
    ------
    AttributeError
        The package has no such name.
    """
    if name not in homes:
        raise AttributeError(f"module {shown(package)} has no attribute {shown(name)}")
    return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
