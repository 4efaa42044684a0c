"""Find the command that has left a folder, by its manifest, and what that command puts there.

A command goes on with, replaces and deletes only what is its own.
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
    """A command that leaves folders.

    Attributes
    ----------
    noun : str
        What it leaves, for messages.
    contents : tuple of str
        The files and folders that it puts into its folder, but the manifest and folders of `inner`.
    inner : Owner, optional
        The owner of the folders inside: of the points of a sweep, of the runs of the paper.
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

#: A field that worlds have and runs do not.
_OF_WORLDS = "lookups"

OWNERS = (RUN, SWEEP, WORLD, WORLD_SWEEP, REFERENCE_TREE, PAPER)


def owner_of(manifest: Any) -> Owner | None:
    """Return the command whose manifest it is; None where it is nobody's of these.

    Each has a list of its own of what is done; a sweep has a run's, which stays empty, and its
    points.
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
    """Return the folders of a sweep's points; names that may lead elsewhere are left out."""
    points = manifest.get("points")
    names = [name for name in points if isinstance(name, str)] if isinstance(points, list) else []
    return [name for name in names if "=" in name and not {"/", "\\"} & set(name)]


def read_manifest(out: str, read: Callable[[str], str]) -> Any:
    """Return the manifest of a folder that has one.

    Parameters
    ----------
    read : callable
        A text of the folder by its name.

    Raises
    ------
    InputError
        It cannot be read, or is not JSON: nothing says what the folder holds.
    """
    try:
        return json.loads(read(MANIFEST))
    except InputError:  # the storage does not answer
        raise
    except (ValueError, RecursionError, OSError) as error:
        remedy = f"its {MANIFEST} cannot be read ({one_line(error)}); name another OUT"
        raise InputError("out", out, remedy) from None
