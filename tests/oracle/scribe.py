"""Scribe, one message at a time (JSAC section III.A, Figures 3 and 4).

The trees of a run, and of any overlay that has roots and next hops (`pastry`, `can.overlay`): a
message comes alone, in any order.  `scribe_living` has rounds, in which messages go together and
nodes come and go; where nobody does, its trees and deliveries are these (`test_static`).
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from .pastry import Overlay

Edge = tuple[int, int, int]
Deliveries = dict[int, tuple[int, int]]

SENDERS = ("root", "routed", "direct")


def group_id(group_name: str, creator_name: str) -> int:
    """Return the first 128 bits of SHA-1(group name followed by creator name), UTF-8, big-endian.

    JSAC section III.A.1: "the hash of the group's textual name concatenated with its creator's
    name".
    """
    return int.from_bytes(_sha1(group_name + creator_name)[:16], "big")


def creator_rooted_group_id(creator_id: int, group_name: str) -> int:
    """Return a groupId that lies next to the creator's nodeId, so that the creator is the root.

    JSAC section III.A.1 concatenates the creator's nodeId with the hash of the group's name.  Cut
    to a ring of 128 bits: the high 64 bits of the nodeId, then the first 64 bits of SHA-1(name).
    The creator is the root as long as no other nodeId lies within some 2**64 of it.
    """
    name_hash = int.from_bytes(_sha1(group_name)[:8], "big")
    return (creator_id >> 64 << 64) | name_hash


def _sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).digest()


def gsize(node_count: int, rank: int) -> int:
    """Return floor(N r^-1.25 + 0.5), the size of the group of a rank (JSAC section IV.A).

    Exact in integers: it is the largest k with (2k - 1)^4 r^5 <= (2N)^4.
    """
    return (math.isqrt(math.isqrt((2 * node_count) ** 4 // rank**5)) + 1) // 2


class Type(Enum):
    """The message types of JSAC section III.A that are simulated (LEAVE is not)."""

    CREATE = "create"
    JOIN = "join"
    MULTICAST = "multicast"


@dataclass(frozen=True)
class Message:
    """A Scribe message, with the overlay hops and the delay it has behind it."""

    type: Type
    group: int
    source: int
    hops: int = 0
    delay_us: int = 0


@dataclass(frozen=True)
class Packet:
    """A message under way to a node, on a Pastry route or sent to that node's address."""

    to: int
    message: Message
    routed: bool


class ScribeNode:
    """The Scribe software of one node: the two upcalls of Figures 3 and 4, and the API."""

    def __init__(self, node: int, scribe: Scribe) -> None:
        self.node = node
        self.scribe = scribe
        self.children: dict[int, set[int]] = {}  # "groups": group -> children table
        self.member_of: set[int] = set()

    def join(self, group: int) -> None:
        """Join a group; a forwarder or the root is in the tree already and sends nothing."""
        self.member_of.add(group)
        self._enter_tree(group)

    def _enter_tree(self, group: int) -> None:
        if group not in self.children:
            self.children[group] = set()
            self.scribe.route(Message(Type.JOIN, group, source=self.node), at=self.node)

    def forward(self, message: Message, next_node: int) -> int | None:
        """Figure 3: called before a routed message goes on; None ends the message here."""
        if message.type is not Type.JOIN:
            return next_node
        self._enter_tree(message.group)
        self.children[message.group].add(message.source)
        return None

    def deliver(self, message: Message) -> None:
        """Figure 4: called at the root of a routed message, or where a message was sent to."""
        if message.type is Type.CREATE:
            self.children.setdefault(message.group, set())
        elif message.type is Type.JOIN:
            self.children[message.group].add(message.source)
        else:
            for child in sorted(self.children[message.group]):
                self.scribe.send(message, self.node, child)
            if message.group in self.member_of:
                self.scribe.message_handler(self.node, message)


