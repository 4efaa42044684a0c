"""Narada: refusals."""

import numpy as np
import pytest

from narada.played import Played
from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.errors import InputError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"group_size": 1_025}, "systems = 'narada': has 1,025 members in group 1; must be at"),
        ({"groups": 1}, "systems = 'narada': has 2,000 members in group 1; must be at"),
        ({"narada_threshold": 1.5}, "narada_threshold = 1.5: must be at most 1"),
        ({"narada_join_periods": 0}, "narada_join_periods = 0: must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(given, words):
    for config in (RunConfig, WorldConfig):
        with pytest.raises(InputError) as refused:
            config(**{"nodes": 2_000, "groups": 3, "systems": "narada", **given})
        assert str(refused.value).startswith(words)


def test_a_group_that_grows_too_large_is_refused():
    played = Played(np.zeros((1_026, 1_026), dtype=np.int64))
    played.play(join=[(0, node) for node in range(1_024)])
    with pytest.raises(InputError, match=r"has 1,025 members in group 0; must be at most"):
        played.play(join=[(0, 1_024)])
