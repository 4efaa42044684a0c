"""The plan of a command's output in OUT: begin a new manifest, or find the manifest to continue.

A command continues a folder only if the manifest there has the same config, the same input files
and the same versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from scribe_spark.config import Execution, RunConfig
from scribe_spark.config.section import Section
from scribe_spark.core.errors import InputError, in_series, redacted, shown
from scribe_spark.core.paths import refuse_old
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.manifest import (
    MANIFEST,
    RUN,
    Manifest,
    Owner,
    Records,
    input_digests,
    owner_of,
    provenance,
    read_manifest,
    records_of,
    version_of,
)
from scribe_spark.topology import regions

NO_MANIFEST = f"has no {MANIFEST}: it holds no results of scribe-spark"


@dataclass(frozen=True)
class Plan:
    """The plan of a command: its files in OUT, and whether it continues an earlier command."""

    owner: Owner
    execution: Execution
    #: The value and the default of each setting of the command, by flat name.
    resolved: Manifest
    defaults: Manifest
    #: Further entries of a new manifest, before and after those about place and tools.
    about: Manifest
    done: Manifest
    #: Returns the digest of each input file by setting, for commands with own inputs.
    inputs: Callable[[], Mapping[str, str]] | None = None
    #: The number of nodes for which Spark is set up; None: each point has its own.
    nodes: int | None = None
    #: The folders of runs or worlds in OUT.
    inner: Collection[str] = ()
    #: Settings that may differ when the command continues.
    free: Collection[str] = ()
    #: Refuses to continue a manifest for the command's own reasons.
    check: Callable[[Manifest], None] = field(default=lambda manifest: None)

    def new_manifest(self, spark: SparkSession) -> dict[str, Any]:
        """Return the manifest of a command without completed steps."""
        return {
            "config": non_default(self.resolved, self.defaults),
            "resolved": dict(self.resolved),
            **self.about,
            **({} if self.inputs is None else {"inputs": self.inputs()}),
            **provenance(self.execution, spark),
            **self.done,
        }

    def previous(self, folder: StoredFolder) -> dict[str, Any] | None:
        """Return the manifest to continue; None if there is none, or if it is to be replaced."""
        manifest, out = self._refuse_contents(folder), folder.out
        if manifest is None:
            return None
        try:
            records_of(manifest, self.owner)
            theirs = {n: v for n, v in manifest["resolved"].items() if n not in self.free}
            versions = dict(manifest["versions"])
            version = versions["scribe_spark"]
        except Exception:
            raise InputError(
                "out", out, f"its {MANIFEST} cannot be read; use --overwrite"
            ) from None
        ours = {n: v for n, v in self.resolved.items() if n not in self.free}
        refuse_other_config(ours, theirs, out)
        _refuse_other_version("scribe_spark", version, out)
        digests = manifest.get("inputs", {})
        for name, digest in () if self.inputs is None else self.inputs().items():
            if digests.get(name) != digest:
                remedy = f"has changed since {out} was made; use --overwrite or another OUT"
                raise InputError(name, ours[name], remedy)
        if str(ours.get("topology")).startswith("topohub:"):
            _refuse_other_version("topohub", versions.get("topohub"), out)
        self.check(manifest)
        return manifest

    def _refuse_contents(self, folder: StoredFolder) -> dict[str, Any] | None:
        """Return the manifest in OUT to resume, if any; refuse contents of another command."""
        out, execution = folder.out, self.execution
        names = folder.names()
        if MANIFEST not in names:
            refuse_old(out, names)
            return None
        manifest: dict[str, Any] = read_manifest(out, folder.read_text)
        found = owner_of(manifest)
        if found is not self.owner:
            theirs = f"a {MANIFEST} of another program"
            holds = theirs if found is None else f"{found.noun}, not {self.owner.noun}"
            raise InputError("out", out, f"holds {holds}; name a new folder")
        if execution.overwrite:
            folder.refuse_strange(self.owner)
            return None
        if not execution.resume:
            remedy = "exists; use --resume to continue or --overwrite to replace it"
            raise InputError("out", out, remedy)
        folder.refuse_links(self.owner)
        folder.refuse_strange_in_tables()
        return manifest


def plan_run(config: RunConfig, execution: Execution) -> Plan:
    """Return the plan of a run."""
    return Plan(
        RUN,
        execution,
        *settings_of(config),
        about={"seed": config.seed},
        done={"phases": []},
        inputs=lambda: input_digests(config),
        nodes=config.overlay.nodes,
    )


def settings_of(config: Section) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a config with the values that are used, and the defaults."""
    return {**config.flat(), **used_settings(config)}, type(config)().flat()


def used_settings(config: Section) -> dict[str, Any]:
    """Return the settings that an input file decides instead of the config, by flat name."""
    topology = getattr(config, "topology", None)
    return {} if topology is None else regions.used_settings(topology)


def non_default(resolved: Manifest, defaults: Manifest) -> dict[str, Any]:
    """Return the fields of a config whose values are not the defaults."""
    return {n: v for n, v in resolved.items() if n in defaults and v != defaults[n]}


# --- errors


def _refuse_other_version(library: str, version: str | None, out: str) -> None:
    ours = version_of(library)
    if version != ours:
        remedy = f"{out} was made by {version}; use that, --overwrite or another OUT"
        raise InputError(library, ours, remedy)


def refuse_other_config(ours: Mapping[str, Any], resolved: Mapping[str, Any], out: str) -> None:
    """Refuse the output of another config; name the first setting that differs."""
    # as this version writes them, and as earlier versions did, with secrets
    ours, resolved = redacted(json.loads(json.dumps(ours))), redacted(resolved)
    names = [n for n in {**ours, **resolved} if ours.get(n) != resolved.get(n)]
    if names:
        name = names[0]
        remedy = (
            f"{out} was made with {name} = {shown(resolved.get(name))}; use that or another OUT"
        )
        raise InputError(name, ours.get(name), remedy)


# --- what folders hold, by their manifests


def read_records(folder: StoredFolder, *owners: Owner) -> tuple[Owner, dict[str, Any], Records]:
    """Return the command that wrote a folder, one of `owners`, its manifest and records."""
    out = folder.out
    if MANIFEST not in folder.names():
        raise InputError("out", out, NO_MANIFEST)
    manifest: dict[str, Any] = read_manifest(out, folder.read_text)
    owner = owner_of(manifest)
    if owner is None:
        raise InputError("out", out, f"its {MANIFEST} belongs to something else")
    if owners and owner not in owners:
        expected = in_series([one.noun for one in owners], len(owners))
        raise InputError("out", out, f"it holds {owner.noun}, not {expected}")
    try:
        return owner, manifest, records_of(manifest, owner)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        remedy = f"its {MANIFEST} cannot be read as that of {owner.noun}"
        raise InputError("out", out, remedy) from None
