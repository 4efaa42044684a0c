"""The steps of a round before the JOINs: soft state, suspicions, LEAVEs and CREATEs.

References
----------
JSAC 2002, Sections III.A.1, III.A.2 and III.B.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.engine import Inbox, Tables
from scribe_spark.scribe.create import CREATED
from scribe_spark.scribe.heartbeat import (
    REFRESH,
    REFUSED,
    expire,
    receive_refreshes,
    send_refreshes,
    suspect,
    was_refused,
)
from scribe_spark.scribe.leave import LEAVE, leave_trees, left_trees
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.replicas import REPLICA_GOODBYE, drop_far_copies, receive_goodbyes
from scribe_spark.scribe.root import PASSED_ON
from scribe_spark.scribe.routing import Routing, begin_routes, go_on
from scribe_spark.scribe.scribe import Scribe

#: A table with a row for each group: True in ``here`` if the bucket has a copy of the group's
#: state, True in ``created`` if the group was created in the bucket before this round's CREATEs.
HERE = "scribe here"


class Refresh(RoundProgram):
    """Replicas that are no longer near drop their copies; then children refresh their entries."""

    writes = ("entries", "children", "copies", "replicas")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if REPLICA_GOODBYE in inbox:
            receive_goodbyes(scribe, inbox[REPLICA_GOODBYE])
        if REFRESH in inbox:
            receive_refreshes(scribe, inbox[REFRESH])
        if REFUSED in inbox:
            was_refused(scribe, inbox[REFUSED])
        if superstep:
            return
        passed_on = tables[PASSED_ON]["pair"] if PASSED_ON in tables else np.empty(0, np.int64)
        tables.pop(PASSED_ON, None)
        drop_far_copies(scribe, passed_on)
        here = np.zeros(len(scribe.groups), dtype=bool)
        here[scribe.state.copies.key // scribe.state.size] = True
        tables[HERE] = {"here": here, "created": scribe.state.created.copy()}
        send_refreshes(scribe)


@dataclass(frozen=True)
class LeaveTrees(RoundProgram):
    """Entries expire, silent parents are suspected, nodes leave trees; CREATEs are routed."""

    group: np.ndarray
    creator: np.ndarray
    writes = ("entries", "children")
    settled_writes = ()

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if LEAVE in inbox:
            left_trees(scribe, inbox[LEAVE])
        if not superstep:
            if not scribe.settled:
                expire(scribe)
                suspect(scribe)
                leave_trees(scribe)
            mine = scribe.is_own(self.creator)
            group, creator = self.group[mine], self.creator[mine]
            begin_routes(scribe, _CREATE, creator, group=group, creator=creator)
        go_on(scribe, _CREATE, inbox)


_CREATE = Routing("CREATE", ends=CREATED)
