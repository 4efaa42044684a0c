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
MANY = {"nodes": 100_000, "groups": 1_500, "systems": "flooding", "flooding_over": "overlay"}


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
