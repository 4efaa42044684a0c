"""The place of every host in the reference tree: its topmost key, its parent, and its look-ups.

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
    """Return the place of every host in the reference tree, found by look-ups.

    A look-up is one message to the owner of the key (``dht = abstract``).  All hosts search at the
    same time.  In one superstep a search makes all look-ups of keys that lie in the same bucket of
    the ring, so that there are few supersteps.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``: the hosts, and their ids, which are less than 2**bits.
    bits : int
        The number m of bits of a key, 4 to 128.
    children : int
        The largest number c of children of a key, at least 2.
    assignment : str
        The rule that assigns keys to hosts: ``chord`` or ``pastry``.
    buckets : int, optional
        The number of buckets of the ring; it does not affect the result.
    progress : Progress, optional

    Returns
    -------
    DataFrame
        `rows.PLACES`, materialised; free it with :func:`scribe_spark.runtime.blocks.release`.

    Raises
    ------
    InputError
        A parameter is out of range, there are no hosts or more hosts than keys, or ids are equal or
        too large.
    """
    tree = ReferenceTree(bits, children)
    searched = search(nodes, tree, assignment, buckets, progress=progress)
    found = searched.rows(PIECES, PLACE, ANSWER)
    whole = found.where("ended").select(PLACES.names)
    # combine the partial results of hosts whose searches went to other buckets; columns that are no
    # counts have a value in only one of the parts
    one = [F.max(name).alias(name) for name in PLACES.names if name not in ("node", *COUNTS)]
    sums = [F.sum(name).alias(name) for name in COUNTS]
    pieces = found.where("ended IS NOT TRUE").groupBy("node").agg(*one, *sums)
    complete = whole.unionByName(pieces.select(PLACES.names))
    with describe_jobs(nodes.sparkSession, "reference tree: places"):
        result, _ = materialise(complete)
    searched.release()
    return result
