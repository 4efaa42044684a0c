"""Folders for files that the driver and its tasks share, in Spark's scratch folder."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

#: The environment variable that names Spark's scratch folders, separated by commas.
SCRATCH = "SPARK_LOCAL_DIRS"


def scratch_folder() -> Path:
    """Return a new folder in the user's first scratch folder, deleted when the process ends."""
    first = os.environ.get(SCRATCH, "").split(",")[0] or None
    if first is not None:
        with suppress(OSError):  # Spark makes it, too; it may exist on executors only
            os.makedirs(first, exist_ok=True)
        first = first if os.access(first, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="scribe_spark-", dir=first))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
