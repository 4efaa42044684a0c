"""HyParView at one node: a handler for each message, command and timer.

*Room is made* for a node: if the active view is full, a drawn neighbour is dropped (H2).

H1 *Views.*  The active view holds at most `active` neighbours, the passive view at most `passive`
   nodes.  No node is in both views, or in its own views.
H2 A neighbour that is dropped gets DISCONNECT(alive) and enters the passive view.
H3 *JOIN* at the contact: room is made, the newcomer enters the active view and gets
   ACCEPT(newcomer); all other neighbours get FORWARDJOIN(newcomer, ARWL).
H4 *FORWARDJOIN(j, ttl)* at j itself: if ttl > 0, it goes on with ttl - 1; else it is dropped.
   Elsewhere the walk ends at ttl 0 or with at most one neighbour.  Else j enters the passive view
   if ttl = PRWL, and the message goes on with ttl - 1.  It goes on to a drawn neighbour that is
   not its sender.
H5 *End of the walk*, unless j is a neighbour or the request under way is to j.  `paper`: room is
   made, j enters the active view and gets ACCEPT(newcomer).  `iroh`: j gets NEIGHBOR(newcomer).
H6 *NEIGHBOR* of a neighbour, with the priority high or newcomer, or into a free place: room is
   made, the sender enters the active view and gets ACCEPT of the same priority; a neighbour gets
   ACCEPT again.  Else the sender gets REFUSE with 3 drawn nodes of the active and 4 of the passive
   view.  A node that enters the active view, or is in it, ends a request to this node.
H7 *ACCEPT*: room is made, the sender enters the active view.  ACCEPT(low) at a full view, and
   ACCEPT(low) or ACCEPT(high) that answers no request, get DISCONNECT(alive), unless the sender is
   a neighbour.
H8 *DISCONNECT(alive)* of a neighbour: it moves to the passive view.  Of a node that leaves: it is
   in no view from then on.
H9 *Down*: a node that is dead is in no view from then on.
H10 *Asking.*  Only if `repair` is on, no request is under way and the active view is not full: a
   drawn node of the passive view that did not refuse in this round gets NEIGHBOR, with high
   priority if the active view is empty.  A node asks after each ACCEPT, REFUSE, DISCONNECT,
   `down`, SHUFFLEREPLY, after a SHUFFLE that it answers and after its own shuffle begins.  A
   node that refused is asked again after a neighbour was lost.  A new round begins when a neighbour
   is dead or leaves, and with each own shuffle; it has at most as many requests as the passive view
   has places.  A neighbour that dropped the node counts as one that refused.
   `iroh`: a node that has not answered after 500 ms leaves the passive view.
H11 *Shuffle.*  A drawn neighbour gets SHUFFLE with the node itself, 3 other neighbours, 4 nodes of
   the passive view, all drawn, and a ttl.
H12 *SHUFFLE(origin, nodes, ttl)* from a node that is no neighbour: DISCONNECT(alive).  `paper`:
   the ttl is decreased first, and the message goes on if the ttl is above 0.  `iroh`: it goes on
   with ttl - 1 if the ttl is above 0.  It goes on to a drawn neighbour that is neither its sender
   nor the origin.  Without such a neighbour, or at the end of the walk, the node answers by
   SHUFFLEREPLY with as many drawn nodes of its passive view, and takes the nodes of the message
   into its passive view.
H13 *A full passive view.*  Old nodes make room for new ones: first those that the node has just
   sent (its reply, or its last shuffle), then others, drawn within both.  `iroh`: drawn alone.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from .event_queue import EventQueue

LOW, HIGH, NEWCOMER = range(3)


@dataclass(frozen=True)
class Views:
    """The settings of HyParView; `rules` is paper or iroh, times are microseconds."""

    rules: str = "paper"
    active: int = 5
    passive: int = 30
    arwl: int = 6
    prwl: int = 3
    shuffle_active: int = 3
    shuffle_passive: int = 4
    shuffle_ttl: int = 6
    answer_us: int = 500_000
    breaks: bool = True
    repair: bool = True

    @property
    def is_iroh(self) -> bool:
        """Whether the rules are those of iroh."""
        return self.rules == "iroh"


class HyParView:
    """The state of one node.

    `up` and `down` tell the multicast above that a neighbour comes or goes.
    """

    def __init__(
        self,
        me: int,
        views: Views,
        queue: EventQueue,
        up: Callable[[int], None],
        down: Callable[[int], None],
    ) -> None:
        self.me, self.views, self.queue = me, views, queue
        self.up, self.down = up, down
        self.active: set[int] = set()
        self.passive: set[int] = set()
        self.refused: set[int] = set()  # in this round of asking
        self.asked = 0  # requests of this round
        self.request: tuple[int, int] | None = None  # who was asked, and when
        self.shuffled: list[int] = []  # what the last own SHUFFLE named besides the node itself

    def send(self, to: int, kind: str, *fields: object) -> None:
        """Send a message."""
        self.queue.send(self.me, to, kind, *fields)

    # --- the views (H1, H2, H13) ----------------------------------------------------------------

    def drop_active(self, node: int) -> None:
        """Take a neighbour out of the active view."""
        self.active.remove(node)
        self.down(node)

    def drop_passive(self, node: int) -> None:
        """Take a node out of the passive view if it is there."""
        self.passive.discard(node)
        self.refused.discard(node)

    def take(self, node: int) -> None:
        """Make room for a node, and let it enter the active view."""
        self.answered_by(node)
        if node in self.active:
            return
        self.drop_passive(node)
        if len(self.active) == self.views.active:
            dropped = self.queue.pick("drop", self.active)
            self.drop_active(dropped)
            self.send(dropped, "DISCONNECT", True)
            self.into_passive([dropped], [])
        self.active.add(node)
        self.up(node)

    def into_passive(self, nodes: Sequence[int], sent: Collection[int]) -> None:
        """Let nodes enter the passive view; old ones make room (H13)."""
        known = {self.me} | self.active | self.passive
        fresh = [node for node in dict.fromkeys(nodes) if node not in known]
        fresh = fresh[: self.views.passive]
        too_many = max(0, len(self.passive) + len(fresh) - self.views.passive)
        first = set() if self.views.is_iroh else self.passive & set(sent)
        gone = self.queue.picks("evict", first, too_many)
        gone += self.queue.picks("evict", self.passive - first, too_many - len(gone))
        for node in gone:
            self.drop_passive(node)
        self.passive.update(fresh)
        assert len(self.passive) <= self.views.passive

    # --- joining (H3 to H5) ---------------------------------------------------------------------

    def on_join_command(self, contact: int) -> None:
        """Ask the contact; the first node has none (-1)."""
        if contact >= 0:
            self.send(contact, "JOIN")

    def on_join(self, sender: int) -> None:
        """Handle JOIN (H3)."""
        self.take(sender)
        self.send(sender, "ACCEPT", NEWCOMER)
        for node in sorted(self.active - {sender}):
            self.send(node, "FORWARDJOIN", sender, self.views.arwl)

    def on_forwardjoin(self, sender: int, newcomer: int, ttl: int) -> None:
        """Handle FORWARDJOIN (H4, H5)."""
        others = self.active - {sender}
        if newcomer == self.me:
            if ttl > 0 and others:
                self.send(self.queue.pick("walk", others), "FORWARDJOIN", newcomer, ttl - 1)
        elif ttl > 0 and len(self.active) > 1:
            if ttl == self.views.prwl:
                self.into_passive([newcomer], [])
            self.send(self.queue.pick("walk", others), "FORWARDJOIN", newcomer, ttl - 1)
        elif newcomer not in self.active and not self.is_asked(newcomer):
            if self.views.is_iroh:
                self.send(newcomer, "NEIGHBOR", NEWCOMER)
            else:
                self.take(newcomer)
                self.send(newcomer, "ACCEPT", NEWCOMER)

    # --- neighbours (H6 to H10) -----------------------------------------------------------------

    def on_neighbor(self, sender: int, priority: int) -> None:
        """Handle NEIGHBOR (H6)."""
        has_place = sender in self.active or len(self.active) < self.views.active
        if priority != LOW or has_place:
            self.take(sender)
            self.send(sender, "ACCEPT", priority)
        else:
            told = self.queue.picks("refuse active", self.active, 3)
            told += self.queue.picks("refuse passive", self.passive, 4)
            self.send(sender, "REFUSE", told)

    def on_accept(self, sender: int, priority: int) -> None:
        """Handle ACCEPT (H7)."""
        is_expected = priority == NEWCOMER or self.is_asked(sender)
        self.answered_by(sender)
        has_place = priority != LOW or len(self.active) < self.views.active
        if sender in self.active or (is_expected and has_place):
            self.take(sender)
        else:
            self.send(sender, "DISCONNECT", True)
        self.ask()

    def on_refuse(self, sender: int, nodes: list[int]) -> None:
        """Handle REFUSE (H10)."""
        self.answered_by(sender)
        self.into_passive(nodes, [])
        if sender in self.passive:
            self.refused.add(sender)
        self.ask()

    def on_disconnect(self, sender: int, alive: bool) -> None:
        """Handle DISCONNECT (H8)."""
        if not alive:
            self.answered_by(sender)
        if sender in self.active:
            if alive:
                self.refused.clear()  # not a new round: droppers would take turns for ever
            else:
                self.new_round()
            self.drop_active(sender)
            if alive:
                self.into_passive([sender], [])
                self.refused.add(sender)
        if not alive:
            self.drop_passive(sender)
        self.ask()

    def on_down(self, sender: int) -> None:
        """Learn that a node is dead (H9)."""
        self.drop_passive(sender)
        self.answered_by(sender)
        if sender in self.active:
            self.new_round()
            self.drop_active(sender)
        self.ask()

    def is_asked(self, node: int) -> bool:
        """Whether the request under way is to this node."""
        return self.request is not None and self.request[0] == node

    def answered_by(self, node: int) -> None:
        """End the request under way if it is to this node."""
        if self.is_asked(node):
            self.request = None

    def new_round(self) -> None:
        """Begin a round of asking."""
        self.refused.clear()
        self.asked = 0

    def ask(self) -> None:
        """Ask the next node to become a neighbour (H10)."""
        left = self.passive - self.refused
        if not self.views.repair or self.request is not None or not left:
            return
        if self.asked >= self.views.passive:
            return
        if len(self.active) < self.views.active:
            asked = self.queue.pick("ask", left)
            self.asked += 1
            self.request = asked, self.queue.now
            self.send(asked, "NEIGHBOR", LOW if self.active else HIGH)
            if self.views.is_iroh:
                at = self.queue.now + self.views.answer_us
                self.queue.wake(self.me, at, "request_timer", asked)

    def on_request_timer(self, asked: int) -> None:
        """Give up on a node that has not answered (H10)."""
        if self.request == (asked, self.queue.now - self.views.answer_us):
            self.request = None
            self.drop_passive(asked)
            self.ask()

    # --- shuffling (H11, H12) -------------------------------------------------------------------

    def on_shuffle_command(self, _: int = -1) -> None:
        """Begin a shuffle (H11)."""
        self.new_round()
        if self.active:
            views, picks = self.views, self.queue.picks
            to = self.queue.pick("shuffle to", self.active)
            named = picks("shuffle active", self.active - {to}, views.shuffle_active)
            named += picks("shuffle passive", self.passive, views.shuffle_passive)
            self.shuffled = named
            self.send(to, "SHUFFLE", self.me, [self.me, *named], views.shuffle_ttl)
        self.ask()

    def on_shuffle(self, sender: int, origin: int, nodes: list[int], ttl: int) -> None:
        """Handle SHUFFLE (H12)."""
        if sender not in self.active:
            self.send(sender, "DISCONNECT", True)
            return
        if not self.views.is_iroh:
            ttl -= 1
        others = self.active - {sender, origin}
        if ttl > 0 and others:
            left = ttl - 1 if self.views.is_iroh else ttl
            self.send(self.queue.pick("walk", others), "SHUFFLE", origin, nodes, left)
            return
        told = self.queue.picks("reply", self.passive, len(nodes))
        self.send(origin, "SHUFFLEREPLY", told)
        self.into_passive(nodes, told)
        self.ask()

    def on_shufflereply(self, sender: int, nodes: list[int]) -> None:
        """Handle SHUFFLEREPLY (H12)."""
        self.into_passive(nodes, self.shuffled)
        self.ask()
