"""MULTICAST: roots accept publications and send them down the trees.

Without an application (best effort) nodes forward publications themselves; with one, its upcalls
decide what is sent.  Payloads are columns: the receiver (``at``), the ``group``, the ``sender``,
and the ``hops`` and ``delay_us`` since the source.  A root that sends itself a payload is both
sender and receiver.

JSAC 2002, Sections III.A.3 and III.B.2, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import concatenate, count_rows, take
from scribe_spark.engine.program import AT
from scribe_spark.rounds.system import CARRIED, DELIVERED
from scribe_spark.systems.scribe import figures, join, root, sources, state
from scribe_spark.systems.scribe.scribe import (
    RoundProgram,
    Scribe,
    calls_of,
    joins_of,
    keep_values,
)
from scribe_spark.systems.scribe.sources import sizes_of, source_numbers
from scribe_spark.systems.scribe.upcalls import NOTHING, Emitted

#: The message to the sender of a refused payload.
DROP = "drop child"

#: Tables: the round's deliveries to members and, if delays are recorded, its payloads.
DELIVERIES, PAYLOADS = DELIVERED, CARRIED

#: Tables that stay in the buckets until the next round begins.
OF_THE_LAST_ROUND = DELIVERIES, PAYLOADS

#: Kinds of messages: payloads and retransmissions to children, and questions to parents.
PAYLOAD, RETRANSMISSION, ASK = "payload", "retransmission", "JOIN (ask)"


def _from_roots(group: np.ndarray, root: np.ndarray, **message: np.ndarray) -> Columns:
    """Return payloads that roots send to themselves: no hops, no delay."""
    zero = np.zeros(len(group), dtype=np.int64)
    return {AT: root, "group": group, "sender": root, "hops": zero, "delay_us": zero, **message}


def _withholds(scribe: Scribe, publication: np.ndarray, sender: np.ndarray) -> np.ndarray:
    """Return True for copies that senders withhold (do not send): rule N6."""
    if scribe.losses is None:
        return np.zeros(len(sender), dtype=bool)
    number, source = scribe.environment.facts.ring.node, source_numbers(scribe, publication)
    return scribe.losses.withholds(sender) & (number[sender] != source)


def _forward(scribe: Scribe, payloads: Columns) -> tuple[Columns, dict[str, np.ndarray], Columns]:
    """Deliver payloads of best effort at nodes, and send them to the children: one hop.

    The result has the deliveries to members, the payloads that arrive, and the refused ones.
    """
    entries, children = scribe.state.entries, scribe.state.children
    takes, row = _accepted(scribe, payloads)
    refused, payloads = take(payloads, ~takes), take(payloads, takes)
    # (5) for all node in groups[msg.group].children (6) send(msg, node)
    which, edge = scribe.children_of(entries.key[row])
    # to the user: (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
    got = take(payloads, entries.member[row])
    goes = ~_withholds(scribe, payloads["publication"][which], payloads[AT][which])
    which, edge = which[goes], edge[goes]
    child = children.key[edge] % scribe.state.size
    of, is_lost = take(payloads, which), np.zeros(len(which), dtype=bool)
    group, publication, node = of["group"], of["publication"], of[AT]
    if not scribe.settled:
        _hear_payloads(scribe, row, payloads)
        children.got_payload[edge] = scribe.losses is None
        is_lost = scribe.are_lost(group, publication, node, child)
        _note_payloads(scribe, group, publication, node, child, is_lost)
    sizes = sizes_of(scribe, group, publication)
    arrives = scribe.send("payload", node, child, is_lost, sizes)
    sent = take({**of, "sender": node, AT: child}, arrives)
    if scribe.timed:
        ends = sent["group"], sent["publication"], sent["sender"], sent[AT]
        sent["delay_us"] = sent["delay_us"] + scribe.copy_delay(*ends)
    return got, {**sent, "hops": sent["hops"] + 1}, refused


def _accepted(scribe: Scribe, payloads: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the payloads that nodes accept, and the rows of these nodes in `Entries`."""
    entries, sender = scribe.state.entries, payloads["sender"]
    row = scribe.entry(payloads["group"], payloads[AT])
    takes = row >= 0
    there = row[takes]
    own = (sender == payloads[AT])[takes]
    takes[takes] = (entries.parent[there] == sender[takes]) | (own & entries.root[there])
    scribe.refuse("payload", (~takes).sum())
    return takes, row[takes]


