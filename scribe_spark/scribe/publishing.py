"""The programs that call joinHandler for new children, and that multicast publications.

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


class FinishTrees(RoundProgram):
    """Finish the trees: call joinHandler for added children, and update replicas.

    The program plays after the round's JOINs.  Nodes at which publications were delivered may
    become roots.  Roots that are new, or whose group state has changed, update their replicas.
    """

    writes = ("entries", "children", "copies", "replicas", "values", "addresses")
    settled_writes = ()

    @property
    def silent(self) -> bool:
        return self.round.settled

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
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
    """Roots accept publications and multicast them down the trees, one hop per superstep."""

    writes = ("entries", "children", "copies", "values", "addresses")
    settled_writes = ()

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
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
        """Play a superstep of best-effort delivery, which has no upcalls."""
        if not superstep:
            taken = take_publications(scribe, tables)
            root = taken["root"]
            payloads = Payloads.of(taken["publication"], taken["group"], root, root)
            if scribe.settled:  # payloads keep the hops and delay of the way to the root
                payloads = replace(payloads, hops=taken["hops"], delay_us=taken["delay_us"])
        elif PAYLOAD in inbox:
            payloads = Payloads.from_columns(inbox[PAYLOAD])
        else:
            return
        got, sent, refused = receive_payloads(scribe, payloads)
        if scribe.settled:  # one table per superstep, so that no table is rewritten
            keep_deliveries(scribe, got, f"{DELIVERIES} {superstep}")
        else:
            keep_deliveries(scribe, got)
            refuse_payloads(scribe, refused)
        send_payloads(scribe, PAYLOAD, sent)
