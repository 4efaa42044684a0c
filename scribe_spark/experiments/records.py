"""Read what the manifest of each command records: tables, texts, and the folders inside."""

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
    """A manifest's records of tables and digests of texts, by name; and the folders inside.

    Attributes
    ----------
    finished : bool
        Whether the command has come to its end.
    tables, rows : mapping
        Name -> record, of what is in ``tables/``, and of a sweep's table beside that.
    texts : mapping
        Name -> digest.
    inside : list of str
        Folders of runs or worlds.
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
        A name that may lead elsewhere.
    KeyError, TypeError, ValueError, AttributeError
        The manifest has not the form that the command gives it.
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
    """Return the table and the text that a save is in; without a slot the round says which."""
    slot = saved.get("slot", ("even", "odd")[int(saved["number"]) % 2])
    return f"state_{slot}", f"measures_{slot}.json"


def _of_reference_tree(manifest: Manifest) -> Records:
    points = _named(manifest["points"])
    texts = {point_file(name): digest for name, digest in points.items()}
    return _together(manifest, texts=_named(manifest.get("texts", {})) | texts)


def point_file(name: str) -> str:
    """Return the text of a point's measures."""
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
    """Return the records of a command whose tables are written at its end."""
    return Records("tables" in manifest, _tables(manifest.get("tables", {})), **others)


def _tables(records: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: dict(record) for name, record in _named(records).items()}


def _named(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return records by name; refuse names that may lead elsewhere."""
    return {inner_name(name): record for name, record in records.items()}


def _listed(value: Any) -> list[Any]:
    """Return a value that must be a list."""
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
