"""Cases of the oracle of bandwidth, played by the kernel in one process."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from oracle.bandwidth import Network, Publication, Rules

from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import ROOMS, Discipline, Nodes, Parts, TimedPublications
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES, LINKS, play_windows
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.losses import Lost
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import Tables


@dataclass(frozen=True)
class Ordered(Discipline):
    """A discipline with an order of its own; nodes are numbered as in the oracle."""

    order: object = None

    def order_of(self, number, publication, node, peer):
        """See `Discipline`."""
        keys = zip(publication.tolist(), number[node].tolist(), number[peer].tolist(), strict=True)
        return np.array([self.order(p, y, x) for p, y, x in keys], dtype=np.int64)


def buckets_of(links: Columns, bounds: Sequence[int]) -> Iterator[Tables]:
    """Yield the links of each bucket."""
    for first, last in itertools.pairwise(bounds):
        mine = (links["node"] >= first) & (links["node"] < last)
        yield Tables.of({LINKS: {name: column[mine] for name, column in links.items()}})


def play_links(
    given: ClockSetting, links: Columns, bounds: Sequence[int]
) -> tuple[Columns, Columns]:
    """Play links on buckets; return first copies and all copies, by publication, place, sender."""
    player = InTask([*buckets_of(links, bounds)])
    play_windows(player, np.array(bounds), given)
    found = player.gather(ARRIVALS, COPIES)
    return tuple(_sorted(found[name], "sender", "node", "room", "publication") for name in found)


def _sorted(columns: Columns, *keys: str) -> Columns:
    order = np.lexsort([columns[name] for name in keys])
    return {name: column[order] for name, column in columns.items()}


@dataclass
class Case:
    """A case of the oracle as links between rooms."""

    given: ClockSetting
    links: Columns
    place: dict[tuple[int, int], int]

    def played(self, bounds: Sequence[int]) -> tuple[dict, set]:
        """Return first copies and copies by the oracle's places."""
        first, copies = play_links(self.given, self.links, bounds)
        senders = self._senders()
        firsts = {}
        for p, room, node, at_us, hops, sender in _rows(
            first, "publication", "room", "node", "at_us", "hops", "sender"
        ):
            place = self.place[room, node]
            firsts[p, place] = (at_us, hops, senders.get((place, sender)))
        names = ("publication", "room", "node", "sender", "hops", "sent_us", "at_us", "lost")
        copies = {"lost": np.zeros(len(copies["node"]), dtype=bool), **copies}
        sent = set()
        for p, room, node, sender, *times, lost in _rows(copies, *names):
            place = self.place[room, node]
            sent.add((p, senders[place, sender], place, *times, lost))
        assert len(sent) == len(copies["node"])
        return firsts, sent

    def _senders(self) -> dict[tuple[int, int], int]:
        """Return (place, node that sends to it) -> the place of the sender."""
        names = ("room", "node", "to_room", "peer")
        return {
            (self.place[to, peer], node): self.place[room, node]
            for room, node, to, peer in _rows(self.links, *names)
        }


def _rows(columns: Columns, *names: str):
    return zip(*(columns[name].tolist() for name in names), strict=True)


