"""The verification that the tables and texts of a folder's manifest are as they were written.

Tables are verified by the length and CRC-32 of their files, texts by their SHA-256.  Pages and
figures are drawn from these, and are not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import is_local
from scribe_spark.core.paths import local_contents
from scribe_spark.experiments.folder import StoredFolder
from scribe_spark.experiments.lock import refuse_local_lock
from scribe_spark.experiments.manifest import MANIFEST, PAPER, Manifest, Owner, join
from scribe_spark.experiments.plan import NO_MANIFEST, read_records


@dataclass
class Verified:
    """The result of a verification of a folder and of its inner folders."""

    owner: Owner
    manifest: Manifest
    finished: bool
    tables: int
    texts: int
    damaged: list[str]


def check_verify(out: str) -> None:
    """Refuse a local folder without a manifest, or in which a command runs, before Spark starts."""
    if is_local(out):
        if MANIFEST not in local_contents(out)[0]:
            raise InputError("out", out, NO_MANIFEST)
        refuse_local_lock(out)


def verify(out: str, spark: SparkSession | None = None, *owners: Owner) -> Verified:
    """Verify that all tables and texts in a folder's manifest are as they were written.

    A local folder needs no session; `owners` are the commands that may have written the folder, by
    default all.
    """
    with StoredFolder(spark, out) as folder:
        names = folder.names()
        owner, manifest, records = read_records(folder, *owners)
        faults = folder.faults(records.tables, records.texts)
        damaged = [f"{path}: {problem}" for path, problem in faults]
    sizes = len(records.tables), len(records.texts)
    found = Verified(owner, manifest, records.finished, *sizes, damaged)
    for name in records.inside:
        # of an unfinished sweep, only the points that were begun
        if records.finished or owner is PAPER or name in names:
            assert owner.inner is not None
            _add_inner(found, out, name, spark, owner.inner)
    return found


def _add_inner(
    found: Verified, out: str, inside: str, spark: SparkSession | None, owner: Owner
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