class Scribe:
    """All nodes of a Scribe system, and the network that carries their messages.

    Parameters
    ----------
    overlay : Overlay
        The Pastry overlay.
    keys : mapping of group to groupId
        Groups, created at once, each by the node with the least number (who creates a group makes
        no difference to its tree).
    rng : random.Random, optional
        If given, it chooses which of the messages under way arrives next.  Otherwise they arrive
        in the order in which they were sent.
    """

    def __init__(
        self, overlay: Overlay, keys: Mapping[int, int], rng: random.Random | None = None
    ) -> None:
        self.overlay = overlay
        self.keys = dict(keys)
        self.nodes = {node: ScribeNode(node, self) for node in overlay.ids}
        self._rng = rng
        self._under_way: list[Packet] = []
        self._deliveries: Deliveries = {}
        for group in keys:
            self.create(group, creator=min(overlay.ids))

    # --- What applications call -----------------------------------------------------------------

    def create(self, group: int, creator: int) -> None:
        """Let ``creator`` route a CREATE to the group's root, and wait until it has arrived."""
        self.route(Message(Type.CREATE, group, source=creator), at=creator)
        self._run()

    def join_all(self, joins: Iterable[tuple[int, int]]) -> None:
        """Let members join at the same time, starting in the order given.

        Parameters
        ----------
        joins : iterable of (group, member)
        """
        for group, member in joins:
            self.nodes[member].join(group)
        self._run()

    def multicast(self, group: int, sender: str = "root", source: int | None = None) -> Deliveries:
        """Multicast one message to a group (JSAC section III.A.3).

        Parameters
        ----------
        group : int
            The group.
        sender : {"root", "routed", "direct"}
            The root sends; or ``source`` routes its message to the root with Pastry; or ``source``
            sends it straight to the root, whose address it has cached.  From the root on, the
            message goes down the whole tree, past the source too.
        source : int, optional
            The sending node, for "routed" and "direct".

        Returns
        -------
        dict of node to (hops, delay_us)
            For each member but the source: overlay hops and delay from the source on.
        """
        if sender not in SENDERS or (source is None) != (sender == "root"):
            raise ValueError(f"sender {sender!r} does not go with source {source}")
        root = self.overlay.root(self.keys[group])
        start = root if source is None else source
        message = Message(Type.MULTICAST, group, source=start)
        self._deliveries = {}
        if sender == "direct" and start != root:
            self.send(message, start, root)
        else:
            self.route(message, at=start)
        self._run()
        return self._deliveries

    def edges(self) -> set[Edge]:
        """Return (group, parent, child) for every entry of every children table."""
        return {
            (group, parent, child)
            for parent, state in self.nodes.items()
            for group, children in state.children.items()
            for child in children
        }

    # --- What Pastry offers to Scribe (JSAC section II.C) ---------------------------------------

    def route(self, message: Message, at: int) -> None:
        """Start routing a message to its group's root; ``forward`` is not called at the source.

        (Were it called there, a joining node would become its own child.)
        """
        next_node = self.overlay.next_hop(at, self.keys[message.group])
        if next_node is None:
            self.nodes[at].deliver(message)
        else:
            self._post(message, at, next_node, routed=True)

    def send(self, message: Message, at: int, to: int) -> None:
        """Send a message to a node whose address is known."""
        self._post(message, at, to, routed=False)

    def message_handler(self, node: int, message: Message) -> None:
        """Take down that a member got the message; the source does not count."""
        if node in self._deliveries:
            raise RuntimeError(f"member {node} of group {message.group} got the message twice")
        if node != message.source:
            self._deliveries[node] = (message.hops, message.delay_us)

    # --- The network ----------------------------------------------------------------------------

    def _post(self, message: Message, at: int, to: int, routed: bool) -> None:
        on_the_way = replace(
            message,
            hops=message.hops + 1,
            delay_us=message.delay_us + self.overlay.proximity(at, to),
        )
        self._under_way.append(Packet(to, on_the_way, routed))

    def _run(self) -> None:
        """Let packets arrive until none is under way."""
        while self._under_way:
            index = self._rng.randrange(len(self._under_way)) if self._rng else 0
            self._arrive(self._under_way.pop(index))

    def _arrive(self, packet: Packet) -> None:
        here = self.nodes[packet.to]
        next_node = None
        if packet.routed:
            next_node = self.overlay.next_hop(packet.to, self.keys[packet.message.group])
        if next_node is None:
            here.deliver(packet.message)
        elif (agreed := here.forward(packet.message, next_node)) is not None:
            self._post(packet.message, packet.to, agreed, routed=True)
