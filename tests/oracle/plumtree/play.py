"""Networks of nodes with HyParView and Plumtree, and the commands that they get.

Q6 *Nodes.*  With grown views nobody is alive at first.  With static views all nodes are alive, the
   active views are given, and HyParView does nothing but take a dead neighbour out of the view.
Q7 *Commands.*  `join`: the node is alive, and asks its contact.  `fail`: the node is dead; with
   `breaks` each of its neighbours gets `down`.  `leave`: each of its neighbours gets
   DISCONNECT(not alive), and the node is dead.  `shuffle`: the node begins a shuffle.  `publish`:
   the node publishes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .event_queue import COMMAND, Draw, Event, EventQueue
from .hyparview import HyParView, Views
from .plumtree import Multicasts, Plumtree, Rules
from .wired_queue import Links, WiredQueue


class Command(NamedTuple):
    """A command; `value` is the contact of `join` (-1: none) or the publication of `publish`."""

    at: int
    kind: str
    node: int
    value: int = -1


class Node:
    """A node: the views below, the tree above."""

    def __init__(
        self, me: int, views: Views, rules: Rules, queue: EventQueue, multicasts: Multicasts
    ) -> None:
        self.tree = Plumtree(me, rules, queue, multicasts)
        self.views = HyParView(me, views, queue, self.tree.up, self.tree.down)


@dataclass
class Played:
    """What came of a play."""

    active: dict[int, set[int]]
    passive: dict[int, set[int]]
    eager: dict[int, set[int]]
    receipts: dict[tuple[int, int], tuple[int, int, int]]
    copies: list[tuple[int, int, int, int, int, int]]
    counts: Counter[str] = field(default_factory=Counter)


class Network:
    """All nodes, alive and dead, and their queue.

    Parameters
    ----------
    count : int
        The number of nodes.
    delay : callable
        ``delay(a, b)``, whole microseconds.
    static : mapping of int to collection of int, optional
        The active views; without them views are grown.
    links : Links, optional
        The rates of nodes, if publications have sizes.
    """

    def __init__(
        self,
        count: int,
        delay: Callable[[int, int], int],
        draw: Draw,
        views: Views | None = None,
        rules: Rules | None = None,
        static: Mapping[int, Iterable[int]] | None = None,
        links: Links | None = None,
    ) -> None:
        self.settings = views or Views()
        self.queue = WiredQueue(delay, draw, links) if links else EventQueue(delay, draw)
        self.multicasts = Multicasts()
        rules = rules or Rules()
        self.nodes = [
            Node(me, self.settings, rules, self.queue, self.multicasts) for me in range(count)
        ]
        self.is_static = static is not None
        for me, neighbours in (static or {}).items():
            for node in neighbours:
                self.nodes[me].views.active.add(node)
                self.nodes[me].tree.up(node)
        if self.is_static:
            self.queue.alive.update(range(count))

    @property
    def alive(self) -> set[int]:
        """Return the nodes that are alive."""
        return self.queue.alive

    def add(self, commands: Iterable[Command]) -> None:
        """Add commands, which are made in this order."""
        for at, kind, node, value in commands:
            self.queue.command(at, kind, node, value)

    def play(self, until: float = float("inf"), stop: Callable[[], bool] = lambda: False) -> None:
        """Play all events before a time, or until `stop` is true."""
        self.queue.play(self.handle, until, stop)

    def handle(self, event: Event) -> None:
        """Handle an event of a living node, or `join`."""
        me, views, tree = event.node, self.nodes[event.node].views, self.nodes[event.node].tree
        sender, fields = event.sender, event.fields
        if self.is_static and event.kind in ("down", "DISCONNECT"):
            if sender in views.active:
                views.drop_active(sender)
            return
        if sender == COMMAND:
            self.obey(me, event.kind)
        if event.kind not in ("fail", "leave"):
            name = f"on_{event.kind.lower()}" + ("_command" if sender == COMMAND else "")
            handler = getattr(views, name, None) or getattr(tree, name)
            handler(*((sender,) if sender >= 0 else ()), *fields)

    def obey(self, me: int, command: str) -> None:
        """Do what a command says of the node's life (Q7)."""
        neighbours = sorted(self.nodes[me].views.active)
        if command == "join":
            assert me not in self.alive
            assert not neighbours
            self.alive.add(me)
        elif command in ("fail", "leave"):
            self.alive.remove(me)
            for node in neighbours if command == "leave" or self.settings.breaks else ():
                self.queue.send(
                    me, node, *{"fail": ("down",), "leave": ("DISCONNECT", False)}[command]
                )

    def played(self) -> Played:
        """Return what came of the play so far; views are those of living nodes."""
        alive = sorted(self.alive)
        return Played(
            {me: set(self.nodes[me].views.active) for me in alive},
            {me: set(self.nodes[me].views.passive) for me in alive},
            {me: set(self.nodes[me].tree.eager) for me in alive},
            dict(self.multicasts.receipts),
            self.multicasts.copies[:],
            Counter(self.queue.sent),
        )
