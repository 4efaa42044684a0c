"""Find the command that has left a folder, by its manifest, and what that command puts there.

A command goes on with, replaces and deletes only what is its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scribe_spark.config import EXPERIMENTS
from scribe_spark.errors import InputError, one_line
from scribe_spark.experiments.manifest import MANIFEST
from scribe_spark.runtime.filesystem import CorruptFileError

__all__ = [
    "OWNERS",
    "PAPER",
    "REFERENCE_TREE",
    "RUN",
    "SWEEP",
    "WORLD",
    "WORLD_SWEEP",
    "Owner",
    "others_contents",
    "owner_of",
    "read_manifest",
]


@dataclass(frozen=True)
class Owner:
    """A command that leaves folders.

    Attributes
    ----------
    noun : str
        What it leaves, for messages.
    contents : tuple of str
        All that it ever puts into its folder but the manifest and, of a sweep, its points: what
        ``--overwrite`` may delete.
    points : bool
        Whether there are folders ``field=value,...`` of its points, too.
    """

    noun: str
    contents: tuple[str, ...]
    points: bool = False


_PAGE = ("report.html", "figures", "tables")

RUN = Owner("a run", ("metrics.json", *_PAGE))
SWEEP = Owner("a sweep of runs", ("sweep", "sweep.html"), points=True)
WORLD = Owner("a world", ("measures_even.json", "measures_odd.json", *_PAGE))
WORLD_SWEEP = Owner("a sweep of worlds", SWEEP.contents, points=True)
REFERENCE_TREE = Owner("experiments on the reference tree", ("metrics.json", "points", *_PAGE))
PAPER = Owner("the whole paper", ("metrics.json", *EXPERIMENTS, *_PAGE))

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


def read_manifest(out: str, read: Callable[[str], str]) -> Any:
    """The manifest of a folder that has one; None where it is no JSON, or not even a text.

    Parameters
    ----------
    read : callable
        A text of the folder by its name.

    Raises
    ------
    InputError
        It cannot be read at all.
    """
    try:
        return json.loads(read(MANIFEST))
    except InputError:  # the storage does not answer
        raise
    except (ValueError, RecursionError, CorruptFileError):
        return None
    except OSError as error:
        raise InputError("out", out, f"its {MANIFEST} cannot be read ({one_line(error)})") from None


def others_contents(names: Iterable[str], owner: Owner) -> list[str]:
    """Return those of a folder's contents that only another command than `owner` leaves."""
    theirs = {name for other in OWNERS for name in other.contents} - set(owner.contents)
    return [name for name in names if name in theirs or ("=" in name and not owner.points)]
