"""The section ``bandwidth``, and what systems refuse beside it."""

from __future__ import annotations

import pytest

from scribe_spark import InputError, RunConfig
from scribe_spark.config.bandwidth import BandwidthConfig
from scribe_spark.systems import systems_of_run

ON = {"message_size": "128KB"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"message_size": "0KB"}, "message_size"),
        ({"message_size": "-1KB"}, "message_size"),
        ({"uplink": "50"}, "uplink"),
        ({"validation": "5"}, "validation"),
        ({"links": "own"}, "links"),
        ({"message_size": "1GB", "uplink": "1bit/s"}, "message_size"),
        ({"message_size": "1GB", "downlink": "1bit/s"}, "message_size"),
        (ON | {"source": "routed"}, "source"),
        (ON | {"systems": "gossipsub", "gossipsub_loss": 0.1}, "gossipsub_loss"),
        (ON | {"systems": "gossipsub", "gossipsub_clock": "hops"}, "gossipsub_clock"),
        (ON | {"systems": "can", "can_clock": "hops"}, "can_clock"),
        (ON | {"systems": "bayeux", "bayeux_partitions": 4}, "bayeux_partitions"),
        (
            ON | {"systems": "can", "can_processing_ms": 1.0, "validation": "5ms"},
            "can_processing_ms",
        ),
        (ON | {"generator": "churn"}, "message_size"),
        (
            ON | {"classes": [{"name": "a", "share": 1.0, "up": "1bit/s"}], "message_size": "1GB"},
            "message_size",
        ),
    ],
)
def test_what_cannot_be_is_refused(given, field):
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert str(refused.value).startswith(field)
    assert "\n" not in str(refused.value)


def test_sizes_rates_and_times_are_whole_numbers():
    config = BandwidthConfig(message_size="1.5KB", uplink="50Mbit/s", validation="1.5ms")
    assert (config.size, config.up, config.down) == (1_500, 50_000_000, 0)
    assert (config.validation_us, config.on) == (1_500, True)
    assert not BandwidthConfig(uplink="1Gbit/s").on


def test_the_discipline_stands_beside_the_clock():
    named = ("scribe", "gossipsub", "ip_multicast")
    config = RunConfig(**ON, systems=named, uplink_order="serial")
    clocks = {one.name: one.clock_in_words(config) for one in systems_of_run((), named)}
    told = "time: 128KB, serial uplinks, shared links"
    assert clocks["scribe"] == clocks["gossipsub"] == told
    assert clocks["ip_multicast"] == "time"
    assert {one.clock_in_words(RunConfig()) for one in systems_of_run((), ())} == {"time"}
