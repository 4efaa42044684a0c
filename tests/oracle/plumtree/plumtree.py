"""Plumtree at one node: a handler for each message and timer.

E1 *Sets.*  Each neighbour is eager or lazy; a new neighbour is eager.
E2 *Publication.*  The source has the publication, and pushes it with the round number 0.
E3 *Push* with a round number r, except to one node: GOSSIP(p, r) to all eager neighbours, then
   IHAVE(p, r) to all lazy ones, which leaves with the node's batch.  The copies leave when the
   node has checked the publication; a source does not check it.
E4 *Batch.*  A node has one batch at a time, for all publications and receivers; it leaves
   `batch_us` after its first IHAVE.
E5 *A new GOSSIP(p, r)*: the node pushes p with r + 1, except to the sender.  `paper`: a sender
   that is a neighbour becomes eager.  Then the tree is optimised (E9), and the announcements of p
   are forgotten.
E6 *A duplicate*: a sender that is a neighbour becomes lazy and gets PRUNE.  `corrosion`: only if
   it is the sixth duplicate of this neighbour since it became a neighbour, or since its last
   PRUNE.  A sender that is no neighbour gets PRUNE.  A neighbour from which PRUNE comes becomes
   lazy.
E7 *IHAVE(p, r)* of a neighbour, without p: the node notes (sender, r).  Unless p has a timer, it
   is set to `timer_1_us`.
E8 *Timer* of p, without p: the first node of the notes is taken from them, becomes eager, and gets
   GRAFT(p); the timer is set to `timer_2_us`.  Without notes nothing happens.  `corrosion`: a timer
   that was set by a timer asks a drawn eager neighbour instead, if there is one; the first note
   is taken, too, so that requests for what nobody keeps come to an end. *GRAFT(p)*: the sender
   becomes eager if it is a neighbour. If the node got p at most `payload_us` ago, the sender gets
   GOSSIP(p, r) with the r with which the node pushed p.
E9 *Optimisation*, if the sender of GOSSIP(p, r) is a neighbour: x is the node of the note with the
   least round number r', and of these the first.  If x is not the sender and r - r' >= `threshold`
   (`iroh`: r + 1 - r'), x becomes eager and gets GRAFT without a publication, and the sender
   becomes lazy and gets PRUNE (`corrosion`: it stays as it is).  Threshold 0: no optimisation.
E10 A neighbour that is lost is in no set, and all that it announced is forgotten.
"""

from dataclasses import dataclass, field

from .event_queue import EventQueue


@dataclass(frozen=True)
class Rules:
    """The settings of Plumtree; `rules` is paper, iroh or corrosion, times are microseconds."""

    rules: str = "paper"
    timer_1_us: int = 80_000
    timer_2_us: int = 40_000
    batch_us: int = 5_000
    threshold: int = 7
    duplicates: int = 5  # `corrosion`: more than these prune
    payload_us: int = 30_000_000
    validation_us: tuple[int, ...] = ()  # of each node


PAPER, IROH = Rules(), Rules("iroh")
CORROSION = Rules("corrosion", timer_1_us=1_000_000, timer_2_us=500_000)


@dataclass
class Multicasts:
    """What came of all publications."""

    #: (publication, node) -> time, hops, sender (-1: the source) of the first copy.
    receipts: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    #: (publication, sender, receiver, hops, leaves, arrives) of all copies.
    copies: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)


