"""The sections of the systems beside Scribe, and of bandwidth: what is refused, in one line."""

import pytest

from scribe_spark import InputError, RunConfig, WorldConfig
from scribe_spark.config import Execution
from scribe_spark.experiments.checks import check
from scribe_spark.report.page import settings
from scribe_spark.report.style import ABSENT
from scribe_spark.systems.gossipsub.config import PRESETS, GossipSubConfig
from scribe_spark.systems.registry import System, clock_in_words, systems_of_run

SIZED = {"message_size": "128KB"}
FAST = {"message_size": "1GB"}
SLOW_CLASS = {"classes": [{"name": "a", "share": 1.0, "up": "1bit/s"}]}
MANY = {"nodes": 100_000, "groups": 1_500, "systems": "flooding", "flooding_over": "overlay"}

#: What a run is given -> how the line begins.
REFUSED = [
    ({"gossipsub_d_low": 7}, "gossipsub_d_low = 7: must be at most gossipsub_d, which is 6"),
    ({"gossipsub_d": 13}, "gossipsub_d_high = 12: must be at least gossipsub_d, which is 13"),
    ({"gossipsub_d_out": 4}, "gossipsub_d_out = 4: must be at most half of gossipsub_d"),
    (
        {"gossipsub_d_low": 2, "gossipsub_d_out": 2},
        "gossipsub_d_out = 2: must be less than gossipsub_d_low, which is 2",
    ),
    ({"bayeux_recreate": 3}, "bayeux_recreate = 3: applies to worlds"),
    (
        {"can_dimensions": 1, "can_bits": 31},
        "can_bits = 31: must be at most 30 with can_dimensions = 1",
    ),
    (
        {"systems": "can", "nodes": 1025, "can_bits": 10},
        "can_bits = 10: gives 2^10 zones at most for 1,025 nodes; give more",
    ),
    (FAST | {"uplink": "1bit/s"}, "message_size"),
    (FAST | {"downlink": "1bit/s"}, "message_size"),
    (FAST | SLOW_CLASS, "message_size"),
    (SIZED | {"systems": "gossipsub", "gossipsub_clock": "hops"}, "gossipsub_clock"),
    (SIZED | {"systems": "can", "can_clock": "hops"}, "can_clock"),
    (
        SIZED | {"systems": "can", "can_processing_ms": 1.0, "validation": "5ms"},
        "can_processing_ms",
    ),
]


@pytest.mark.parametrize(("given", "line"), REFUSED, ids=str)
def test_runs_refuse_what_cannot_be_in_one_line(given, line):
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"nodes": 120, "overlay": "can", "systems": one}, f"{one}, which needs Pastry's tables")
        for one in ("bayeux", "flooding")
    ]
    + [(MANY, r"flooding_over = 'overlay'.*150,000,000 copies")],
)
def test_runs_are_checked_before_any_work(given, line, tmp_path):
    with pytest.raises(InputError, match=line):
        check(RunConfig(**given), Execution(out=str(tmp_path / "out")))


def test_a_preset_gives_the_other_values():
    config = RunConfig(gossipsub_preset="ethereum", gossipsub_d_high=20).gossipsub
    rules = config.filled()
    assert (config.d, rules.d, rules.d_low, rules.d_high, rules.d_out) == (None, 8, 6, 20, 2)
    assert rules.heartbeat_us == 700_000
    # 60 s are 85.7 heartbeats of 0.7 s
    assert (rules.prune_backoff, rules.unsubscribe_backoff) == (86, 15)
    assert {GossipSubConfig(preset=one, d_high=None).filled().d_high for one in PRESETS} == {12}


@pytest.mark.parametrize("kind", [RunConfig, WorldConfig])
def test_a_page_shows_the_presets_values(kind):
    """A world's section [gossipsub] accepts flat names; given values are shown unchanged."""
    config = kind(gossipsub={"gossipsub_preset": "ethereum", "gossipsub_d_high": 20})
    shown = {key: value for key, value, _ in settings({"resolved": config.flat()})}
    of_preset = {f"gossipsub_{name}" for name in PRESETS["ethereum"]}
    assert {name for name in of_preset if shown[name] == ABSENT} == set()
    assert (shown["gossipsub_d"], shown["gossipsub_d_high"]) == ("8", "20")


def test_the_discipline_stands_beside_the_clock():
    named = ("scribe", "gossipsub", "ip_multicast")
    config = RunConfig(**SIZED, systems=named, uplink_order="serial")
    clocks = {one.name: clock_in_words(one, config) for one in systems_of_run((), named)}
    told = "time: 128KB, serial uplinks, shared links"
    assert clocks["scribe"] == clocks["gossipsub"] == told
    assert clocks["ip_multicast"] == "time: 128KB, each publication alone"
    users = System("mine", "Mine", family="mesh", world=print)
    assert clock_in_words(users, config) == told
    assert {clock_in_words(one, RunConfig()) for one in systems_of_run((), ())} == {"time"}
