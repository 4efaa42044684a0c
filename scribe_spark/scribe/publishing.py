"""The programs of publications, and of what upcalls send: joinHandler, then MULTICAST.

References
----------
JSAC 2002, Sections III.A.3 and III.B.2.
"""

from __future__ import annotations

from dataclasses import replace

from scribe_spark.engine import Inbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.scribe.emitting import ASK, PAYLOAD, RETRANSMISSION, Emitter
from scribe_spark.scribe.figures import ADDED
from scribe_spark.scribe.multicast import (
    DELIVERIES,
    DROP,
    Payloads,
    drop_children,
    keep_deliveries,
    receive_payloads,
    refuse_payloads,
    send_payloads,
)
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.replicas import receive_replicas, replicate_changed
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.sources import (
    FATE,
    hear_fates,
    receive_publications,
    take_publications,
)


class Settle(RoundProgram):
    """Roots that publications have come to; replicas; joinHandler and what it sends.

    The trees are as the round's JOINs have left them.  Roots that are new, or have a new state,
    bring their replicas up to date.  joinHandler is called for all children added.
    """

    writes = ("entries", "children", "copies", "replicas", "values", "addresses")
    settled_writes = ()

    @property
    def silent(self) -> bool:
        """See `RoundProgram`."""
        return self.round.settled

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        receive_replicas(scribe, inbox)
        if FATE in inbox:
            hear_fates(scribe, tables, inbox[FATE])
        if DROP in inbox:
            drop_children(scribe, inbox[DROP])
        added = []
        if not superstep:
            receive_publications(scribe, tables)
            replicate_changed(scribe, tables)
            added = [tables.pop(ADDED)] if ADDED in tables else []
            added += scribe.notes.pop(ADDED, [])
        if scribe.best_effort or not (added or inbox):
            return
        emitter = Emitter(scribe, tables, RETRANSMISSION)
        emitter.receive(inbox)
        if added:
            emitter.settle(concatenate(added))
        if ASK in inbox:
            emitter.asked(inbox[ASK])
        emitter.close()


class Disseminate(RoundProgram):
    """Roots take publications, which go down the trees, all of a hop at once."""

    writes = ("entries", "children", "copies", "values", "addresses")
    settled_writes = ()

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        if FATE in inbox:
            hear_fates(scribe, tables, inbox[FATE])
        if DROP in inbox:
            drop_children(scribe, inbox[DROP])
        if scribe.best_effort:
            self._disseminate(scribe, tables, inbox, superstep)
            return
        emitter = Emitter(scribe, tables, PAYLOAD)
        if not superstep:
            taken = take_publications(scribe, tables)
            emitter.publish(taken["group"], taken["publication"], taken["root"])
        emitter.receive(inbox)
        emitter.close()

    def _disseminate(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """Without upcalls."""
        if not superstep:
            taken = take_publications(scribe, tables)
            root = taken["root"]
            payloads = Payloads.of(taken["publication"], taken["group"], root, root)
            if scribe.settled:  # no source hears of the way to the root, so the payload keeps it
                payloads = replace(payloads, hops=taken["hops"], delay_us=taken["delay_us"])
        elif PAYLOAD in inbox:
            payloads = Payloads.from_columns(inbox[PAYLOAD])
        else:
            return
        got, sent, refused = receive_payloads(scribe, payloads)
        if scribe.settled:  # a table for each superstep: nothing is written twice
            keep_deliveries(scribe, got, f"{DELIVERIES} {superstep}")
        else:
            keep_deliveries(scribe, got)
            refuse_payloads(scribe, refused)
        send_payloads(scribe, PAYLOAD, sent)
