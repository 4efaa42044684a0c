"""MULTICAST: roots accept publications and send them down the trees.

Without an application (best effort) nodes forward publications themselves; with one, its upcalls
decide what is sent.

JSAC 2002, Sections III.A.3 and III.B.2, Figure 4 (lines 5 to 8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.exchange import distinct_rows
from scribe_spark.engine.packing import concatenate, count_rows
from scribe_spark.engine.program import AT, bucket_of
from scribe_spark.rounds.system import CARRIED, DELIVERED
from scribe_spark.systems.scribe import figures, join, root, sources, state
from scribe_spark.systems.scribe.scribe import Joins, RoundProgram, Scribe, calls_of, keep_values
from scribe_spark.systems.scribe.sources import sizes_of, source_numbers
from scribe_spark.systems.scribe.upcalls import NOTHING, Emitted, empty

#: The message to the sender of a refused payload.
DROP = "drop child"

#: Tables: the round's deliveries to members and, if delays are recorded, its payloads.
DELIVERIES, PAYLOADS = DELIVERED, CARRIED

#: Tables that stay in the buckets until the next round begins.
OF_THE_LAST_ROUND = DELIVERIES, PAYLOADS


@dataclass(frozen=True)
class Payloads(arrays.Rows):
    """Messages on tree edges; a root that sends itself a message is both sender and receiver."""

    message: np.ndarray
    group: np.ndarray
    sender: np.ndarray
    node: np.ndarray
    hops: np.ndarray
    delay_us: np.ndarray

    @classmethod
    def of(cls, message: np.ndarray, group: np.ndarray, root: np.ndarray) -> Payloads:
        """Return messages that roots send to themselves: no hops, no delay."""
        zero = np.zeros(len(message), dtype=np.int64)
        return cls(message, group, root, root, zero, zero)

    @classmethod
    def from_columns(cls, columns: Columns) -> Payloads:
        """Return received payloads from the columns that :func:`send_payloads` sent."""
        return super().from_columns({**columns, "node": columns[AT]})


def _withholds(scribe: Scribe, publication: np.ndarray, sender: np.ndarray) -> np.ndarray:
    """Return True for copies that senders withhold (do not send): rule N6."""
    if scribe.losses is None:
        return np.zeros(len(sender), dtype=bool)
    number, source = scribe.environment.facts.ring.node, source_numbers(scribe, publication)
    return scribe.losses.withholds(sender) & (number[sender] != source)


def receive_payloads(scribe: Scribe, payloads: Payloads) -> tuple[Payloads, Payloads, Payloads]:
    """Deliver payloads at nodes and forward them to the children: one hop."""
    entries, children = scribe.state.entries, scribe.state.children
    takes, row = accepted(scribe, payloads)
    refused, payloads = payloads.take(np.flatnonzero(~takes)), payloads.take(np.flatnonzero(takes))
    # (5) for all node in groups[msg.group].children (6) send(msg, node)
    which, edge = scribe.children_of(entries.key[row])
    # to the user: (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
    got = payloads.take(np.flatnonzero(entries.member[row]))
    goes = ~_withholds(scribe, payloads.message[which], payloads.node[which])
    which, edge = which[goes], edge[goes]
    child = children.key[edge] % scribe.state.size
    of, is_lost = payloads.take(which), np.zeros(len(which), dtype=bool)
    if not scribe.settled:
        hear_payloads(scribe, row, payloads)
        children.got_payload[edge] = scribe.losses is None
        is_lost = scribe.are_lost(of.group, of.message, of.node, child)
        note_payloads(scribe, of.group, of.message, of.node, child, is_lost)
    sizes = sizes_of(scribe, of.group, of.message)
    arrives = scribe.send("payload", of.node, child, is_lost, sizes)
    sent, child = of.take(arrives), child[arrives]
    delay_us = sent.delay_us
    if scribe.timed:
        delay_us = delay_us + scribe.copy_delay(sent.group, sent.message, sent.node, child)
    sent = Payloads(sent.message, sent.group, sent.node, child, sent.hops + 1, delay_us)
    return got, sent, refused


def accepted(scribe: Scribe, payloads: Payloads) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the messages that nodes accept, and the rows of these nodes in `Entries`."""
    entries = scribe.state.entries
    row = scribe.entry(payloads.group, payloads.node)
    takes = row >= 0
    there = row[takes]
    own = (payloads.sender == payloads.node)[takes]
    takes[takes] = (entries.parent[there] == payloads.sender[takes]) | (own & entries.root[there])
    scribe.refuse("payload", (~takes).sum())
    return takes, row[takes]