@dataclass(frozen=True)
class LostCopies(Lost):
    """The lost and the withheld copies of a case; sources are positions."""

    rules: Rules
    number: np.ndarray
    source: np.ndarray

    def __call__(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """See `Lost`."""
        ends = zip(publication.tolist(), links["place"].tolist(), links["to"].tolist(), strict=True)
        return np.array([self.rules.lost(*one) for one in ends], dtype=bool)

    def withheld(self, publication: np.ndarray, links: Columns) -> np.ndarray:
        """See `Lost`."""
        sender = self.number[links["node"]].tolist()
        copies = zip(publication.tolist(), sender, strict=True)
        found = np.array([self.rules.withholds(*one) for one in copies], dtype=bool)
        return found & (links["node"] != self.source[publication])

    @property
    def withholds_announcements(self) -> bool:
        """See `Lost`."""
        return self.rules.withholds_announcements


@dataclass(frozen=True)
class Useful:
    """The copies that are useful by the rules of a case."""

    rules: Rules

    def __call__(self, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray) -> np.ndarray:
        """Return True for useful copies; the ends are numbers of nodes."""
        copies = zip(message.tolist(), sender.tolist(), receiver.tolist(), strict=True)
        return np.array([self.rules.useful(*one) for one in copies], dtype=bool)


def case_of(
    network: Network, publications: Sequence[Publication], rules: Rules, loses: bool = False
) -> Case:
    """Return the links of a case; a topic is what hangs together.

    The network `loses` copies by the rules, or none.
    """
    by_ident = sorted(network.nodes, key=lambda node: network.nodes[node].ident)
    position = {node: number for number, node in enumerate(by_ident)}
    room = _rooms(network)
    key = {place: (room[place], position[node]) for place, node in network.places.items()}
    links = [(*key[one.sender], *key[one.receiver], one.delay_us) for one in network.links]
    columns = np.array(links, dtype=np.int64).reshape(-1, 5).T
    named = dict(zip(("room", "node", "to_room", "peer", "delay_us"), columns, strict=True))
    named["mesh"] = np.array([one.mesh for one in network.links], dtype=bool)
    named["order"] = np.arange(len(links))
    nodes = [network.nodes[node] for node in by_ident]
    sources = np.array([key[one.source] for one in publications], dtype=np.int64).reshape(-1, 2)
    published = TimedPublications(
        *(np.array([one.at_us for one in publications], dtype=np.int64),),
        *(sources[:, 0] // ROOMS, sources[:, 1]),
        np.array([one.size for one in publications], dtype=np.int64),
        sources[:, 0] % ROOMS > 0,
        np.array([one.flood for one in publications], dtype=bool),
    )
    discipline = Ordered(
        rules.discipline,
        rules.shared,
        idontwant=rules.idontwant,
        seed=None if rules.order is None else 0,
        order=rules.order,
    )
    rates = ([getattr(one, name) for one in nodes] for name in ("up", "down", "validation_us"))
    given = Nodes(np.array(by_ident), *(np.array(rate, dtype=np.int64) for rate in rates))
    place_of = {k: p for p, k in key.items()}
    named["place"], named["to"] = (
        np.array([getattr(one, end) for one in network.links], dtype=np.int64)
        for end in ("sender", "receiver")
    )

    lost = LostCopies(rules, given.number, sources[:, 1]) if loses else None

    def narrowest(node: np.ndarray, peer: np.ndarray) -> np.ndarray:
        ends = zip(node.tolist(), peer.tolist(), strict=True)
        rates = [network.narrowest(by_ident[y], by_ident[x]) for y, x in ends]
        return np.array(rates, dtype=np.int64)

    options = {"lost": lost, "narrowest": narrowest}
    if rules.recoded:
        parts = Parts(rules.recoded, rules.recoded, recoded=True)
        options |= {"parts": parts, "useful": Useful(rules)}
    setting = ClockSetting(given, published, discipline, **options)
    return Case(setting, named, place_of)


def _rooms(network: Network) -> dict[int, int]:
    """Return the room of each place: those that hang together are of a topic.

    Of two places of a node in a topic that to which nothing is sent is on the way to the root.
    """
    beside = defaultdict(set)
    for link in network.links:
        beside[link.sender].add(link.receiver)
        beside[link.receiver].add(link.sender)
    taken = {link.receiver for link in network.links}
    room: dict[int, int] = {}
    for topic, start in enumerate(sorted(network.places)):
        waiting = [start] if start not in room else []
        while waiting:
            place = waiting.pop()
            if place not in room:
                room[place] = topic * ROOMS
                waiting += beside[place]
    there = Counter((room[place], node) for place, node in network.places.items())
    for place, node in network.places.items():
        if there[room[place], node] > 1 and place not in taken:
            room[place] += 1
    return room
