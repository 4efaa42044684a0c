"""The manifest of the run that is in OUT already, or the reason to refuse to go on with it.

A run goes on with a folder only where the manifest there is of the same config, the same input
files and the same versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError, shown
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.manifest import MANIFEST, check_shape, input_digests, version_of
from scribe_spark.experiments.owner import RUN, Owner, owner_of, read_manifest
from scribe_spark.redaction import redacted

__all__ = [
    "previous_manifest",
    "previous_run_manifest",
    "refuse_contents",
    "refuse_other_config",
    "refuse_other_inputs",
    "refuse_other_version",
]

_UNREADABLE = f"its {MANIFEST} cannot be read; use --overwrite"


def previous_run_manifest(
    folder: StoredFolder, config: RunConfig, execution: Execution
) -> dict[str, Any] | None:
    """The manifest of the run to go on with; None where there is none, or it is to be replaced.

    Raises
    ------
    InputError
        The folder is somebody else's, or a run's of another config, input or version.
    """
    manifest = previous_manifest(folder, config.flat(), execution)
    if manifest is None:
        return None
    refuse_other_inputs(input_digests(config), manifest["inputs"], config.flat(), execution.out)
    if str(config.topology.kind).startswith("topohub:"):
        refuse_other_version("topohub", manifest["versions"].get("topohub"), execution.out)
    return manifest


def previous_manifest(
    folder: StoredFolder,
    resolved: Mapping[str, Any],
    execution: Execution,
    owner: Owner = RUN,
    check: Callable[[Mapping[str, Any]], None] = check_shape,
) -> dict[str, Any] | None:
    """The manifest to go on with, of a run, sweep or world whose fields are `resolved`; or None.

    Parameters
    ----------
    owner : Owner
        The command that asks.
    check : callable
        Raises unless all that is read of the manifest later has the form it needs.

    Raises
    ------
    InputError
        The folder is somebody else's, or was made with other fields or another version.
    """
    manifest, out = refuse_contents(folder, execution, owner), folder.out
    if manifest is None:
        return None
    try:
        check(manifest)
    except Exception:
        raise InputError("out", out, _UNREADABLE) from None
    refuse_other_config(resolved, manifest["resolved"], out)
    refuse_other_version("scribe_spark", manifest["versions"]["scribe_spark"], out)
    return manifest


# --- refusals


def refuse_contents(
    folder: StoredFolder, execution: Execution, owner: Owner
) -> dict[str, Any] | None:
    """Refuse a folder that is not the owner's, or without leave to go on with it or to replace it.

    Parameters
    ----------
    owner : Owner
        The command that asks.

    Returns
    -------
    dict or None
        The manifest to go on with, if there is one.

    Raises
    ------
    InputError
    """
    out = folder.out
    visible = [n for n in folder.names() if not n.startswith(".") and not n.endswith(".tmp")]
    if not visible:
        return None
    if MANIFEST not in visible:
        remedy = f"holds other things ({visible[0]}); name a new folder"
        raise InputError("out", out, remedy)
    manifest = read_manifest(out, folder.read_text)
    _refuse_others(out, manifest, owner)
    if execution.overwrite:
        folder.refuse_strange(owner)
        return None
    if not execution.resume:
        raise InputError("out", out, "exists; use --resume to go on or --overwrite to replace it")
    folder.refuse_strange_in_tables()
    return manifest


def _refuse_others(out: str, manifest: Any, owner: Owner) -> None:
    """Refuse a folder that another command has left."""
    found = owner_of(manifest)
    if found is None:
        raise InputError("out", out, f"holds a {MANIFEST} of something else; name a new folder")
    if found is not owner:
        remedy = f"holds {found.noun}, not {owner.noun}; name a new folder"
        raise InputError("out", out, remedy)


def refuse_other_version(library: str, version: str | None, out: str) -> None:
    """Refuse what another version of a library has made."""
    ours = version_of(library)
    if version != ours:
        remedy = f"{out} was made by {version}; use that, --overwrite or another OUT"
        raise InputError(library, ours, remedy)


def refuse_other_inputs(
    ours: Mapping[str, str], digests: Mapping[str, str], resolved: Mapping[str, Any], out: str
) -> None:
    """Refuse what was made of other input files, naming the first field whose digest differs."""
    for name, digest in ours.items():
        if digests.get(name) != digest:
            remedy = f"has changed since {out} was made; use --overwrite or another OUT"
            raise InputError(name, resolved[name], remedy)


def refuse_other_config(ours: Mapping[str, Any], resolved: Mapping[str, Any], out: str) -> None:
    """Refuse what was made with another config, naming the first field that differs."""
    # as the manifest has them, and as one has them that was written before secrets were left out
    ours, resolved = redacted(json.loads(json.dumps(ours))), redacted(resolved)
    names = [n for n in {**ours, **resolved} if ours.get(n) != resolved.get(n)]
    if names:
        name = names[0]
        remedy = (
            f"{out} was made with {name} = {shown(resolved.get(name))}; use that or another OUT"
        )
        raise InputError(name, ours.get(name), remedy)
