"""The records in the manifest of each command: tables, texts, and inner folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scribe_spark.config.execution import PHASES
from scribe_spark.experiments.locations import inner_name, run_folder
from scribe_spark.experiments.manifest import Manifest
from scribe_spark.experiments.owner import (
    PAPER,
    REFERENCE_TREE,
    RUN,
    SWEEP,
    WORLD,
    WORLD_SWEEP,
    Owner,
)


@dataclass
class Records:
    """The records of tables, the digests of texts, and the inner folders of a manifest.

    Attributes
    ----------
    finished : bool
        True if the command has ended.
    tables, rows : mapping
        The record of each table in ``tables/``, and of a sweep's table beside it, by name.
    texts : mapping
        The digest of each text, by name.
    inside : list of str
        The folders of runs or worlds.
    """

    finished: bool
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)


def records_of(manifest: Manifest, owner: Owner) -> Records:
    """Return the records of a command's manifest.

    Raises
    ------
    InputError
        A name may lead elsewhere.
    KeyError, TypeError, ValueError, AttributeError
        The manifest does not have the form of the command's manifests.
    """
    for name in ("resolved", "inputs", "versions"):
        if not isinstance(manifest.get(name, {}), Mapping):
            raise TypeError(name)
    return _RECORDS[owner.noun](manifest)


def _of_run(manifest: Manifest) -> Records:
    phases = manifest["phases"]
    for phase in phases:
        PHASES.index(phase["name"])
        dict(phase.get("registered", {}))
    return Records(
        finished=any(phase["name"] == PHASES[-1] for phase in phases),
        tables=_tables({name: of for phase in phases for name, of in phase["tables"].items()}),
        texts=_named({name: of for phase in phases for name, of in phase["texts"].items()}),
    )


def _of_world(manifest: Manifest) -> Records:
    tables, saved = dict(manifest["world"]["tables"]), manifest["world"]["saved"]
    texts = {}
    if saved is not None:
        state, measures = names_of_save(saved)
        tables[state], texts[measures] = saved["state"], saved["measures"]
    return Records("rounds" in tables, _tables(tables), texts=_named(texts))


def names_of_save(saved: Manifest) -> tuple[str, str]:
    """Return the names of the table and the text of a save; in old manifests the round
    names them.
    """
    slot = saved.get("slot", ("even", "odd")[int(saved["number"]) % 2])
    return f"state_{slot}", f"measures_{slot}.json"


def _of_reference_tree(manifest: Manifest) -> Records:
    points = _named(manifest["points"])
    texts = {point_file(name): digest for name, digest in points.items()}
    return _together(manifest, texts=_named(manifest.get("texts", {})) | texts)


def point_file(name: str) -> str:
    """Return the name of the text with a point's measures."""
    return f"points/{name}.json"


def _of_sweep(manifest: Manifest) -> Records:
    points = _listed(manifest["points"])
    rows = _tables(manifest.get("tables", {}))
    inside = list(dict.fromkeys(map(inner_name, points)))
    return Records("tables" in manifest, rows=rows, inside=inside)


def _of_paper(manifest: Manifest) -> Records:
    runs = [run["name"].split(", seed ") for run in _listed(manifest["runs"])]
    inside = [run_folder(inner_name(name), inner_name(seed)) for name, seed in runs]
    return _together(manifest, texts=_named(manifest.get("texts", {})), inside=inside)


def _together(manifest: Manifest, **others: Any) -> Records:
    """Return the records of a command that writes its tables at its end."""
    return Records("tables" in manifest, _tables(manifest.get("tables", {})), **others)


def _tables(records: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: dict(record) for name, record in _named(records).items()}


def _named(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return records by name; refuse names that may lead elsewhere."""
    return {inner_name(name): record for name, record in records.items()}


def _listed(value: Any) -> list[Any]:
    """Return a value if it is a list; raise otherwise."""
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


_RECORDS: dict[str, Callable[[Manifest], Records]] = {
    RUN.noun: _of_run,
    SWEEP.noun: _of_sweep,
    WORLD.noun: _of_world,
    WORLD_SWEEP.noun: _of_sweep,
    REFERENCE_TREE.noun: _of_reference_tree,
    PAPER.noun: _of_paper,
}
