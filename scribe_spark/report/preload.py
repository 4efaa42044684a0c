"""Load the libraries of drawings in a thread, while the program waits for other work."""

from __future__ import annotations

import importlib
import threading

from scribe_spark.report.page import environment

#: The libraries, whose import takes 0.4 s of processor time together.
_MODULES = (
    "matplotlib.style",
    "matplotlib.figure",
    "matplotlib.legend",
    "matplotlib.ticker",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "PIL.PngImagePlugin",
)


def preload() -> threading.Thread:
    """Import the libraries that draw the report, and compile the templates, in a thread; return
    the thread.
    """
    thread = threading.Thread(target=_load, name="preload-report", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(module)
    for template in environment().list_templates(extensions=["html"]):
        environment().get_template(template)
