"""The size of waves, and what a config refuses."""

import pytest

from scribe_spark import InputError
from scribe_spark.config import ReferenceTreeConfig, RunConfig, WorldConfig
from scribe_spark.overlays import check_overlay
from scribe_spark.pastry.arrivals.waves import wave_ends, wave_size


def test_a_wave_is_a_share_of_the_nodes_before_it_and_one_at_least():
    assert [wave_size(n, 1.25) for n in (1, 4, 7, 8, 100)] == [1, 1, 1, 2, 25]
    assert wave_size(20, 1.15) == 3, "20 x 0.15 is 2.9999999999999982 as floats"
    assert [wave_size(n, 2) for n in (1, 5)] == [1, 5]


def test_waves_end_with_all_nodes():
    assert wave_ends(20, 2).tolist() == [1, 2, 4, 8, 16, 20]
    assert wave_ends(5, 1.0001).tolist() == [1, 2, 3, 4, 5]
    assert wave_ends(1, 2).tolist() == [1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"growth": 1.0}, "growth = 1.0: must be at least 1.0000000001"),
        ({"growth": 0.5}, "growth = 0.5: must be at least 1.0000000001"),
        ({"growth": float("nan")}, "growth = nan"),
        ({"contact": "far"}, "contact = 'far': must be one of nearest, latest, random"),
        ({"introduce": "maybe"}, "introduce = 'maybe': must be true or false"),
        ({"maintenance": -1}, "maintenance = -1: must be at least 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given, message):
    with pytest.raises(InputError) as refused:
        RunConfig(overlay="arrivals", **given)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_runs_begin_with_arrivals_and_worlds_with_perfect_tables():
    assert check_overlay(RunConfig().overlay).name == "arrivals"
    for kind in (WorldConfig, ReferenceTreeConfig):
        assert check_overlay(kind().overlay).name == "perfect"
