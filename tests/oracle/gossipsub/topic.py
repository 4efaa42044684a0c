"""One topic: settings, discovery, connections, mesh and back-off (rules G1 to G9)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

#: draw(purpose, *numbers) -> 64 bits, unsigned.
Draw = Callable[..., int]


@dataclass(frozen=True)
class Settings:
    """Names are those of the rules; degrees are d, d_low, d_high, d_out, d_lazy.

    Back-offs are in heartbeats; `loss` is a share. `clock` is time or hops. `withholds`
    are the nodes of N6, which also `withholds_announcements`.
    """

    d: int = 6
    d_low: int = 5
    d_high: int = 12
    d_out: int = 2
    d_lazy: int = 6
    gossip_factor: float = 0.25
    discovery: str = "dial"
    dials: int = 20
    dials_per_heartbeat: int = 0
    joins: str = "at_once"
    join_waves: int = 1
    heartbeats: int = 10
    heartbeat_phases: int = 1
    prune_at_d_high: bool = False
    prune_backoff: int = 60
    unsubscribe_backoff: int = 10
    flood_publish: bool = True
    idontwant: bool = True
    processing_ms: float = 0
    heartbeat_ms: float = 1000
    mcache_gossip: int = 3
    loss: float = 0.0
    withholds: frozenset[int] = frozenset()
    withholds_announcements: bool = False
    clock: str = "time"
    detection: int = 1
    deadline: int = 5

    @property
    def processing_us(self) -> int:
        """Return the processing time in microseconds."""
        return round(self.processing_ms * 1000)

    @property
    def heartbeat_us(self) -> int:
        """Return the period of heartbeats in microseconds."""
        return round(self.heartbeat_ms * 1000)


def least(
    count: int, nodes: Iterable[int], draw: Callable[[int], int], idents: Mapping[int, int]
) -> list[int]:
    """Return the `count` nodes of least draw, of equal draws the smaller nodeId first."""
    return sorted(nodes, key=lambda node: (draw(node), idents[node]))[: max(count, 0)]


def is_lost(bits: int, loss: float) -> bool:
    """Tell whether a draw says that a copy is lost (G12)."""
    return (bits >> 11) * 2.0**-53 < loss


def sample(
    others: Iterable[int], count: int, draw: Callable[[int], int], idents: Mapping[int, int]
) -> list[int]:
    """Return `count` of the others without repeats (Floyd's sample), all if there are no more."""
    in_order = sorted(others, key=lambda node: idents[node])
    if len(in_order) <= count:
        return in_order
    taken: set[int] = set()
    for i in range(len(in_order) - count, len(in_order)):
        p = draw(i) % (i + 1)
        taken.add(i if p in taken else p)
    return [in_order[p] for p in sorted(taken)]


def dialled_in_topic(
    topic: int, x: int, among: Iterable[int], dials: int, h: int, draw: Draw, idents: Mapping
) -> list[int]:
    """Return whom a subscriber draws of the others in a topic (G2)."""
    others = [node for node in among if node != x]
    return sample(others, dials, lambda i: draw("gossipsub dial", h, topic, x, i), idents)


def dialled_by_all(
    nodes: Iterable[int], dials: int, draw: Draw, idents: Mapping[int, int]
) -> set[tuple[int, int]]:
    """Return (who dials, whom) of the one graph for all topics (G3)."""
    everybody = list(nodes)

    def drawn_by(x: int) -> list[int]:
        others = [node for node in everybody if node != x]
        return sample(others, dials, lambda i: draw("gossipsub graph", x, i), idents)

    return {(x, y) for x in everybody for y in drawn_by(x)}


#: (sender, receiver, kind) -> messages.
Messages = Counter[tuple[int, int, str]]


class Topic:
    """The state of all subscribers of one topic.

    Attributes
    ----------
    connected : dict of x to dict of y to bool
        Whether the connection is outbound at x (x has dialled).
    mesh : dict of x to set of y
    to_dial : dict of x to set of y
        Whom x has drawn, but not dialled yet.
    backoff : dict of x to dict of y to int
        Up to which heartbeat (excluded).
    joined : set of x
    messages : Counter of (sender, receiver, kind)
    dead : set of node
        Who gets no message; the topic's own state of them is not touched.
    """

    def __init__(
        self, number: int, settings: Settings, draw: Draw, idents: Mapping[int, int]
    ) -> None:
        self.number, self.settings, self.draw, self.idents = number, settings, draw, idents
        self.connected: dict[int, dict[int, bool]] = {}
        self.to_dial: dict[int, set[int]] = {}
        self.mesh: dict[int, set[int]] = {}
        self.backoff: dict[int, dict[int, int]] = {}
        self.joined: set[int] = set()
        self.dead: set[int] = set()
        self.messages: Messages = Counter()
        self.lost: Messages = Counter()

    # --- Connections ----------------------------------------------------------------------------

    def connect(self, dialler: int, other: int) -> None:
        """Connect two nodes; outbound at the dialler, at both where both have dialled (G2)."""
        self.connected.setdefault(dialler, {})[other] = True
        self.connected.setdefault(other, {}).setdefault(dialler, False)

    def dial(self, h: int, among: Collection[int], drawing: Iterable[int]) -> None:
        """Let nodes draw whom to dial, and all dial the next of those that they have drawn (G2)."""
        for x in drawing:
            dials, named = self.settings.dials, (self.draw, self.idents)
            self.to_dial[x] = set(dialled_in_topic(self.number, x, among, dials, h, *named))
        dialled = []
        for x, drawn in sorted(self.to_dial.items()):
            left = {y for y in drawn if y in among and y not in self.peers(x)}
            count = self.settings.dials_per_heartbeat or len(left)
            now = self.chosen("dial order", h, x, count, left)
            self.to_dial[x] = left - set(now)
            dialled += [(x, y) for y in now]
        for x, y in dialled:
            self.send(x, y, "dial")
            self.connect(x, y)

    def peers(self, x: int) -> dict[int, bool]:
        """Return whom x is connected to, and whether the connection is outbound at x."""
        return self.connected.get(x, {})

    def mesh_of(self, x: int) -> set[int]:
        """Return x's mesh."""
        return self.mesh.setdefault(x, set())

    # --- Messages -------------------------------------------------------------------------------

    def send(self, sender: int, receiver: int, kind: str) -> bool:
        """Count a message; tell whether it arrives."""
        self.messages[sender, receiver, kind] += 1
        if receiver in self.dead:
            self.lost[sender, receiver, kind] += 1
        return receiver not in self.dead

    def chosen(self, purpose: str, h: int, x: int, count: int, among: Iterable[int]) -> list[int]:
        """Return the `count` nodes of least draw("gossipsub <purpose>", h, topic, x, node)."""

        def drawn(y: int) -> int:
            return self.draw(f"gossipsub {purpose}", h, self.number, x, y)

        return least(count, among, drawn, self.idents)

    # --- JOIN and heartbeats --------------------------------------------------------------------

    def in_backoff(self, x: int, y: int, h: int) -> bool:
        """Tell whether y is in back-off at x (G9)."""
        return h < self.backoff.get(x, {}).get(y, h)

    def back_off(self, x: int, y: int, until: int) -> None:
        """Put y into back-off at x; of two the longer one holds."""
        mine = self.backoff.setdefault(x, {})
        mine[y] = max(until, mine.get(y, until))

    def eligible(self, x: int, h: int) -> list[int]:
        """Return whom x may graft (G5)."""
        return [
            y
            for y in self.peers(x)
            if self.subscribes(y) and y not in self.mesh_of(x) and not self.in_backoff(x, y, h)
        ]

    def subscribes(self, y: int) -> bool:
        """Tell whether y has joined, as far as who is connected to it knows."""
        return y in self.joined

    def wave(self, x: int) -> int:
        """Return the first heartbeat in which a node may JOIN (G4)."""
        waves = self.settings.join_waves if self.settings.joins == "waves" else 1
        return self.draw("gossipsub wave", self.number, x) % waves

    def join(self, nodes: Collection[int], h: int, graft: bool = True) -> None:
        """Let nodes JOIN together (G6), and deliver what they send (G8)."""
        self.joined |= set(nodes)
        grafts = []
        for x in sorted(nodes) if graft else ():
            grafts += self.graft(x, self.chosen("join", h, x, self.settings.d, self.eligible(x, h)))
        self.deliver(grafts, [], h)

    def graft(self, x: int, ys: Iterable[int]) -> list[tuple[int, int]]:
        """Take nodes into x's mesh at once; return (x, y) of each GRAFT to send."""
        sent = [(x, y) for y in ys]
        self.mesh_of(x).update(y for _, y in sent)
        return sent

    def heartbeat(self, h: int, acting: Collection[int] | None = None) -> None:
        """Play a heartbeat of all who have joined, or of some of them (dead ones do not act)."""
        phases = self.settings.heartbeat_phases
        everybody = self.joined if acting is None else set(acting) & self.joined
        for phase in range(phases):
            grafts: list[tuple[int, int]] = []
            prunes: list[tuple[int, int]] = []
            for x in sorted(everybody - self.dead):
                if self.draw("gossipsub phase", x) % phases == phase:
                    self.act(x, h, grafts, prunes)
            self.deliver(grafts, prunes, h)

    def act(
        self, x: int, h: int, grafts: list[tuple[int, int]], prunes: list[tuple[int, int]]
    ) -> None:
        """Let a node keep its mesh: steps (a), (b), (c) one after the other (G7)."""
        s, mesh, peers = self.settings, self.mesh_of(x), self.peers(x)
        if len(mesh) < s.d_low:
            wanted = s.d - len(mesh)
            grafts += self.graft(x, self.chosen("graft", h, x, wanted, self.eligible(x, h)))
        if len(mesh) > s.d_high or (s.prune_at_d_high and len(mesh) == s.d_high):
            outbound = [y for y in mesh if peers[y]]
            kept = self.chosen("keep", h, x, s.d_out, outbound)
            rest = mesh - set(kept)
            kept += self.chosen("keep", h, x, s.d - len(kept), rest)
            for y in sorted(mesh - set(kept)):
                mesh.remove(y)
                self.back_off(x, y, h + s.prune_backoff)
                prunes.append((x, y))
        if len(mesh) >= s.d_low:
            wanted = s.d_out - sum(peers[y] for y in mesh)
            outbound = [y for y in self.eligible(x, h) if peers[y]]
            grafts += self.graft(x, self.chosen("outbound", h, x, wanted, outbound))

    def deliver(
        self, grafts: Iterable[tuple[int, int]], prunes: Iterable[tuple[int, int]], h: int
    ) -> None:
        """Deliver PRUNEs, then GRAFTs, then the PRUNEs of those that are refused (G8)."""
        until = h + self.settings.prune_backoff
        for x, y in prunes:
            self.prune(x, y, until)
        arrived: dict[int, list[int]] = {}
        for x, y in grafts:
            if self.send(x, y, "GRAFT"):
                arrived.setdefault(y, []).append(x)
        refused = []
        for y, senders in arrived.items():
            new = [x for x in senders if x not in self.mesh_of(y)]
            for x in self.chosen("take", h, y, len(new), new):
                full = len(self.mesh_of(y)) >= self.settings.d_high and not self.peers(y)[x]
                if full or self.in_backoff(y, x, h):
                    self.back_off(y, x, until)
                    refused.append((y, x))
                else:
                    self.mesh_of(y).add(x)
        for y, x in refused:
            self.prune(y, x, until)

    def prune(self, sender: int, receiver: int, until: int) -> None:
        """Send a PRUNE: at the receiver the sender is out of the mesh, and in back-off."""
        if self.send(sender, receiver, "PRUNE"):
            self.mesh_of(receiver).discard(sender)
            self.back_off(receiver, sender, until)

    # --- What is compared, and what holds -------------------------------------------------------

    def mesh_links(self) -> set[tuple[int, int]]:
        """Return (x, y) for y in x's mesh."""
        return {(x, y) for x, ys in self.mesh.items() for y in ys}

    def connections(self) -> set[tuple[int, int, bool]]:
        """Return (x, y, outbound at x)."""
        return {(x, y, out) for x, ys in self.connected.items() for y, out in ys.items()}

    def backoffs(self, h: int) -> set[tuple[int, int, int]]:
        """Return (x, y, until) of what holds at heartbeat h."""
        return {
            (x, y, until) for x, ys in self.backoff.items() for y, until in ys.items() if h < until
        }

    def state(self, h: int) -> dict[tuple[int, str], int]:
        """Return the entries of each (node, kind), zeros left out (G14)."""
        entries: Counter[tuple[int, str]] = Counter()
        entries.update((x, "connections") for x, _, _ in self.connections())
        entries.update((x, "mesh") for x, _ in self.mesh_links())
        entries.update((x, "back-off") for x, _, _ in self.backoffs(h))
        return dict(entries)
