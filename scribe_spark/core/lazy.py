"""Names of a package that are loaded at their first use (PEP 562)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from scribe_spark.errors import shown


def load(package: str, name: str, homes: Mapping[str, str]) -> Any:
    """Return the object with a name of a package; `homes` has the module of each name."""
    if name not in homes:
        raise AttributeError(f"module {shown(package)} has no attribute {shown(name)}")
    return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
