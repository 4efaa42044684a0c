"""Runs and worlds on a network of pairs: every copy takes the delay of its pair and its jitter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from scribe_spark import RunConfig, Simulation
from scribe_spark.core.pair_delay import PairDelay
from scribe_spark.engine.jitter import jitter_keys, late_us
from scribe_spark.underlay.pairs import PairKernel

TREES = ("scribe", "naive_unicast", "reference_tree")
MESHES = ("bayeux", "flooding", "can", "gossipsub", "plumtree")

GIVEN = {
    **{"topology": "pairs", "pair_delay": "uniform:10ms:150ms", "message_jitter": "30%"},
    **{"nodes": 150, "groups": 3, "group_size": 40, "overlay": "perfect", "seed": 4},
}


def copy_us(group, sender, receiver, name=0) -> np.ndarray:
    """Delays of copies, by the definition."""
    delay_us = PairKernel(PairDelay.parse(GIVEN["pair_delay"]), GIVEN["seed"]).delays(
        sender, receiver
    )
    key = jitter_keys(GIVEN["seed"], np.asarray(group), name)
    return delay_us + late_us(300_000, key, np.asarray(sender), np.asarray(receiver), delay_us)
