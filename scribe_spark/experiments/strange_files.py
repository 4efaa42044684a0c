"""Find files in OUT that no command has written, before they would be deleted.

A file is a command's by its name: each command writes files of fixed names, and Spark and pyarrow
name the files of tables.  Names of figures depend on the measures of a run; an SVG file has its own
name as a label, and PNG and CSV files have the name of the SVG file beside them.  A symbolic link
is never a command's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from scribe_spark import schemas
from scribe_spark.core.paths import is_temporary
from scribe_spark.runtime.filesystem import Files, FileStatus

#: In the folder of a table: rows, marks and checksums, and what a killed job has left.
_IN_TABLE = (
    r"part-\d[\w.-]*\.parquet",
    r"_SUCCESS",
    r"\.(part-\d[\w.-]*\.parquet|_SUCCESS)\.crc",
    r"(_temporary|\.spark-staging-[\w-]+)/.*",
    r"_(started|committed)_\w+",  # Databricks
)

_NAMES = re.compile(
    "|".join(
        (
            r"(report|sweep|compare)\.html|compare\.(csv|json)|metrics\.json|measures_(even|odd)\.json",
            r"points/(hosts|scaling)-\d+-children-\d+\.json",
            rf"(tables/({'|'.join(schemas.WRITTEN)})|sweep)/({'|'.join(_IN_TABLE)})",
        )
    )
)

_FIGURE = re.compile(r"(?P<stem>figures/(?P<name>[\w-]+))\.(svg|png|csv)")


def find_strange_file(files: Files, url: str, contents: Iterable[str]) -> str | None:
    """Return the path below `url` of the first file that no command has written, or None."""
    for path in contents:
        link = find_link(files, url, path)
        if link is not None:
            return link
        found = files.status(f"{url}/{path}")
        for each in [] if found is None else _files_of(files, found):
            inner = each.url.removeprefix(f"{url}/")
            if each.is_link or not _is_written(files, inner, each):
                return inner
    return None


def find_link(files: Files, url: str, path: str) -> str | None:
    """Return the first symbolic link on the way from the folder `url` to a path below it."""
    parts = path.split("/")
    for way in ("/".join(parts[:end]) for end in range(1, len(parts) + 1)):
        found = files.status(f"{url}/{way}")
        if found is not None and found.is_link:
            return way
    return None


def _files_of(files: Files, found: FileStatus) -> Iterator[FileStatus]:
    """Yield a file or link, or those of a folder; no link is followed."""
    if not found.is_folder or found.is_link:
        yield found
        return
    for inner in files.list(found.url):
        yield from _files_of(files, inner)


def _is_written(files: Files, path: str, file: FileStatus) -> bool:
    """Return whether a command writes a file of such a path."""
    if is_temporary(file.name) or _NAMES.fullmatch(path):
        return True
    figure = _FIGURE.fullmatch(path)
    if figure is None:
        return False
    # PNG and CSV belong to the SVG beside them, which `report.svg` labels
    drawing = f"{file.url.removesuffix(path)}{figure['stem']}.svg"
    found = files.status(drawing)
    if found is None or found.is_folder:
        return False
    if found.is_link:  # which is refused itself
        return True
    return f'aria-labelledby="{figure["name"]}-title '.encode() in files.read(drawing)
