"""NICE: bad input, pictures."""

from types import SimpleNamespace

import pytest

from nice.played import Played, drawn_network
from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.systems.nice.config import NiceConfig

CALM = 14


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"nice_k": 1}, "nice_k"),
        ({"nice_period_seconds": 0.0}, "nice_period_seconds"),
        ({"nice_join_periods": 0}, "nice_join_periods"),
        ({"nice_silence": 0}, "nice_silence"),
        ({"nice_stay_percent": 101}, "nice_stay_percent"),
        ({"nice_least_gain_ms": -1.0}, "nice_least_gain_ms"),
    ],
)
def test_bad_settings_are_refused_in_one_line(given, field):
    with pytest.raises(InputError) as refused:
        RunConfig(systems="nice", **given)
    assert refused.value.field == field
    assert "\n" not in str(refused.value)


def test_more_members_than_builders_hold_are_refused():
    with pytest.raises(InputError, match="1,000,001 members of all groups"):
        NiceConfig().check_groups(None, 2, 1_000_001, None)
    NiceConfig().check_groups(None, 2, 1_000_000, None)


def test_a_picture_has_an_edge_from_each_leader_to_each_member():
    played = Played(drawn_network(40, 1)).play(join=[(0, node) for node in range(40)])
    for _ in range(CALM):
        played.play()
    rows = played.system.picture(SimpleNamespace(state=played.state), played.network)
    edges = zip(*(rows[name].tolist() for name in ("rank", "parent", "child")), strict=True)
    clusters = played.clusters().items()
    assert {*edges} == {(-of[1], of[2], node) for of, some in clusters for node in some}
    assert len({of[1] for of, _ in clusters}) > 1
