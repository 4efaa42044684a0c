"""An import path on which Spark's archives are not before the same modules as pip installs them.

The import of this module changes the path of a Python worker: see `daemon`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def is_archive_of(path: str, folders: list[str]) -> bool:
    """Return True if a path is an archive in an installation of pyspark by pip, in `folders`."""
    archive = Path(path)
    if archive.suffix != ".zip" or len(archive.parents) < 4:
        return False
    package = archive.parents[2]  # pyspark/python/lib/pyspark.zip
    return (package / "__init__.py").is_file() and str(package.parent) in folders


sys.path[:] = [path for path in sys.path if not is_archive_of(path, sys.path)]
