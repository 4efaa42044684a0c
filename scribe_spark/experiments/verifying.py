"""The verification that the tables and texts of a folder's manifest are as they were written.

Tables are verified by the length and CRC-32 of their files, texts by their SHA-256.  Pages and
figures are drawn from these, and are not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import is_local
from scribe_spark.core.paths import local_contents
from scribe_spark.experiments.checks import refuse_local_lock
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.manifest import (
    MANIFEST,
    PAPER,
    Owner,
    join,
    owner_of,
    read_manifest,
    records_of,
)

_NO_MANIFEST = f"has no {MANIFEST}: it holds nothing that can be verified"


@dataclass
class Verified:
    """The result of a verification of a folder and of its inner folders."""

    noun: str
    finished: bool
    tables: int = 0
    texts: int = 0
    damaged: list[str] = field(default_factory=list)


def check_verify(out: str) -> None:
    """Refuse a local folder without a manifest, or in which a command runs, before Spark starts."""
    if is_local(out):
        if MANIFEST not in local_contents(out)[0]:
            raise InputError("out", out, _NO_MANIFEST)
        refuse_local_lock(out)


def verify(out: str, spark: SparkSession | None = None, expected: Owner | None = None) -> Verified:
    """Verify all tables and texts in a folder's manifest; a local folder needs no session."""
    with StoredFolder(spark, out) as folder:
        names = folder.names()
        if MANIFEST not in names:
            raise InputError("out", out, _NO_MANIFEST)
        manifest = read_manifest(out, folder.read_text)
        owner = owner_of(manifest)
        if owner is None:
            remedy = f"its {MANIFEST} belongs to something else: nothing can be verified"
            raise InputError("out", out, remedy)
        if expected is not None and owner is not expected:
            raise InputError("out", out, f"it holds {owner.noun}, not {expected.noun}")
        try:
            records = records_of(manifest, owner)
            found = Verified(owner.noun, records.finished)
            faults = folder.faults(records.tables, records.texts)
            found.damaged += [f"{path}: {problem}" for path, problem in faults]
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            remedy = f"its {MANIFEST} cannot be read as that of {owner.noun}"
            raise InputError("out", out, remedy) from None
        found.tables, found.texts = len(records.tables), len(records.texts)
    for name in records.inside:
        # of an unfinished sweep, only the points that were begun
        if records.finished or owner is PAPER or name in names:
            _add_inner(found, out, name, spark, owner.inner)
    return found


def _add_inner(
    found: Verified, out: str, inside: str, spark: SparkSession | None, owner: Owner | None
) -> None:
    """Verify the folder `inside` of OUT, and add its damaged tables and texts to `found`."""
    try:
        inner = verify(join(out, inside), spark, owner)
    except InputError as error:
        found.damaged.append(f"{inside}: {error.remedy if error.field == 'out' else error}")
        return
    found.tables += inner.tables
    found.texts += inner.texts
    found.damaged += [f"{inside}/{line}" for line in inner.damaged]
    if found.finished and not inner.finished:
        found.damaged.append(f"{inside}: it is not finished")