class Plumtree:
    """The state of one node."""

    def __init__(self, me: int, rules: Rules, queue: EventQueue, multicasts: Multicasts) -> None:
        self.me, self.rules, self.queue, self.multicasts = me, rules, queue, multicasts
        self.eager: set[int] = set()
        self.lazy: set[int] = set()
        self.got: dict[int, tuple[int, int]] = {}  # when, and the round number with which I push
        self.announced: dict[int, list[tuple[int, int]]] = {}
        self.timer: dict[int, tuple[int, bool]] = {}  # its time, whether a timer has set it
        self.duplicates: dict[int, int] = {}  # of each neighbour
        self.batch = 0

    # --- neighbours (E1, E10) -------------------------------------------------------------------

    def up(self, node: int) -> None:
        """Take a new neighbour."""
        self.eager.add(node)
        self.duplicates[node] = 0

    def down(self, node: int) -> None:
        """Lose a neighbour."""
        self.eager.discard(node)
        self.lazy.discard(node)
        for notes in self.announced.values():
            notes[:] = [note for note in notes if note[0] != node]

    def is_neighbour(self, node: int) -> bool:
        """Whether a node is eager or lazy."""
        return node in self.eager or node in self.lazy

    def make_eager(self, node: int) -> None:
        """Make a neighbour eager."""
        assert self.is_neighbour(node)
        self.lazy.discard(node)
        self.eager.add(node)

    def make_lazy(self, node: int) -> None:
        """Make a neighbour lazy."""
        assert self.is_neighbour(node)
        self.eager.discard(node)
        self.lazy.add(node)

    # --- payload (E2 to E6, E9) -----------------------------------------------------------------

    def on_publish_command(self, publication: int) -> None:
        """Publish (E2)."""
        self.multicasts.receipts[publication, self.me] = self.queue.now, 0, -1
        self.push(publication, 0, None)

    def push(self, publication: int, number: int, but: int | None) -> None:
        """Send a publication on (E3, E4)."""
        self.got[publication] = self.queue.now, number
        checks = self.rules.validation_us[self.me] if self.rules.validation_us and number else 0
        for node in sorted(self.eager - {but}):
            self.send_copy(node, publication, number, checks)
        lazy = sorted(self.lazy - {but})
        if lazy and self.queue.now >= self.batch:
            self.batch = self.queue.now + self.rules.batch_us
        for node in lazy:
            self.queue.send(self.me, node, "IHAVE", publication, number, leaves=self.batch)

    def send_copy(self, to: int, publication: int, number: int, after: int = 0) -> None:
        """Send GOSSIP, now or after a time."""
        leaves = self.queue.now + after
        arrives = leaves + self.queue.delay(self.me, to)
        self.multicasts.copies.append((publication, self.me, to, number + 1, leaves, arrives))
        self.queue.send(self.me, to, "GOSSIP", publication, number, leaves=leaves)

    def on_gossip(self, sender: int, publication: int, number: int) -> None:
        """Handle a copy (E5, E6)."""
        if publication in self.got:
            self.on_duplicate(sender)
            return
        self.multicasts.receipts[publication, self.me] = self.queue.now, number + 1, sender
        self.timer.pop(publication, None)
        self.push(publication, number + 1, sender)
        announced = self.announced.pop(publication, [])
        if self.is_neighbour(sender):
            if self.rules.rules == "paper":
                self.make_eager(sender)
            self.optimise(sender, number, announced)

    def on_duplicate(self, sender: int) -> None:
        """Handle a copy that is not the first one (E6)."""
        if self.is_neighbour(sender):
            if self.rules.rules == "corrosion":
                self.duplicates[sender] += 1
                if self.duplicates[sender] <= self.rules.duplicates:
                    return
                self.duplicates[sender] = 0
            self.make_lazy(sender)
        self.queue.send(self.me, sender, "PRUNE")

    def optimise(self, sender: int, number: int, announced: list[tuple[int, int]]) -> None:
        """Change to a shorter way (E9)."""
        if not announced or self.rules.threshold == 0:
            return
        node, least = min(announced, key=lambda note: note[1])
        came = number + 1 if self.rules.rules == "iroh" else number
        if node != sender and came - least >= self.rules.threshold:
            self.make_eager(node)
            self.queue.send(self.me, node, "GRAFT", None)
            if self.rules.rules != "corrosion":
                self.make_lazy(sender)
                self.queue.send(self.me, sender, "PRUNE")

    def on_prune(self, sender: int) -> None:
        """Handle PRUNE (E6)."""
        if self.is_neighbour(sender):
            self.make_lazy(sender)

    # --- announcements (E7, E8) -----------------------------------------------------------------

    def on_ihave(self, sender: int, publication: int, number: int) -> None:
        """Handle IHAVE (E7)."""
        if publication in self.got or not self.is_neighbour(sender):
            return
        self.announced.setdefault(publication, []).append((sender, number))
        if publication not in self.timer:
            self.set_timer(publication, self.rules.timer_1_us, False)

    def set_timer(self, publication: int, after: int, by_timer: bool) -> None:
        """Set the one timer of a publication."""
        at = self.queue.now + after
        self.timer[publication] = at, by_timer
        self.queue.wake(self.me, at, "graft_timer", publication)

    def on_graft_timer(self, publication: int) -> None:
        """Ask for a publication (E8)."""
        at, by_timer = self.timer.get(publication, (None, False))
        if at != self.queue.now:
            return
        del self.timer[publication]
        announced = self.announced.get(publication, [])
        if not announced:
            return
        node, _ = announced.pop(0)
        if self.rules.rules == "corrosion" and by_timer and self.eager:
            node = self.queue.pick("graft", self.eager)
        self.make_eager(node)
        self.queue.send(self.me, node, "GRAFT", publication)
        self.set_timer(publication, self.rules.timer_2_us, True)

    def on_graft(self, sender: int, publication: int | None) -> None:
        """Handle GRAFT (E8)."""
        if self.is_neighbour(sender):
            self.make_eager(sender)
        if publication is not None and publication in self.got:
            at, number = self.got[publication]
            if self.queue.now - at <= self.rules.payload_us:
                self.send_copy(sender, publication, number)
