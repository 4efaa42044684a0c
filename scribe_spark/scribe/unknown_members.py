"""JOINs without the required credentials; the first node with the access list refuses them.

References
----------
JSAC 2002, Sections III and III.A.1 (credentials).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import Scribe

_JOIN, _REFUSED = "JOIN (unknown member)", "JOIN refused"


class RefuseUnknownMembers(RoundProgram):
    """Route the JOINs of unknown members to the first tree node, without any change on the way.

    If the group does not exist, the JOINs are sent again in the next round.
    """

    writes = ("unknown_members",)

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        if _REFUSED in inbox:
            unknown_members = scribe.state.unknown_members
            pair = scribe.key(inbox[_REFUSED]["group"], inbox[_REFUSED][AT])
            unknown_members.drop(unknown_members.find(pair))
        if _JOIN in inbox:
            self._arrive(scribe, inbox[_JOIN])
        if not superstep:
            group, source = scribe.split(scribe.state.unknown_members.key)
            self._arrive(
                scribe, {"group": group, "source": source, AT: source, "path": source[:, None]}
            )

    def _arrive(self, scribe: Scribe, joins: Columns) -> None:
        """Refuse or forward JOINs at the nodes where they are."""
        # tree nodes, and nodes with a copy of the group's state, can check credentials
        pair = scribe.key(joins["group"], joins[AT])
        knows = scribe.state.entries.has(pair) | scribe.state.copies.has(pair)
        refused = take(joins, np.flatnonzero(knows))
        scribe.refuse("JOIN", len(refused[AT]))
        scribe.tell(_REFUSED, refused["source"], group=refused["group"])
        joins = take(joins, np.flatnonzero(~knows))
        onward = scribe.hop("JOIN", joins[AT], joins["group"])
        circled = (joins["path"] == onward[:, None]).any(axis=1)  # or delivered here
        goes = np.flatnonzero((onward >= 0) & ~circled)
        onward, joins = onward[goes], take(joins, goes)
        path = np.column_stack([joins["path"], onward])
        scribe.tell(_JOIN, onward, group=joins["group"], source=joins["source"], path=path)
