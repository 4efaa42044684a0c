"""The table of docs/gossipsub.md, and what its numbers show."""

import numpy as np

from .measured import SCHEDULES, WAKU, WAKU_DEGREES, WHILE_DIALLING, receivers_by_hop


def test_meshes_that_form_while_nodes_dial_are_wakus():
    """Degrees within 0.35, by D_high, and receivers by hop within 1.5 standard deviations."""
    degrees = {}
    for high, published in WAKU_DEGREES.items():
        counts, degrees[high] = receivers_by_hop(range(1, 6), **WHILE_DIALLING, d_high=high)
        assert abs(degrees[high] - published) <= 0.35
        away = (counts.mean(axis=0)[:4] - WAKU) / counts.std(axis=0)[:4]
        assert np.abs(away).max() <= 1.5
    assert abs(degrees[12] - degrees[8]) <= 0.3


def test_receivers_by_hop_are_wakus():
    """Nodes subscribe before they are connected, and heartbeats are not in step."""
    schedule = SCHEDULES["nodes JOIN before they dial"]
    counts, _ = receivers_by_hop(range(1, 11), **schedule)
    mean = counts.mean(axis=0)
    for found, published in zip(mean[:3], WAKU, strict=False):
        assert abs(found / published - 1) < 0.15
    assert 50 <= mean[3] <= 140
