"""Delays of pairs of nodes without a graph, by hand and against brute force; jitter of copies."""

from statistics import NormalDist

import numpy as np
import pytest

from scribe_spark.core import draws
from scribe_spark.core.pair_delay import PairDelay, jitter_in_words, parse_jitter
from scribe_spark.engine.facts import Ring
from scribe_spark.engine.losses import jitter_keys, late_us
from scribe_spark.pastry import waves
from scribe_spark.underlay import pairs
from scribe_spark.underlay.pairs import PairKernel, delays_of_bits


def kernel(law: str = "uniform:10ms:150ms", seed: int = 1) -> PairKernel:
    return PairKernel(PairDelay.parse(law), seed)


def all_delays(of: PairKernel, nodes: int) -> np.ndarray:
    a, b = np.divmod(np.arange(nodes**2), nodes)
    return of.delays(a, b).reshape(nodes, nodes)


@pytest.mark.parametrize("law", ["uniform:10ms:150ms", "lognormal:50ms:0.4", "constant:7ms"])
def test_a_pair_has_one_delay(law):
    """The same both ways, none to itself, another one by another seed, and within the bounds."""
    found = all_delays(kernel(law), 60)
    assert (found == found.T).all()
    assert (found.diagonal() == 0).all()
    others = found[~np.eye(60, dtype=bool)]
    assert others.min() >= kernel(law).least_us
    is_constant = law.startswith("constant")
    assert (np.unique(others).tolist() == [7_000]) == is_constant
    assert (found == all_delays(kernel(law, seed=2), 60)).all() == is_constant


def test_distributions():
    """Quantiles of 200,000 pairs against those of the distributions."""
    a = np.arange(200_000)
    even = np.sort(kernel().delays(a, a + 200_000))
    normal = np.sort(kernel("lognormal:50ms:0.4").delays(a, a + 200_000))
    for share in (0.01, 0.25, 0.5, 0.75, 0.99):
        at = int(share * len(a))
        assert even[at] == pytest.approx(10_000 + share * 140_000, abs=700)
        log = NormalDist(np.log(50_000), 0.4).inv_cdf(share)
        assert normal[at] == pytest.approx(np.exp(log), rel=0.01)
    cut = delays_of_bits(PairDelay.parse("lognormal:900s:3"), np.array([0, 2**64 - 1], np.uint64))
    assert cut.tolist() == [5, 10**9]


@pytest.mark.parametrize("law", ["uniform:10ms:150ms", "constant:7ms"])
@pytest.mark.parametrize("most", [256, 40])
def test_nearest(monkeypatch, law, most):
    """The nearest of all candidates, or of those from a drawn one on; the first of equals."""
    monkeypatch.setattr(pairs, "MOST_CANDIDATES", most)
    of, nodes = kernel(law), np.random.default_rng(1).permutation(1000)
    queries, candidates, starts = nodes[:70], nodes[100:400], [0, 130, 131, 170]
    found = of.nearest(queries, candidates, np.array(starts))
    for segment, (start, end) in enumerate(zip(starts, [*starts[1:], 300], strict=True)):
        drawn = draws.bits_np(1, "compared nodes", queries, int(candidates[start]))
        for query, bits, place in zip(queries, drawn, found[:, segment], strict=True):
            first = int(bits) % (end - start) if end - start > most else 0
            order = start + (first + np.arange(min(end - start, most))) % (end - start)
            near = of.delays(np.full(len(order), query), candidates[order])
            assert place == order[near.argmin()]
    again = [
        of.nearest(queries[i : i + 1].astype(np.int32), candidates, np.array(starts))
        for i in range(70)
    ]
    assert (np.concatenate(again) == found).all()


def ring(count: int) -> Ring:
    hi, lo = (np.sort(draws.bits_np(3, half, np.arange(count))) for half in ("hi", "lo"))
    node = np.random.default_rng(4).permutation(count)
    return Ring(hi, lo, node, node)


# --- jitter


def test_each_copy_is_late_by_its_own_draw():
    """Keyed by publication, sender and receiver; at most a tenth of the delay."""
    n = 20_000
    node, delay_us = np.arange(n), np.full(n, 50_000)
    key = np.full(n, jitter_keys(1, np.array([5]), 0)[0])
    late = late_us(100_000, key, node, node + n, delay_us)
    assert (late.min(), late.max()) == (0, 5_000)
    assert late.mean() == pytest.approx(2_500, rel=0.02)
    other = np.full(n, jitter_keys(1, np.array([5]), 1)[0])
    for changed in ((other, node, node + n), (key, node + n, node), (key, node, node + n + 1)):
        assert np.corrcoef(late, late_us(100_000, *changed, delay_us))[0, 1] < 0.05
    assert (late_us(100_000, key, node, node + n, 0 * delay_us) == 0).all()


@pytest.mark.parametrize(
    "text",
    [
        *("", "uniform", "uniform:10ms", "uniform:10ms:5ms", "uniform:10:20", "uniform:1s:2s:3s"),
        *("normal:1ms:2ms", "lognormal:50ms:0", "lognormal:50ms:9", "lognormal:50ms:x"),
        *("constant:0ms", "constant:1001s", "constant:50ms:1"),
    ],
)
def test_bad_delays(text):
    with pytest.raises(ValueError, match=r"must|needs"):
        PairDelay.parse(text)
    assert str(PairDelay.parse("uniform:0.01s:150 ms")) == "uniform:10ms:150ms"


def test_jitter_in_percent():
    assert [jitter_in_words(parse_jitter(one)) for one in ("10%", "0.50 %", "0%")] == [
        *("10%", "0.5%", "0%")
    ]
    for bad in ("10", "%", "-1%", "1001%", "ten%"):
        with pytest.raises(ValueError, match="percentage from 0% to 1000%"):
            parse_jitter(bad)


@pytest.mark.parametrize("latest", [False, True])
def test_contacts_are_the_nearest_live_nodes(latest):
    """Of up to 256 nodes of earlier waves; those of the first wave have none."""
    whole, of = ring(200), kernel()
    wave = draws.stream_at(5, "wave", 0, np.arange(200)).astype(np.int64) % 5
    rank = np.random.default_rng(2).permutation(200)
    preference, rule = (-rank, "latest") if latest else (np.arange(200), "nearest")
    found = waves.planned_contacts(rule, whole, wave, rank, rank, of)
    delay_us = all_delays(of, 200)[np.ix_(whole.router, whole.router)]
    for node in range(200):
        live = np.flatnonzero(wave < wave[node])
        best = min(live, key=lambda one: (delay_us[node, one], preference[one]), default=-1)
        assert found[node] == best