def _note_payloads(
    scribe: Scribe,
    group: np.ndarray,
    publication: np.ndarray,
    sender: np.ndarray,
    to: np.ndarray,
    is_lost: np.ndarray,
) -> None:
    """Record the copies that nodes sent, also lost ones (`is_lost`), if the round is timed."""
    if scribe.timed:
        lost = {} if scribe.losses is None else {"lost": is_lost}
        ends = {"sender": sender, "to": to}
        scribe.note(PAYLOADS, group=group, publication=publication, **ends, **lost)


def _hear_payloads(scribe: Scribe, row: np.ndarray, payloads: Columns) -> None:
    """Record at nodes (rows of `Entries`) that a payload came from their parent."""
    from_parent = row[payloads["sender"] != payloads[AT]]
    scribe.state.entries.heard[from_parent] = scribe.number
    scribe.state.entries.heeded[from_parent] = True


def _refuse_payloads(scribe: Scribe, refused: Columns) -> None:
    """Tell the senders of refused messages to drop the receivers as children."""
    edge = arrays.distinct(scribe.edge(refused["group"], refused["sender"], refused[AT]))
    group, parent, child = scribe.ends(edge)
    scribe.post(DROP, "drop child", child, parent, group=group, child=child)


def drop_children(scribe: Scribe, came: Columns) -> None:
    """Drop the children that refused a message (`came`)."""
    scribe.state.children.discard(scribe.edge(came["group"], came[AT], came["child"]))


def _keep_deliveries(scribe: Scribe, got: Columns, table: str = DELIVERIES) -> None:
    """Append deliveries to members to a table: publication, hops and delay."""
    columns = {name: got[name] for name in ("group", "publication", "hops", "delay_us")}
    scribe.note(table, node=got[AT], **columns)


# --- messages that applications send in upcalls: after a child was added, and down the tree

#: The columns of an application's messages.  `number` is a message's place in the sequence of its
#: group; with reliable delivery, `start`, `floor` and `since` say what came before (`reliable`).
#: Unset are NOTHING and, of `floor`, -1.
_OWN = ("number", "start", "floor", "since")

#: The columns of their contents, a row of publications and one of their numbers, padded with -1.
_CONTENTS = ("publications", "numbers")


def _messages_of(emitted: Emitted) -> dict[str, np.ndarray]:
    """Return the new messages of an application with their contents in padded columns."""
    n, contents = count_rows(emitted.messages), emitted.contents
    messages = {"since": np.full(n, NOTHING), **emitted.messages}
    order = np.argsort(contents["message"], kind="stable")
    of = contents["message"][order]
    place = arrays.index_in_run(of)
    shape = n, max(place.max(initial=0) + 1, 1)
    for name, source in zip(_CONTENTS, ("publication", "number"), strict=True):
        messages[name] = np.full(shape, arrays.NONE)
        messages[name][of, place] = contents[source][order]
    return messages


