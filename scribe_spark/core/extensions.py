"""Users' modules that register systems, measures, overlays and other extensions at their import."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from scribe_spark.core.errors import InputError, in_words

#: The group of entry points; commands import their modules without a flag.
GROUP = "scribe_spark.extensions"

#: Imported module -> SHA-256 of its file.
_IMPORTED: dict[str, str] = {}


def imported() -> dict[str, str]:
    """Return the SHA-256 of the file of each module that :func:`import_extensions` has imported."""
    return dict(_IMPORTED)


def import_extensions(names: Iterable[str] = ()) -> None:
    """Import the modules of installed extensions, then the named modules.

    Modules are also searched in the working directory, after the installed ones.
    """
    for point in entry_points(group=GROUP):
        _import(point.module, f"; uninstall the extension {point.name}")
    for name in names:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        _import(name)


def _import(name: str, remedy: str = "") -> None:
    try:
        module = importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError("import", name, _fault(name, error) + remedy) from None
    _IMPORTED[name] = _digest(module)


def _fault(name: str, error: BaseException) -> str:
    """Return the reason why a module cannot be imported, and the line of the user's file."""
    if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
        return (
            "is no module in the working directory, and none is installed; give a name as in "
            "`import my_systems`"
        )
    if name.endswith(".py") and isinstance(error, ModuleNotFoundError):
        return f"is a file; give the name of its module, {name.removesuffix('.py')}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    words = in_words(str(error) or type(error).__name__)
    return f"cannot be imported: {type(error).__name__}: {words}{place}"


def _digest(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
