"""Places of all hosts in the reference tree: topmost keys, parents, and what finding them takes.

References
----------
Costa and Frey, Sections 3.3 and 3.4.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.progress import Progress
from scribe_spark.reference_tree.bucket_searches import ANSWER, PLACE
from scribe_spark.reference_tree.bucket_steps import search
from scribe_spark.reference_tree.rings import CHORD
from scribe_spark.reference_tree.rows import COUNTS, PIECES, PLACES
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import describe_jobs


def places(
    nodes: DataFrame,
    *,
    bits: int = 128,
    children: int = 2,
    assignment: str = CHORD,
    buckets: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """The place of every host in the reference tree, found by look-ups of keys.

    A look-up is one message to the key's owner (``dht = abstract``).  In a superstep all hosts ask,
    and go on asking as long as the keys are in the same bucket of the ring; so there are few.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``: hosts, and their ids below 2**bits.
    bits : int
        Bits m of a key, 4 to 128.
    children : int
        The most children c of a key, from 2.
    assignment : str
        Which keys a host has: ``chord`` or ``pastry``.
    buckets : int, optional
        In how many buckets of the ring the hosts are; places do not depend on it.
    progress : Progress, optional

    Returns
    -------
    DataFrame
        `rows.PLACES`, materialised; to be freed with
        :func:`scribe_spark.runtime.blocks.release`.

    Raises
    ------
    InputError
        A parameter out of range, no hosts, more hosts than keys, ids that are equal or too large.
    """
    tree = ReferenceTree(bits, children)
    searched = search(nodes, tree, assignment, buckets, progress=progress)
    # hosts whose searches went to other buckets put their parts together
    found = searched.rows(PIECES, PLACE, ANSWER)
    whole = found.where("ended").select(PLACES.names)
    complete = whole.unionByName(put_together(found.where("ended IS NOT TRUE")))
    with describe_jobs(nodes.sparkSession, "reference tree: places"):
        result, _ = materialise(complete)
    searched.release()
    return result


def put_together(pieces: DataFrame) -> DataFrame:
    """`rows.PLACES`, a row for each host, of the parts of its searches (`rows.PIECES`)."""
    # of columns that are no counts, one part has a value
    one = [F.max(name).alias(name) for name in PLACES.names if name not in ("node", *COUNTS)]
    sums = [F.sum(name).alias(name) for name in COUNTS]
    return pieces.groupBy("node").agg(*one, *sums).select(PLACES.names)