class Emitter:
    """Makes the upcalls of a superstep, and sends payloads or retransmissions to children."""

    def __init__(self, scribe: Scribe, kind: str) -> None:
        self.scribe, self.kind = scribe, kind
        self.sent: list[Columns] = []

    # ---- messages to children

    def publish(self, group: np.ndarray, publication: np.ndarray, node: np.ndarray) -> None:
        """Let roots accept publications, which are in order within each group."""
        n = len(group)
        number, unset = np.arange(n) - np.searchsorted(group, group), np.full(n, NOTHING)
        own = {"number": number, "start": unset, "floor": np.full(n, -1), "since": unset}
        contents = {"publications": publication[:, None], "numbers": np.full((n, 1), -1)}
        self.deliver(_from_roots(group, node, **own, **contents))

    def deliver(self, payloads: Columns) -> None:
        """Deliver messages to their nodes, which handle them one after the other, by number."""
        scribe = self.scribe
        pair = scribe.key(payloads["group"], payloads[AT])
        order = arrays.order_of_keys(pair, int(pair.max(initial=0)))
        if (pair[order[1:]] == pair[order[:-1]]).any():
            lengths = np.count_nonzero(payloads["publications"] >= 0, axis=1)
            order = np.lexsort((lengths, payloads["number"], pair))
        payloads = take(payloads, order)
        takes, row = _accepted(scribe, payloads)
        refused = take(payloads, np.flatnonzero(~takes))
        payloads = payloads if takes.all() else take(payloads, takes)
        if self.kind == PAYLOAD:
            _hear_payloads(scribe, row, payloads)
        for turn in arrays.turns(scribe.key(payloads["group"], payloads[AT])):
            self._handle(take(payloads, turn), row[turn])
        _refuse_payloads(scribe, refused)

    def _handle(self, came: Columns, row: np.ndarray) -> None:
        """Handle one message at each node (Figure 4, lines 5 to 8); `row` are rows of `Entries`."""
        scribe, application = self.scribe, self.scribe.application
        group, node = came["group"], came[AT]
        pair = scribe.key(group, node)
        calls = calls_of(scribe, pair, row)
        messages = {name: came[name] for name in _OWN}
        of, place = np.nonzero(came["publications"] >= 0)
        publication, number = (came[name][of, place] for name in _CONTENTS)
        contents = {"call": of, "number": number, "publication": publication}
        sources.note_got(scribe, group[of], node[of], publication)
        # (5, 6) for all children: send(msg, node); forwardHandler decides what is sent
        emitted = application.forward_handler(calls, messages, contents)
        keep_values(scribe, pair, emitted.values)
        self._emit(pair, emitted, came)
        # (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
        users = application.message_handler(calls, messages, contents)
        users = take(users, scribe.state.entries.member[row[users["call"]]])
        got = take(came, users["call"])
        _keep_deliveries(scribe, {**got, "publication": users["publication"]})

    def _emit(self, pair: np.ndarray, emitted: Emitted, came: Columns | None = None) -> None:
        """Collect the messages of an application to children of the nodes `pair`."""
        scribe, messages = self.scribe, _messages_of(emitted)
        call, child, which = (emitted.payloads[name] for name in ("call", "child", "message"))
        group, node = scribe.split(pair[call])
        hops, delay_us = np.zeros((2, len(call)), dtype=np.int64)
        if came is not None:  # a message -1 is the one that came
            which = np.where(which < 0, count_rows(messages) + call, which)
            messages = concatenate([messages, {name: came[name] for name in messages}])
            hops, delay_us = came["hops"][call] + 1, came["delay_us"][call]
            if scribe.timed:
                delay_us = delay_us + scribe.delay(node, child)
        way = {"group": group, "sender": node, "hops": hops, "delay_us": delay_us}
        self.sent.append({AT: child, **way, **take(messages, which)})

    def close(self) -> None:
        """Send the messages to nodes that are still children; new roots send them to themselves."""
        if not self.sent:
            return
        scribe, children = self.scribe, self.scribe.state.children
        payloads = concatenate(self.sent)
        row = children.find(scribe.edge(payloads["group"], payloads["sender"], payloads[AT]))
        still = (row >= 0) | (payloads["sender"] == payloads[AT])
        withheld = _withholds(scribe, payloads["publications"][:, 0], payloads["sender"])
        still &= ~(withheld & self._are_copies(payloads))
        payloads, row = take(payloads, still), row[still]
        group, sender, to = (payloads[name] for name in ("group", "sender", AT))
        is_lost = scribe.are_lost(group, payloads["publications"][:, 0], sender, to)
        is_lost &= self._are_copies(payloads)
        # a message without publications counts as one
        inside = payloads["publications"] >= 0
        counted = inside | (np.arange(inside.shape[1]) == 0)
        of, place = np.nonzero(counted & (sender != to)[:, None])
        sizes = sizes_of(scribe, group[of], payloads["publications"][of, place])
        scribe.send(self.kind, sender[of], to[of], is_lost[of], sizes)
        if self.kind == PAYLOAD:
            children.got_payload[row] = scribe.losses is None
            of, place = np.nonzero(inside)
            copies = group[of], payloads["publications"][of, place], sender[of], to[of]
            _note_payloads(scribe, *copies, is_lost[of])
        arriving = take(payloads, scribe.is_alive(to) & ~is_lost)
        scribe.tell(self.kind, arriving.pop(AT), **arriving)

    def _are_copies(self, payloads: Columns) -> np.ndarray:
        """Return True for messages with publications to another node."""
        return (payloads["publications"][:, 0] >= 0) & (payloads["sender"] != payloads[AT])

    # ---- children that were added

    def settle(self, added: Columns) -> None:
        """Call joinHandler for all added children that are still children."""
        scribe = self.scribe
        # of several JOINs of a source to a receiver, the last one counts
        edge = scribe.edge(added["group"], added["at"], added["source"])
        order = np.argsort(edge, kind="stable")
        last = order[arrays.last_of_runs(edge[order])]
        joins = take(added, last)
        own = (joins["source"] == joins["at"]) & scribe.is_root(joins["group"], joins["at"])
        still = own | scribe.state.children.has(edge[last])  # or new roots
        self._call_join_handler(take(joins, still))

    def asked(self, came: Columns) -> None:
        """Call joinHandler at parents that children asked for missing messages."""
        edge = self.scribe.edge(came["group"], came[AT], came["source"])
        order = np.argsort(edge, kind="stable")
        still = self.scribe.state.children.has(edge[order])
        self._call_join_handler(take(came, order[still]))

    def _call_join_handler(self, joins: Columns) -> None:
        """Call joinHandler at the nodes `at` for `joins`, and send the questions of these nodes.

        The JOINs are sorted by group, node and source.
        """
        scribe, application = self.scribe, self.scribe.application
        pair = scribe.key(joins["group"], joins[AT])
        starts = arrays.run_starts(pair)
        call = arrays.row_numbers(np.append(starts, len(pair)))
        pair, table = pair[starts], {"call": call, **{name: joins[name] for name in _OF_JOINS}}
        calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
        emitted = application.join_handler(calls, table)
        self._emit(pair, emitted)
        # a node sends one question, even if the application asks several
        asking, of = np.unique(emitted.asks["call"], return_inverse=True)
        extra = application.common_extra(of, emitted.asks["extra"], len(asking))
        group, node = scribe.split(pair[asking])
        row = scribe.entry(group, node)
        parent = scribe.state.entries.parent[row]
        asks = joins_of(
            *(group, node, scribe.state.entries.number[row], state.cause("ask")), extra=extra
        )
        asks = take(asks, parent >= 0)
        scribe.note(join.JOINS, **asks)
        scribe.post(ASK, "JOIN", asks["source"], parent[parent >= 0], **asks)


