"""The end of a round: updates of replicas, acknowledgements and heartbeats.

References
----------
JSAC 2002, Sections III.B.1 and III.B.2.
"""

from __future__ import annotations

from scribe_spark.engine import Inbox, Tables
from scribe_spark.scribe.heartbeat import HEARTBEAT, hear_parents, send_heartbeats
from scribe_spark.scribe.paths_to_root import PATH, take_paths, tell_paths
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.replicas import receive_replicas, replicate_changed
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.sources import acknowledge, finish_publications

#: The table of the round's publications with their fates, equal in every bucket: the columns of
#: `Sent`.
OUTCOMES = "scribe outcomes"

#: The message with publications and fates; it serves the measures and is not counted.
_OUTCOME = "outcome"


class EndRound(RoundProgram):
    """Roots update their replicas and acknowledge publications; parents send heartbeats.

    A child also learns the path from its parent to the root.
    """

    writes = ("entries", "children", "copies", "replicas", "values", "paths", "kept")

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        receive_replicas(scribe, inbox)
        if HEARTBEAT in inbox:
            hear_parents(scribe, inbox[HEARTBEAT])
        if PATH in inbox:
            take_paths(scribe, inbox[PATH])
        if _OUTCOME in inbox:
            tables[OUTCOMES] = {n: c for n, c in inbox[_OUTCOME].items() if n != "at"}
        if superstep:
            return
        replicate_changed(scribe, tables)
        acknowledge(scribe, tables)
        send_heartbeats(scribe)
        tell_paths(scribe)
        scribe.tell_all(_OUTCOME, **finish_publications(scribe, tables))
