"""The same questions about coverage for the package and for the oracle."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from oracle.coverage import Questions

from scribe_spark.config.coverage import CoverageConfig
from scribe_spark.core.units import parse_time
from scribe_spark.measures.within import Asked, ReplySetting, Weights

CONFIG = CoverageConfig(
    deadline=("50ms", "300ms"), weights="weights.csv", quorum="2/3", replies=True
)
PLAIN = CoverageConfig(deadline=CONFIG.deadline, quorum=CONFIG.quorum)


def weights_of(nodes: int) -> np.ndarray:
    """Return the weights of nodes by number, in tenths; every fourth node has none."""
    node = np.arange(nodes)
    return (node * 7919 % 23) * (node % 4 > 0)


def asked_of(nodes: int, kernel: Any, lan_us: int, plain: bool = False) -> Asked:
    """Return the questions of a world with these nodes; plain ones have no weights and answers."""
    if plain:
        return Asked(PLAIN)
    weights = Weights(weights_of(nodes), Fraction(1, 10))
    return Asked(CONFIG, False, weights, ReplySetting(kernel, lan_us, CONFIG.reply_bytes))


def questions_of(nodes: int, delay: Callable[[int, int], int], plain: bool = False) -> Questions:
    """Return them for the oracle; `delay` is the direct one, and links have no rates."""
    deadlines: Mapping[str, int] = {one: parse_time(one) for one in CONFIG.deadline}
    weight = {n: Fraction(int(w), 10) for n, w in enumerate(weights_of(nodes))}
    quorum = Fraction(CONFIG.quorum)
    return Questions(deadlines, quorum, weight, delay, lambda source: 0, not plain, not plain)