#: The columns of the JOINs that joinHandler gets.
_OF_JOINS = ("source", "number", "cause", "extra")


def _take_questions(scribe: Scribe) -> list[Columns]:
    """Return the questions of children after the last heartbeats, as rows of `figures.ADDED`."""
    questions = scribe.state.questions
    group, at, source = scribe.ends(questions.key)
    joins = joins_of(group, source, questions.number, state.cause("ask"), questions.extra)
    scribe.state.questions = state.Questions()
    return [{AT: at, **joins}] if len(at) else []


# --- the programs that call joinHandler for new children, and that multicast publications


class FinishTrees(RoundProgram):
    """Call joinHandler for children added by the round's JOINs, and update replicas."""

    writes = ("entries", "children", "copies", "replicas", "addresses", "questions")
    settled_writes = ()
    handlers = (*root.REPLICATING, (sources.FATE, sources.hear_fates), (DROP, drop_children))

    @property
    def silent(self) -> bool:
        return self.round.settled

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        added = []
        if not superstep:
            sources.receive_publications(scribe, tables)
            root.replicate_changed(scribe, tables)
            added = _take_questions(scribe)
            added += [tables.pop(figures.ADDED)] if figures.ADDED in tables else []
            added += scribe.notes.pop(figures.ADDED, [])
        if scribe.best_effort or not (added or inbox):
            return
        emitter = Emitter(scribe, RETRANSMISSION)
        if RETRANSMISSION in inbox:
            emitter.deliver(inbox[RETRANSMISSION])
        if added:
            emitter.settle(concatenate(added))
        if ASK in inbox:
            emitter.asked(inbox[ASK])
        emitter.close()


class Disseminate(RoundProgram):
    """Roots accept publications and multicast them down the trees, one hop per superstep."""

    writes = ("entries", "children", "copies", "addresses")
    settled_writes = ()
    handlers = ((sources.FATE, sources.hear_fates), (DROP, drop_children))

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        taken = None if superstep else sources.take_publications(scribe, tables)
        if scribe.best_effort:
            self._disseminate(scribe, taken, inbox, superstep)
            return
        emitter = Emitter(scribe, PAYLOAD)
        if taken is not None:
            emitter.publish(taken["group"], taken["publication"], taken["root"])
        if PAYLOAD in inbox:
            emitter.deliver(inbox[PAYLOAD])
        emitter.close()

    def _disseminate(
        self, scribe: Scribe, taken: Columns | None, inbox: Inbox, superstep: int
    ) -> None:
        """Play a superstep of best-effort delivery, which has no upcalls."""
        payloads = inbox.get(PAYLOAD)
        if taken is not None:
            payloads = _from_roots(taken["group"], taken["root"], publication=taken["publication"])
            if scribe.settled:  # payloads keep the hops and delay of the way to the root
                payloads = {**payloads, "hops": taken["hops"], "delay_us": taken["delay_us"]}
        if payloads is None:
            return
        got, sent, refused = _forward(scribe, payloads)
        # in a run there is one table per superstep, so that no table is rewritten
        _keep_deliveries(scribe, got, f"{DELIVERIES} {superstep}" if scribe.settled else DELIVERIES)
        if not scribe.settled:
            _refuse_payloads(scribe, refused)
        scribe.tell(PAYLOAD, sent.pop(AT), **sent)
