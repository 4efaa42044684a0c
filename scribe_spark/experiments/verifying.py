"""Verify that the tables and texts which a folder's manifest records are as they were written.

Tables are verified by the length and CRC-32 of their files, texts by their SHA-256.  Pages and
figures are drawn from these, and are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import refuse_local_lock
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.locations import inner_name, join, local_contents, run_folder
from scribe_spark.experiments.manifest import MANIFEST
from scribe_spark.experiments.owner import (
    PAPER,
    REFERENCE_TREE,
    RUN,
    SWEEP,
    WORLD,
    WORLD_SWEEP,
    Owner,
    owner_of,
    read_manifest,
)
from scribe_spark.experiments.phases import REPORT
from scribe_spark.experiments.run_world import names_of_save
from scribe_spark.inputs import is_local

__all__ = ["Verified", "check_verify", "verify"]

_NO_MANIFEST = f"has no {MANIFEST}: it holds nothing that can be verified"


@dataclass
class Verified:
    """The tables and texts of a folder and of those inside it, looked at.

    Attributes
    ----------
    noun : str
        What the folder holds: ``a run``.
    finished : bool
        Whether all of it has been made.
    tables, texts : int
        How many were looked at.
    damaged : list of str
        A line for each that is not as written: ``tables/nodes: part-0.parquet is missing``.
    """

    noun: str
    finished: bool
    tables: int = 0
    texts: int = 0
    damaged: list[str] = field(default_factory=list)

    def add(self, inner: Verified, inside: str) -> None:
        """Count what a folder inside has."""
        self.tables += inner.tables
        self.texts += inner.texts
        self.damaged += [f"{inside}/{line}" for line in inner.damaged]
        if self.finished and not inner.finished:
            self.damaged.append(f"{inside}: it is not finished")


@dataclass
class _Records:
    """A manifest's records of tables and digests of texts, by name; and the folders inside.

    All folders inside are those of one command.
    """

    finished: bool
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)
    inside_owner: Owner = RUN


def check_verify(out: str) -> None:
    """Refuse a local folder without a manifest, or where a run is at work, before Spark is started.

    Raises
    ------
    InputError
    """
    if is_local(out):
        if MANIFEST not in local_contents(out)[0]:
            raise InputError("out", out, _NO_MANIFEST)
        refuse_local_lock(out)


def verify(out: str, spark: SparkSession | None = None) -> Verified:
    """Look at all tables and texts that a folder's manifest records.

    Parameters
    ----------
    spark : SparkSession, optional
        Not needed where the folder is on this machine.

    Raises
    ------
    InputError
        The folder is of no command, its manifest cannot be read, or the storage does not answer.

    Examples
    --------
    >>> verify("out/run").damaged
    []
    """
    return _verify(out, spark)


def _verify(out: str, spark: SparkSession | None, expected: Owner | None = None) -> Verified:
    """As `verify`; a folder of another command than the expected one is refused."""
    with StoredFolder(spark, out) as folder:
        names = folder.names()
        if MANIFEST not in names:
            raise InputError("out", out, _NO_MANIFEST)
        manifest = read_manifest(out, folder.read_text)
        owner = owner_of(manifest)
        if owner is None:
            remedy = f"its {MANIFEST} is of something else: nothing can be verified"
            raise InputError("out", out, remedy)
        if expected is not None and owner is not expected:
            raise InputError("out", out, f"it holds {owner.noun}, not {expected.noun}")
        try:
            records = _RECORDS[owner.noun](manifest)
            found = Verified(owner.noun, records.finished)
            found.damaged += _damage(folder, records)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            remedy = f"its {MANIFEST} cannot be read as that of {owner.noun}"
            raise InputError("out", out, remedy) from None
        found.tables, found.texts = len(records.tables) + len(records.rows), len(records.texts)
    for name in records.inside:
        # of an unfinished sweep, those points that it has got to
        if records.finished or owner is PAPER or name in names:
            _verify_inside(found, out, name, spark, records.inside_owner)
    return found


def _verify_inside(
    found: Verified, out: str, inside: str, spark: SparkSession | None, owner: Owner
) -> None:
    try:
        inner = _verify(join(out, inside), spark, owner)
    except InputError as error:
        found.damaged.append(f"{inside}: {error.remedy if error.field == 'out' else error}")
    else:
        found.add(inner, inside)


def _damage(folder: StoredFolder, records: _Records) -> Iterator[str]:
    looks: list[tuple[str, Mapping[str, Any], Callable[[str, Any], str | None]]] = [
        ("tables/", records.tables, folder.verify_table),
        ("", records.rows, folder.verify_rows),
        ("", records.texts, folder.verify_text),
    ]
    for place, recorded, look in looks:
        for name, record in recorded.items():
            problem = look(name, record)
            if problem is not None:
                yield f"{place}{name}: {problem}"


# --- what each command's manifest records


def _of_run(manifest: Mapping[str, Any]) -> _Records:
    phases = manifest["phases"]
    return _Records(
        finished=any(phase["name"] == REPORT for phase in phases),
        tables=_named({name: of for phase in phases for name, of in phase["tables"].items()}),
        texts=_named({name: of for phase in phases for name, of in phase["texts"].items()}),
    )


def _of_world(manifest: Mapping[str, Any]) -> _Records:
    tables, saved = dict(manifest["world"]["tables"]), manifest["world"]["saved"]
    texts = {}
    if saved is not None:
        state, measures = names_of_save(saved)
        tables[state], texts[measures] = saved["state"], saved["measures"]
    return _Records("rounds" in tables, _named(tables), texts=_named(texts))


def _of_reference_tree(manifest: Mapping[str, Any]) -> _Records:
    points = _named(manifest["points"])
    return _Records(
        finished="tables" in manifest,
        tables=_named(manifest.get("tables", {})),
        texts=_named(manifest.get("texts", {}))
        | {f"points/{name}.json": digest for name, digest in points.items()},
    )


def _of_sweep(manifest: Mapping[str, Any]) -> _Records:
    points = _listed(manifest["points"])
    return _Records(
        finished="tables" in manifest,
        rows=_named(manifest.get("tables", {})),
        inside=list(dict.fromkeys(map(inner_name, points))),
    )


def _of_world_sweep(manifest: Mapping[str, Any]) -> _Records:
    return replace(_of_sweep(manifest), inside_owner=WORLD)


def _of_paper(manifest: Mapping[str, Any]) -> _Records:
    runs = [run["name"].split(", seed ") for run in _listed(manifest["runs"])]
    return _Records(
        finished="tables" in manifest,
        tables=_named(manifest.get("tables", {})),
        texts=_named(manifest.get("texts", {})),
        inside=[run_folder(inner_name(name), inner_name(seed)) for name, seed in runs],
    )


def _named(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return records by name; refuse names that may lead elsewhere."""
    return {inner_name(name): record for name, record in records.items()}


def _listed(value: Any) -> list[Any]:
    """Return a value that must be a list."""
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


_RECORDS: dict[str, Callable[[Mapping[str, Any]], _Records]] = {
    RUN.noun: _of_run,
    SWEEP.noun: _of_sweep,
    WORLD.noun: _of_world,
    WORLD_SWEEP.noun: _of_world_sweep,
    REFERENCE_TREE.noun: _of_reference_tree,
    PAPER.noun: _of_paper,
}
