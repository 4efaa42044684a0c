"""Modules of jobs/, loaded by their path."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

JOBS = Path(__file__).resolve().parents[1] / "jobs"


def load_job(name: str) -> ModuleType:
    """The module ``jobs/NAME.py``; as with ``python jobs/NAME.py`` it may import its siblings."""
    spec = importlib.util.spec_from_file_location(name, JOBS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(JOBS)
        spec.loader.exec_module(module)
    return module
