"""The section gossipsub: presets, and what is refused."""

from __future__ import annotations

import pytest

from scribe_spark import RunConfig, WorldConfig
from scribe_spark.config.gossipsub import PRESETS, GossipSubConfig
from scribe_spark.errors import InputError
from scribe_spark.report.provenance import settings
from scribe_spark.report.text import ABSENT


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"gossipsub_d": 0}, "gossipsub_d = 0: must be at least 1"),
        ({"gossipsub_d_low": 7}, "gossipsub_d_low = 7: must be at most gossipsub_d, which is 6"),
        ({"gossipsub_d_low": 0}, "gossipsub_d_low = 0: must be at least 1"),
        ({"gossipsub_d": 13}, "gossipsub_d_high = 12: must be at least gossipsub_d, which is 13"),
        ({"gossipsub_d_out": 4}, "gossipsub_d_out = 4: must be at most half of gossipsub_d"),
        (
            {"gossipsub_d_low": 2, "gossipsub_d_out": 2},
            "gossipsub_d_out = 2: must be less than gossipsub_d_low, which is 2",
        ),
        ({"gossipsub_processing_ms": -1.0}, "gossipsub_processing_ms = -1.0"),
        ({"gossipsub_prune_backoff_ms": -1.0}, "gossipsub_prune_backoff_ms = -1.0"),
        ({"gossipsub_heartbeat_ms": 0.0}, "gossipsub_heartbeat_ms = 0.0"),
        ({"gossipsub_loss": 1.0}, "gossipsub_loss = 1.0"),
        ({"gossipsub_preset": "nim"}, "gossipsub_preset = 'nim'"),
        ({"gossipsub_dials": 0}, "gossipsub_dials = 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(given, refusal):
    with pytest.raises(InputError) as caught:
        RunConfig(**given)
    assert refusal in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_preset_says_what_is_not_given():
    config = RunConfig(gossipsub_preset="ethereum", gossipsub_d_high=20).gossipsub
    rules = config.filled()
    assert (config.d, rules.d, rules.d_low, rules.d_high, rules.d_out) == (None, 8, 6, 20, 2)
    assert rules.heartbeat_us == 700_000
    # 60 s are 85.7 heartbeats of 0.7 s
    assert (rules.prune_backoff, rules.unsubscribe_backoff) == (86, 15)


@pytest.mark.parametrize("kind", [RunConfig, WorldConfig])
def test_a_page_shows_the_presets_values(kind):
    """A world's section [gossipsub] takes flat names, too; what is given is shown as it is."""
    config = kind(gossipsub={"gossipsub_preset": "ethereum", "gossipsub_d_high": 20})
    shown = {key: value for key, value, _ in settings({"resolved": config.flat()})}
    of_preset = {f"gossipsub_{name}" for name in PRESETS["ethereum"]}
    assert {name for name in of_preset if shown[name] == ABSENT} == set()
    assert (shown["gossipsub_d"], shown["gossipsub_d_high"]) == ("8", "20")


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_can_be_had(preset):
    assert GossipSubConfig(preset=preset, d_high=None).filled().d_high == 12


def test_a_graph_of_all_nodes_lives_in_no_world():
    with pytest.raises(InputError, match="'graph': is not supported in worlds"):
        WorldConfig(gossipsub_discovery="graph")
