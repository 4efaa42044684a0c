"""The manifest of the run that is in OUT already, or the reason to refuse to go on with it.

A run goes on with a folder only where the manifest there is of the same config, the same input
files and the same versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError, shown
from scribe_spark.experiments.manifest import MANIFEST, check_shape, input_digests, version_of
from scribe_spark.experiments.owner import RUN, Owner, others_contents, owner_of, read_manifest
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
    names: Iterable[str], read: Callable[[str], str], config: RunConfig, execution: Execution
) -> dict[str, Any] | None:
    """The manifest of the run to go on with; None where there is none, or it is to be replaced.

    Parameters
    ----------
    names : iterable of str
        What is in the folder.
    read : callable
        A text of the folder by its name.

    Raises
    ------
    InputError
        The folder is somebody else's, or a run's of another config, input or version.
    """
    manifest = previous_manifest(names, read, config.flat(), execution)
    if manifest is None:
        return None
    refuse_other_inputs(input_digests(config), manifest["inputs"], config.flat(), execution.out)
    if str(config.topology.kind).startswith("topohub:"):
        refuse_other_version("topohub", manifest["versions"].get("topohub"), execution.out)
    return manifest


def previous_manifest(
    names: Iterable[str],
    read: Callable[[str], str],
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
    out = execution.out
    manifest = refuse_contents(out, names, read, execution.resume, execution.overwrite, owner)
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
    out: str,
    names: Iterable[str],
    read: Callable[[str], str],
    resume: bool,
    overwrite: bool,
    owner: Owner = RUN,
) -> dict[str, Any] | None:
    """Refuse a folder that is somebody else's, or the owner's without leave to go on or replace.

    Parameters
    ----------
    names : iterable of str
        What is in the folder.
    read : callable
        A text of the folder by its name.
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
    visible = [name for name in names if not name.startswith(".") and not name.endswith(".tmp")]
    if not visible:
        return None
    if MANIFEST not in visible:
        remedy = f"holds other things ({visible[0]}); name a new folder"
        raise InputError("out", out, remedy)
    manifest = read_manifest(out, read)
    _refuse_others(out, visible, manifest, owner)
    if not resume and not overwrite:
        raise InputError("out", out, "exists; use --resume to go on or --overwrite to replace it")
    if overwrite:
        return None
    if manifest is None:
        raise InputError("out", out, _UNREADABLE)
    return manifest


def _refuse_others(out: str, names: list[str], manifest: Any, owner: Owner) -> None:
    """Refuse a folder that another command has left; by its contents if its manifest is damaged."""
    if manifest is None:
        others = others_contents(names, owner)
        if others:
            remedy = (
                f"its {MANIFEST} cannot be read, and {others[0]} is not of {owner.noun}; name a "
                "new folder"
            )
            raise InputError("out", out, remedy)
        return
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
