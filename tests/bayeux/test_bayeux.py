"""Bayeux in a run against its oracle: lists, messages, copies and deliveries of all cases."""

from collections import Counter

import numpy as np
import pytest
import worlds
from bayeux_played import run_of
from oracle import bandwidth
from oracle.bayeux.cases import BayeuxCase, random_bayeux
from oracle.bayeux.session import Session, publish
from poisoned import PoisonedTask
from round_0 import Round0
from seeds import PLAYS

from scribe_spark.engine.in_task import InTask
from tests.world.test_round_clock import links_of

SLOW = pytest.mark.slow


@pytest.mark.parametrize(("buckets", "seeds"), PLAYS)
def test_lists_messages_copies_and_deliveries_equal_the_oracle(buckets, seeds):
    delivered = repeated = 0
    for seed in seeds:
        case = random_bayeux(seed)
        sessions = case.sessions(case.overlay())
        run = run_of(case, buckets, player=PoisonedTask if buckets > 1 else InTask)
        assert run.control() == control_of(sessions), seed
        assert run.state() == state_of(sessions), seed
        deliveries, copies, duplicates = published(case, sessions)
        assert run.rows("deliveries", "group", "node", "hops", "delay_us") == deliveries, seed
        sent = run.rows("copies", "group", "sender", "to", "hops", "sent_us", "first")
        assert [row[:-1] for row in sent] == copies, seed
        edges = run.rows("edges", "group", "sender", "to", "hops", "sent_us", "first")
        assert edges == (sent if run.system.has_trees else [])
        late = [
            to
            for group, _, to, *_, first in sent
            if not first and to in case.case.members[group] - {case.sources[group][0]}
        ]
        assert len(late) == duplicates, seed
        delivered += len(deliveries)
        repeated += duplicates
    assert delivered > 2_000
    assert repeated > 10


SLOW_LINKS = {"size": 128_000, "up": 50_000_000, "down": 30_000_000, "validation_us": 700}


@pytest.mark.parametrize("seeds", [range(16), pytest.param(range(16, 120), marks=SLOW)])
def test_publications_with_sizes_are_those_of_an_event_queue(seeds):
    """Also with several publications of a group, partitions and leaf sets; rules W1 to W9."""
    seen: Counter = Counter()
    for seed in seeds:
        case = random_bayeux(seed)
        publish = sorted(
            (250_000 * number, group, node, 1_000 * (number + 1))
            for group, members in case.case.members.items()
            for number, node in enumerate([case.sources[group][0], min(members)])
        )
        publish = [(group, node, at_us, size) for at_us, group, node, size in publish]
        network = {"lan_us": worlds.LAN_US, "links": links_of(**SLOW_LINKS), "source": "direct"}
        once = run_of(case, 1, given={"source": "direct"})
        run = run_of(case, 2, publish, given=network)
        copies, deliveries = by_event_queue(once, case, publish)
        names = "publication", "sender", "to", "hops", "sent_us"
        assert run.rows("copies", *names) == copies, seed
        found = run.rows("deliveries", "publication", "node", "hops", "delay_us")
        assert found == deliveries, seed
        seen[case.options.partitions > 1, case.options.hops] += len(deliveries)
    assert min(seen.values()) > 0, seen
    assert len(seen) == 4


def by_event_queue(once: Round0, case: BayeuxCase, publish: list) -> tuple[list, list]:
    """Copies and deliveries of all publications by an event queue, with the links of a run."""
    world, places, links = worlds.world(case.case), {}, {}
    place_of, node_at = once.ring.positions, once.ring.node

    def place(*name):
        return places.setdefault(name, len(places))

    def link(one, other):
        ends = place_of(np.array([one[-1], other[-1]]))
        router = once.ring.router[ends]
        delay_us = int(world.kernel.delays(router[:1], router[1:])[0]) + 2 * worlds.LAN_US
        ends = place(*one), place(*other)
        links.setdefault(ends, bandwidth.Link(*ends, delay_us))

    sessions = case.sessions(case.overlay())
    rooms = ("from_tree", "tree") if case.options.partitions > 1 else ()
    rows = once.rows("copies", "group", "sender", "to", *rooms)
    for group, sender, to, *room in sorted(rows, key=lambda row: place_of(np.array([row[2]]))[0]):
        mine, theirs = room or (0, 0)
        link((group, mine, sender), (group, theirs, to))
    published = []
    for group, source, at_us, size in publish:
        root = sessions[group].roots[0]
        start = (group, -1, source) if source != root else (group, 0, root)
        if source != root:
            link(start, (group, 0, root))
        published.append(bandwidth.Publication(place(*start), at_us, size))
    rates = SLOW_LINKS["up"], SLOW_LINKS["down"], SLOW_LINKS["validation_us"]
    nodes = {int(node): bandwidth.Node(at, *rates) for at, node in enumerate(node_at)}
    names = {number: name for name, number in places.items()}
    at_nodes = {number: name[-1] for number, name in names.items()}
    network = bandwidth.Network(nodes, at_nodes, [*links.values()])
    played = bandwidth.play(network, published, bandwidth.Rules(to_all=True))
    copies, first = [], {}
    for p, y, x, hops, _, sent_us, *_ in played.copies:
        if names[y][1] >= 0:
            ends = names[y][-1], names[x][-1]
            copies.append((p, *ends, hops, sent_us - publish[p][2]))
    for (p, x), one in played.first.items():
        group, room, node = names[x]
        if room >= 0 and node in case.case.members[group] and node != publish[p][1]:
            found = one.at_us - publish[p][2], one.hops
            first[p, node] = min(found, first.get((p, node), found))
    deliveries = [(p, node, hops, us) for (p, node), (us, hops) in first.items()]
    return sorted(copies), sorted(deliveries)


def control_of(sessions: dict[int, Session]) -> Counter:
    """(group, sender, receiver, kind) -> messages by the oracle."""
    return Counter(
        {(group, *sent): n for group, one in sessions.items() for sent, n in one.messages.items()}
    )


def state_of(sessions: dict[int, Session]) -> Counter:
    """(group, node) -> entries of its member lists by the oracle."""
    return Counter(
        {(group, node): n for group, one in sessions.items() for node, n in one.state().items()}
    )


def published(
    case: BayeuxCase, sessions: dict[int, Session]
) -> tuple[list[tuple], list[tuple], int]:
    """Deliveries, copies and the number of duplicates by the oracle."""
    deliveries, copies, duplicates = [], [], 0
    for group, session in sessions.items():
        found = publish(session, *case.sources[group])
        deliveries += [(group, node, *got[:2]) for node, got in found.deliveries.items()]
        copies += [(group, c.sender, c.receiver, c.hop, c.sent) for c in found.copies]
        duplicates += found.duplicates
    return sorted(deliveries), sorted(copies), duplicates