def send_payloads(scribe: Scribe, kind: str, payloads: Payloads, **more: np.ndarray) -> None:
    """Queue payloads as messages of a kind to their nodes, which are alive."""
    columns = payloads.to_columns()
    scribe.tell(kind, columns.pop("node"), **columns, **more)


def note_payloads(
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


def hear_payloads(scribe: Scribe, row: np.ndarray, payloads: Payloads) -> None:
    """Record at nodes (rows of `Entries`) that a payload came from their parent."""
    from_parent = row[payloads.sender != payloads.node]
    scribe.state.entries.heard[from_parent] = scribe.number
    scribe.state.entries.heeded[from_parent] = True


def refuse_payloads(scribe: Scribe, refused: Payloads) -> None:
    """Tell the senders of refused messages to drop the receivers as children."""
    if not len(refused):
        return
    edge = arrays.distinct(scribe.edge(refused.group, refused.sender, refused.node))
    group, parent, child = scribe.ends(edge)
    scribe.post(DROP, "drop child", child, parent, group=group, child=child)


def drop_children(scribe: Scribe, came: Columns) -> None:
    """Drop the children that refused a message (`came`)."""
    scribe.state.children.discard(scribe.edge(came["group"], came[AT], came["child"]))


def keep_deliveries(scribe: Scribe, got: Payloads, table: str = DELIVERIES) -> None:
    """Append deliveries to members to a table: publication, hops and delay."""
    columns = got.to_columns()
    columns["publication"] = columns.pop("message")
    del columns["sender"]
    scribe.note(table, **columns)


# --- the messages of applications in a superstep

#: Columns of messages.
_OWN = ("number", "start", "floor", "since")


@dataclass
class MessageStore:
    """Messages to children by index, with the publications that they contain.

    `number` is a message's place in the sequence of its group; with reliable delivery, `start`,
    `floor` and `since` say what came before (`reliable`). Unset are NOTHING and, of `floor`, -1.
    Message i has ``lengths[i]`` contents, which begin at ``offsets[i]`` in the last two arrays.
    """

    number: np.ndarray = field(default_factory=arrays.whole_numbers)
    start: np.ndarray = field(default_factory=arrays.whole_numbers)
    floor: np.ndarray = field(default_factory=arrays.whole_numbers)
    since: np.ndarray = field(default_factory=arrays.whole_numbers)
    lengths: np.ndarray = field(default_factory=arrays.whole_numbers)
    numbers: np.ndarray = field(default_factory=arrays.whole_numbers)
    publications: np.ndarray = field(default_factory=arrays.whole_numbers)

    def __post_init__(self) -> None:
        self.offsets = arrays.offsets_of(self.lengths)

    def own_columns(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns of messages (indices) without the publications in them."""
        return {name: getattr(self, name)[index] for name in _OWN}

    def add(self, messages: Columns, contents: Columns) -> np.ndarray:
        """Add messages; return their indices."""
        n = count_rows(messages)
        index = len(self.number) + np.arange(n)
        messages = {"since": np.full(n, NOTHING), **messages}
        for name in _OWN:
            setattr(self, name, np.concatenate([getattr(self, name), messages[name]]))
        of = contents["message"]
        order = np.argsort(of, kind="stable")
        for name, source in (("numbers", "number"), ("publications", "publication")):
            setattr(self, name, np.concatenate([getattr(self, name), contents[source][order]]))
        self.lengths = np.concatenate([self.lengths, np.bincount(of, minlength=n)])
        self.offsets = arrays.offsets_of(self.lengths)
        return index

    def add_publications(self, group: np.ndarray, publication: np.ndarray) -> np.ndarray:
        """Add one message per publication, numbered within a group; return their indices."""
        n = len(group)
        number = np.arange(n) - np.searchsorted(group, group)
        messages = {"number": number, "start": np.full(n, NOTHING), "floor": np.full(n, -1)}
        of = {"message": np.arange(n), "number": np.full(n, -1), "publication": publication}
        return self.add(messages, of)

    def add_received(self, messages: Columns, contents: Columns | None) -> np.ndarray:
        """Add messages that came from buckets; return their indices, row by row."""
        if contents is None:
            contents = empty("origin", "message", "number", "publication")
        span = 1 + max(part["message"].max(initial=0) for part in (messages, contents))
        names, first, which = np.unique(
            messages["origin"] * span + messages["message"], return_index=True, return_inverse=True
        )
        of = arrays.index_sorted(names, contents["origin"] * span + contents["message"])
        own = {name: messages[name][first] for name in _OWN}
        inside = {"message": of} | {name: contents[name] for name in ("number", "publication")}
        return self.add(own, inside)[which]

    def contents(self, index: np.ndarray) -> Columns:
        """Return the publications in messages: ``call`` (position in `index`), number, id."""
        call, at = arrays.expand(self.offsets[index], self.offsets[index + 1])
        return {"call": call, "number": self.numbers[at], "publication": self.publications[at]}


# --- messages that applications send in upcalls: after a child was added, and down the tree

#: Kinds of messages: payloads and retransmissions to children, and questions to parents.  An
#: application's messages are sent apart from their contents, which each bucket gets once.
PAYLOAD, RETRANSMISSION, ASK = "payload", "retransmission", "JOIN (ask)"
_CONTENTS = "contents"


class Emitter:
    """Makes the upcalls of a superstep, and sends payloads or retransmissions to children."""

    def __init__(self, scribe: Scribe, kind: str) -> None:
        self.scribe, self.kind = scribe, kind
        self.messages = MessageStore()
        self.sent: list[Payloads] = []

    def close(self) -> None:
        """Send the collected messages."""
        if self.sent:
            self._send(Payloads.join(*self.sent))

    # ---- messages to children

    def publish(self, group: np.ndarray, publication: np.ndarray, node: np.ndarray) -> None:
        """Let roots accept publications, which are in order within each group."""
        message = self.messages.add_publications(group, publication)
        self._deliver(Payloads.of(message, group, node))

    def receive(self, inbox: Inbox) -> None:
        """Deliver received messages to their nodes."""
        if self.kind in inbox:
            came = dict(inbox[self.kind])
            came["message"] = self.messages.add_received(came, inbox.get(_CONTENTS))
            self._deliver(Payloads.from_columns(came))

    def _deliver(self, payloads: Payloads) -> None:
        payloads = self._in_order(payloads)
        takes, row = accepted(self.scribe, payloads)
        refused = payloads.take(np.flatnonzero(~takes))
        if len(refused):
            payloads = payloads.take(takes)
        if self.kind == PAYLOAD:
            hear_payloads(self.scribe, row, payloads)
        # a node handles its messages one after the other
        pair = self.scribe.key(payloads.group, payloads.node)
        for turn in arrays.turns(pair):
            self._handle(payloads.take(turn), row[turn])
        refuse_payloads(self.scribe, refused)

    def _in_order(self, payloads: Payloads) -> Payloads:
        """Return payloads sorted by group and node, and at a node by message number."""
        pair = self.scribe.key(payloads.group, payloads.node)
        order = arrays.order_of_keys(pair, int(pair.max(initial=0)))
        if (pair[order[1:]] == pair[order[:-1]]).any():
            number, lengths = self.messages.number, self.messages.lengths
            of = payloads.message
            order = np.lexsort((lengths[of], number[of], pair))
        return payloads.take(order)

    def _handle(self, came: Payloads, row: np.ndarray) -> None:
        """Handle one message at each node (Figure 4, lines 5 to 8); `row` are rows of `Entries`."""
        scribe, application = self.scribe, self.scribe.application
        pair, message = scribe.key(came.group, came.node), came.message
        calls = calls_of(scribe, pair, row)
        messages, contents = self.messages.own_columns(message), self.messages.contents(message)
        group, node = scribe.split(pair)
        of = contents["call"]
        sources.note_got(scribe, group[of], node[of], contents["publication"])
        # (5, 6) for all children: send(msg, node); forwardHandler decides what is sent
        emitted = application.forward_handler(calls, messages, contents)
        keep_values(scribe, pair, emitted.values)
        self._emit(pair, emitted, came)
        # (7) if memberOf(msg.group) (8) invokeMessageHandler(msg.group, msg)
        users = application.message_handler(calls, messages, contents)
        call, publication = users["call"], users["publication"]
        member = scribe.state.entries.member[row[call]]
        got = came.take(call[member])
        keep_deliveries(scribe, replace(got, message=publication[member]))

    def _emit(self, pair: np.ndarray, emitted: Emitted, came: Payloads | None = None) -> None:
        """Collect the messages of an application to children of the nodes `pair`."""
        new = self.messages.add(emitted.messages, emitted.contents)
        call, child, which = (emitted.payloads[name] for name in ("call", "child", "message"))
        message, ends = np.r_[new, -1][which], self.scribe.split(pair[call])
        if came is None:
            zero = np.zeros(len(message), dtype=np.int64)
            self.sent.append(Payloads(message, *ends, child, zero, zero))
            return
        message = np.where(which < 0, came.message[call], message)
        delay_us = came.delay_us[call]
        if self.scribe.timed:
            delay_us = delay_us + self.scribe.delay(ends[1], child)
        self.sent.append(Payloads(message, *ends, child, came.hops[call] + 1, delay_us))

    def _send(self, payloads: Payloads) -> None:
        """Send messages to nodes that are still children; new roots send them to themselves."""
        scribe, children = self.scribe, self.scribe.state.children
        row = children.find(scribe.edge(payloads.group, payloads.sender, payloads.node))
        still = np.flatnonzero((row >= 0) | (payloads.sender == payloads.node))
        payloads, row = payloads.take(still), row[still]
        goes = ~self._of_messages(
            lambda publication, sent: _withholds(scribe, publication, sent.sender), payloads
        )
        payloads, row = payloads.take(goes), row[goes]
        if not len(payloads):
            return
        times = np.maximum(self.messages.lengths[payloads.message], 1)
        times[payloads.sender == payloads.node] = 0
        is_lost = self._of_messages(
            lambda name, sent: scribe.are_lost(sent.group, name, sent.sender, sent.node), payloads
        )
        arrives = scribe.is_alive(payloads.node) & ~is_lost
        scribe.count_between(
            self.kind,
            times.sum(),
            times[~arrives].sum(),
            between=lambda: (np.repeat(payloads.sender, times), np.repeat(payloads.node, times)),
            sizes=None if scribe.round.sizes is None else lambda: self._sizes(payloads, times),
        )
        if self.kind == PAYLOAD:
            children.got_payload[row] = scribe.losses is None
            self._note_payloads(payloads, is_lost)
        self._send_contents(payloads if arrives.all() else payloads.take(np.flatnonzero(arrives)))

    def _sizes(self, payloads: Payloads, times: np.ndarray) -> np.ndarray:
        """Return the sizes (bytes) of the publications in messages that are sent `times` times."""
        inside = self.messages.contents(payloads.message)
        of, publication = inside["call"], inside["publication"]
        sent = times[of] > 0
        found = np.full(int(times.sum()), arrays.NONE, dtype=np.int64)
        place = np.repeat(self.messages.lengths[payloads.message] > 0, times)
        sizes = sizes_of(self.scribe, payloads.group[of[sent]], publication[sent])
        assert sizes is not None
        found[place] = sizes
        return found

    def _send_contents(self, payloads: Payloads) -> None:
        """Send messages to live nodes, and their contents once to each bucket."""
        scribe, messages, of = self.scribe, self.messages, payloads.message
        own = messages.own_columns(of)
        origin = np.full(len(of), scribe.first)
        send_payloads(scribe, self.kind, payloads, origin=origin, **own)
        first, _, _ = distinct_rows(bucket_of(scribe.bounds, payloads.node), of)
        inside = messages.contents(of[first])
        at = first[inside["call"]]
        scribe.tell(
            _CONTENTS,
            payloads.node[at],
            origin=origin[at],
            message=of[at],
            number=inside["number"],
            publication=inside["publication"],
        )

    def _of_messages(
        self, test: Callable[[np.ndarray, Payloads], np.ndarray], payloads: Payloads
    ) -> np.ndarray:
        """Return ``test(publication, sent)`` for messages with publications, False for others."""
        messages, found = self.messages, payloads.sender != payloads.node
        found &= messages.lengths[payloads.message] > 0
        sent = payloads.take(found)
        found[found] = test(messages.publications[messages.offsets[sent.message]], sent)
        return found

    def _note_payloads(self, payloads: Payloads, is_lost: np.ndarray) -> None:
        """Record the ends of each publication that payloads carry, if delays are timed."""
        if not self.scribe.timed:
            return
        inside = self.messages.contents(payloads.message)
        of, publication = inside["call"], inside["publication"]
        group, ends = payloads.group[of], (payloads.sender[of], payloads.node[of])
        note_payloads(self.scribe, group, publication, *ends, is_lost[of])

    # ---- children that were added

    def settle(self, added: Columns) -> None:
        """Call joinHandler for all added children that are still children."""
        scribe = self.scribe
        columns = dict(added)
        at = columns.pop("at")
        joins = Joins(**columns)
        # of several JOINs of a source to a receiver, the last one counts
        edge = scribe.edge(joins.group, at, joins.source)
        order = np.argsort(edge, kind="stable")
        last = order[arrays.last_of_runs(edge[order])]
        at, joins, edge = at[last], joins.take(last), edge[last]
        own = (joins.source == at) & scribe.is_root(joins.group, at)  # new roots
        still = own | scribe.state.children.has(edge)
        self._call_join_handler(at[still], joins.take(still))

    def asked(self, came: Columns) -> None:
        """Call joinHandler at parents that children asked for missing messages."""
        columns = dict(came)
        at = columns.pop(AT)
        joins = Joins(**columns)
        edge = self.scribe.edge(joins.group, at, joins.source)
        order = np.argsort(edge, kind="stable")
        still = order[self.scribe.state.children.has(edge[order])]
        self._call_join_handler(at[still], joins.take(still))

    def _call_join_handler(self, at: np.ndarray, joins: Joins) -> None:
        """Call joinHandler for JOINs that are sorted by group, receiver `at` and source."""
        scribe, application = self.scribe, self.scribe.application
        pair = scribe.key(joins.group, at)
        starts = arrays.run_starts(pair)
        call = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(pair)))
        names = ("source", "number", "cause", "extra")
        table = {"call": call, **{name: getattr(joins, name) for name in names}}
        pair = pair[starts]
        calls = calls_of(scribe, pair, scribe.state.entries.find(pair))
        emitted = application.join_handler(calls, table)
        self._emit(pair, emitted)
        # a node sends one question, even if the application asks several
        call, extra = emitted.asks["call"], emitted.asks["extra"]
        asking, of = np.unique(call, return_inverse=True)
        extra = application.common_extra(of, extra, len(asking))
        group, node = scribe.split(pair[asking])
        row = scribe.entry(group, node)
        parent = scribe.state.entries.parent[row]
        up = parent >= 0
        why = np.full(len(row), state.cause("ask"), dtype=np.int8)
        asks = Joins(group, node, scribe.state.entries.number[row], why, extra).take(up)
        scribe.note(join.JOINS, **asks.to_columns())
        scribe.post(ASK, "JOIN", asks.source, parent[up], **asks.to_columns())


def _take_questions(scribe: Scribe) -> list[Columns]:
    """Return the questions of children after the last heartbeats, as rows of :data:`ADDED`."""
    questions = scribe.state.questions
    if not len(questions):
        return []
    group, at, source = scribe.ends(questions.key)
    why = np.full(len(at), state.cause("ask"), dtype=np.int8)
    joins = Joins(group, source, questions.number, why, questions.extra)
    scribe.state.questions = state.Questions()
    return [{"at": at, **joins.to_columns()}]


# --- the programs that call joinHandler for new children, and that multicast publications


class FinishTrees(RoundProgram):
    """Call joinHandler for children added by the round's JOINs, and update replicas."""

    writes = ("entries", "children", "copies", "replicas", "values", "addresses", "questions")
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
    handlers = ((sources.FATE, sources.hear_fates), (DROP, drop_children))

    def handle(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        taken = None if superstep else sources.take_publications(scribe, tables)
        if scribe.best_effort:
            self._disseminate(scribe, taken, inbox, superstep)
            return
        emitter = Emitter(scribe, PAYLOAD)
        if taken is not None:
            emitter.publish(taken["group"], taken["publication"], taken["root"])
        emitter.receive(inbox)
        emitter.close()

    def _disseminate(
        self, scribe: Scribe, taken: Columns | None, inbox: Inbox, superstep: int
    ) -> None:
        """Play a superstep of best-effort delivery, which has no upcalls."""
        if taken is not None:
            payloads = Payloads.of(taken["publication"], taken["group"], taken["root"])
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
