"""The kernels of HyParView and Plumtree leave what a plain queue of events leaves."""

import zlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pytest
from oracle.plumtree.cases import PlumtreeCase, lively_case, random_case, with_sizes
from oracle.plumtree.wired_queue import Links
from seeds import seeds

from plumtree.played import Overlay
from scribe_spark.bandwidth.setting import INTERLEAVED, SERIAL
from scribe_spark.clock.bucket import Wires
from scribe_spark.engine.losses import Lost
from scribe_spark.systems.plumtree.config import PlumtreeConfig

#: The kernels' names of commands and of messages, where the oracle has others.
_NAMES = {"join": "arrive", "shuffle": "refresh"}
_COUNTS = {"forwardjoin": "forward_join", "shufflereply": "shuffle_reply"}
_BUCKETS = 1, 2, 7


def _is_lost(*copy: int) -> bool:
    """A tenth of the copies, by publication, sender, receiver and time of leaving."""
    return zlib.crc32(repr(copy).encode()) % 10 == 0


def _withholds(publication: int, sender: int) -> bool:
    """A seventh of the nodes, which are others for each publication."""
    return (publication + sender) % 7 == 0


@dataclass(frozen=True)
class _Lost(Lost):
    """The lost and the withheld copies, perhaps with the announcements of the latter."""

    announcements: bool

    @property
    def withholds_announcements(self):
        return self.announcements

    def __call__(self, publication, links):
        columns = publication, links["node"], links["peer"], links["time_us"]
        copies = zip(*(one.tolist() for one in columns), strict=True)
        return np.array([_is_lost(*copy) for copy in copies], dtype=bool)

    def withheld(self, publication, links):
        return (publication + links["node"]) % 7 == 0


def _by_the_kernels(case: PlumtreeCase, buckets: int, lost: _Lost | None) -> Overlay:
    """Play a case by the kernels."""
    views, rules, nodes = case.views, case.rules, range(case.count)
    delay = case.delay()
    delays = np.array([[delay(a, b) if a != b else 1 for b in nodes] for a in nodes])
    waits = delays[~np.eye(case.count, dtype=bool)].min(), rules.timer_1_us, rules.timer_2_us
    overlay = Overlay(
        case.count,
        lambda a, b: delays[a, b],
        int(min(*waits, views.answer_us)),
        PlumtreeConfig(
            rules=rules.rules,
            membership=views.rules,
            active=views.active,
            passive=views.passive,
            walk=views.arwl,
            passive_walk=views.prwl,
            shuffle_walk=views.shuffle_ttl,
            request_ms=views.answer_us / 1000,
            notice="breaks" if views.breaks else "sending",
            repair=views.repair,
            first_wait_ms=rules.timer_1_us / 1000,
            next_wait_ms=rules.timer_2_us / 1000,
            batch_ms=rules.batch_us / 1000,
            threshold=rules.threshold,
            duplicates=rules.duplicates,
            keep_seconds=rules.payload_us / 1_000_000,
        ),
        seed=case.seed,
        buckets=buckets,
        lost=lost,
        wires=case.links and _wires(case.links),
        validation_us=np.array(rules.validation_us) if rules.validation_us else None,
    )
    if case.static is not None:
        slots = max(1, *map(len, case.static.values()))
        rows = [[*case.static[node], *[-1] * slots][:slots] for node in nodes]
        overlay.fix(np.array(rows))
    overlay.play([(one.at, _NAMES.get(one.kind, one.kind), *one[2:]) for one in case.commands])
    return overlay


def _wires(links: Links) -> Wires:
    rates = np.array(links.up), np.array(links.down), np.array(links.size)
    return Wires(*rates, SERIAL if links.serial else INTERLEAVED)


def _check(
    case: PlumtreeCase, buckets: int, loses: bool = False, withheld: Collection[str] = ("GOSSIP",)
) -> Counter:
    """Compare the kernels with the oracle: views, receipts, copies, counts; return the counts.

    If the case `loses` copies, some nodes send none of the `withheld` kinds.
    """
    network = case.network()
    if loses:
        network.queue.is_lost, network.queue.withholds = _is_lost, _withholds
        network.queue.withheld = {*withheld}
    network.play()
    expected = network.played()
    overlay = _by_the_kernels(case, buckets, _Lost("IHAVE" in withheld) if loses else None)
    counts = {_COUNTS.get(kind, kind): count for kind, count in expected.counts.items()}
    assert Counter(overlay.counts()) == Counter(counts)
    receipts = [(*of, *receipt) for of, receipt in expected.receipts.items()]
    assert overlay.receipts() == sorted(receipts)
    copies = [
        (*copy[:3], copy[5]) for copy in expected.copies if not network.queue.withholds(*copy[:2])
    ]
    assert overlay.copies() == sorted(network.queue.copies if case.links else copies)
    assert overlay.views_of("active") == expected.active
    assert overlay.views_of("passive") == expected.passive
    assert overlay.eager() == expected.eager
    return Counter(counts)


#: Cases of a quick run: those in which rare things happen, and some more.
_SOME = [
    *((random_case, seed) for seed in [*range(24), 32, 77, 109, 111, 179, 223]),
    *((lively_case, seed) for seed in [*range(16), 239]),
]
_ALL = [
    *((random_case, seed) for seed in range(300)),
    *((lively_case, seed) for seed in range(300)),
]


@pytest.mark.parametrize(("draw", "seed"), _SOME)
def test_some_drawn_cases(draw, seed):
    _check(draw(seed), _BUCKETS[seed % 3])


@pytest.mark.parametrize("withheld", [("GOSSIP",), ("GOSSIP", "IHAVE")])
def test_lost_copies_are_announced_and_grafted(withheld):
    sent = Counter()
    for seed in range(10):
        case = (random_case, lively_case)[seed % 2](seed)
        sent += _check(case, _BUCKETS[seed % 3], loses=True, withheld=withheld)
    assert sent["graft"] > 15


@pytest.mark.parametrize("draw", [random_case, lively_case])
@pytest.mark.parametrize("seed", seeds(range(100), in_each_run=6))
def test_copies_leave_when_a_node_has_checked_the_publication(draw, seed):
    case, rng = draw(seed), np.random.default_rng(seed)
    slow = rng.integers(0, 3 * case.delays[1], case.count)
    rules = replace(case.rules, validation_us=tuple(slow.tolist()))
    _check(replace(case, rules=rules), _BUCKETS[seed % 3], loses=seed % 4 == 0)


@pytest.mark.parametrize("draw", [random_case, lively_case])
@pytest.mark.parametrize("seed", seeds(range(110), in_each_run=6))
def test_publications_with_sizes_share_links(draw, seed):
    """Several are in flight; every fourth case loses copies."""
    case = with_sizes(draw(seed), seed)
    _check(case, _BUCKETS[seed // 2 % 3], loses=seed % 4 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("buckets", _BUCKETS)
@pytest.mark.parametrize(("draw", "seed"), _ALL)
def test_drawn_cases(draw, seed, buckets):
    _check(draw(seed), buckets)
