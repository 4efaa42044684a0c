"""The command that has written a folder, from its manifest, and the files that it writes.

A command continues, replaces and deletes only its own files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scribe_spark.errors import InputError, one_line
from scribe_spark.experiments.manifest import MANIFEST


@dataclass(frozen=True)
class Owner:
    """A command that writes folders.

    Attributes
    ----------
    noun : str
        The result of the command, for messages.
    contents : tuple of str
        The files and folders that it writes into its folder, without the manifest and the folders
        of `inner`.
    inner : Owner, optional
        The owner of the inner folders: the points of a sweep, the runs of the paper.
    """

    noun: str
    contents: tuple[str, ...]
    inner: Owner | None = None


_PAGE = ("report.html", "figures", "tables")

RUN = Owner("a run", ("metrics.json", *_PAGE))
SWEEP = Owner("a sweep of runs", ("sweep", "sweep.html", "figures"), inner=RUN)
WORLD = Owner("a world", ("measures_even.json", "measures_odd.json", *_PAGE))
WORLD_SWEEP = Owner("a sweep of worlds", SWEEP.contents, inner=WORLD)
REFERENCE_TREE = Owner("experiments on the reference tree", ("metrics.json", "points", *_PAGE))
PAPER = Owner("the whole paper", ("metrics.json", *_PAGE), inner=RUN)

#: A setting of worlds that runs do not have.
_OF_WORLDS = "lookups"

OWNERS = (RUN, SWEEP, WORLD, WORLD_SWEEP, REFERENCE_TREE, PAPER)


def owner_of(manifest: Any) -> Owner | None:
    """Return the command that wrote the manifest, or None if no such command did.

    Each command has its own list of completed steps; a sweep has a run's list, which stays empty,
    and its points.
    """
    if not (isinstance(manifest, Mapping) and "resolved" in manifest):
        return None
    if "runs" in manifest:
        return PAPER
    if "world" in manifest:
        return WORLD
    if {"phases", "points"} <= manifest.keys():
        fields = manifest["resolved"]
        return WORLD_SWEEP if isinstance(fields, Mapping) and _OF_WORLDS in fields else SWEEP
    if "points" in manifest:
        return REFERENCE_TREE
    return RUN if "phases" in manifest else None


def points_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the folders of a sweep's points, without names that may lead elsewhere."""
    points = manifest.get("points")
    names = [name for name in points if isinstance(name, str)] if isinstance(points, list) else []
    return [name for name in names if "=" in name and not {"/", "\\"} & set(name)]


def read_manifest(out: str, read: Callable[[str], str]) -> Any:
    """Return the manifest of a folder.

    Parameters
    ----------
    out : str
        The folder.
    read : callable
        ``read(name)`` returns a text of the folder.

    Raises
    ------
    InputError
        The manifest cannot be read or is not JSON, so the contents of the folder are unknown.
    """
    try:
        return json.loads(read(MANIFEST))
    except InputError:  # the storage does not answer
        raise
    except (ValueError, RecursionError, OSError) as error:
        remedy = f"its {MANIFEST} cannot be read ({one_line(error)}); name another OUT"
        raise InputError("out", out, remedy) from None
