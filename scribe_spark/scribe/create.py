"""CREATE messages are routed to the groupId; the node that they reach becomes the root.

References
----------
JSAC 2002, Section III.A.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.scribe.figures import deliver_create
from scribe_spark.scribe.root import become_root
from scribe_spark.scribe.scribe import Scribe

#: The table of CREATEs at the nodes where they were delivered.
CREATED = "scribe CREATEs"

#: The table of groups that were created in this round: ``group, creator``, the root (``at``), and
#: the ``hops, delay_us`` of the CREATE's route.
MADE = "scribe made"


def receive_routed_creates(scribe: Scribe, tables: Tables) -> None:
    """Handle the round's CREATEs at the nodes that they reached, and record the created groups.

    If several nodes create the same group, the creator with the smallest nodeId counts.
    """
    came = tables.pop(CREATED, None)
    if came is None:
        return
    scribe.refuse("CREATE lost", (~came["delivered"]).sum())
    order = np.lexsort((came["creator"], came["group"]))
    came = take(came, order[came["delivered"][order]])
    made = receive_creates(scribe, came["group"], came["creator"], came[AT])
    names = ("group", "creator", AT, "hops", "delay_us")
    scribe.note(MADE, **{name: came[name][made] for name in names})


def receive_creates(
    scribe: Scribe, group: np.ndarray, creator: np.ndarray, node: np.ndarray
) -> np.ndarray:
    """Handle CREATEs, sorted by (group, creator), at nodes; return which were successful."""
    pair = scribe.key(group, node)
    # check credentials; a CREATE for an existing group changes nothing
    allowed = scribe.groups.allows("create", group, creator)
    allowed &= ~scribe.state.copies.has(pair)
    _, first = np.unique(pair[allowed], return_index=True)
    made = np.flatnonzero(allowed)[first]
    scribe.refuse("CREATE", len(pair) - len(made))
    deliver_create(scribe, group[made], node[made], creator[made])
    become_root(scribe, pair[made])
    scribe.state.created[group[made]] = True
    return made
