"""`forward` and `deliver` of Figures 3 and 4, line by line, for messages that arrive together.

In the papers a message comes alone; here all messages of one kind and group that reach a node in
the same superstep come as a list, and what the node does is the same in every order of the list.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .state import Answer, Child, Join, Payload, Scribe


def forward(
    scribe: Scribe, node: int, messages: Sequence[Join], route: Callable[[], object]
) -> None:
    """Figure 3; `route` sends the node's own JOIN to the next node."""
    group = messages[0].group  # (2) switch msg.type is JOIN
    if scribe.entry(group, node) is None:  # (3) if !(msg.group in groups)
        scribe.enter(group, node, "forwarder")  # (4) groups = groups + msg.group
        route()  # (5) route(msg, msg.group)
    for message in messages:
        add_child(scribe, node, message)  # (6) children + msg.source


def deliver_join(scribe: Scribe, node: int, messages: Sequence[Join]) -> None:
    """Figure 4, line 4: at the root."""
    for message in messages:
        add_child(scribe, node, message)  # (4) children + msg.source


def add_child(scribe: Scribe, node: int, message: Join) -> None:
    """A child is added, and answered; joinHandler is called later."""
    group, source = message.group, message.source
    entry = scribe.entries[group][node]
    entry.children[source] = Child(message.number, scribe.round)
    scribe.added.append((node, message))
    scribe.answers.append(Answer(group, source, node, entry.path, entry.root))


def take_answers(scribe: Scribe) -> None:
    """All answers that are under way arrive."""
    answers, scribe.answers = scribe.answers, []
    for answer in answers:
        take_answer(scribe, answer)


def take_answer(scribe: Scribe, answer: Answer) -> None:
    """Whoever sent a JOIN takes who answers as its parent; a root takes no answer."""
    child = scribe.entry(answer.group, answer.source)
    if child is not None and not child.root:
        child.parent, child.heard = answer.parent, scribe.round
        child.path = (answer.parent, *answer.path)
        if answer.by_root:
            scribe.at_root.append((answer.group, answer.source))


def deliver_multicast(scribe: Scribe, group: int, node: int, message: Payload) -> dict:
    """Figure 4, lines 5 to 8; child -> the message to be sent to it."""
    entry, application = scribe.entries[group][node], scribe.application
    for publication in message.publications:
        young = publication[0] + scribe.settings.deadline >= scribe.round
        counts = scribe.duplicates if (publication, node) in scribe.got else scribe.first_copies
        counts[publication] += entry.member and young
        scribe.got.add((publication, node))
    # (5, 6) for all children: send(msg, node), as forwardHandler wants it
    sent, change = application.forward_handler(scribe.local(group, node), message)
    if change is not None and entry.root:
        copy = scribe.copies[group, node]
        version = copy.state.version + 1
        copy.state = replace(copy.state, version=version, application=change.state)
        scribe.changed.add((group, node))
    # (7) if memberOf(msg.group)
    # (8) invokeMessageHandler(msg.group, msg)
    if entry.member:
        delivered = application.message_handler(scribe.local(group, node), message)
        scribe.deliveries += [(publication, node) for publication in delivered]
    return {child: part for child, part in sent.items() if child in entry.children}


def deliver_leave(scribe: Scribe, group: int, node: int, source: int, number: int) -> None:
    """Figure 4, line 9; lines 10 and 11 are `leaving.leave_up`."""
    entry = scribe.entry(group, node)
    if entry is None:
        return
    child = entry.children.get(source)
    if child is not None and child.number <= number:
        del entry.children[source]  # (9) children - msg.source


def send_leave(scribe: Scribe, group: int, node: int, to: int, number: int) -> None:
    """Figure 4, line 11, and the corrected condition is the caller's."""
    if scribe.overlay.send("LEAVE", node, to):
        deliver_leave(scribe, group, to, node, number)
