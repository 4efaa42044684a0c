"""The section ``can``: what is refused, in one line."""

from __future__ import annotations

import pytest

from scribe_spark import InputError, RunConfig
from scribe_spark.cli import main
from scribe_spark.config.can import CanConfig, most_bits


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"can_dimensions": 0}, "can_dimensions = 0: must be at least 1"),
        ({"can_dimensions": 41}, "can_dimensions = 41: must be at most 40"),
        ({"can_bits": 0}, "can_bits = 0: must be at least 1"),
        ({"can_landmarks": -1}, "can_landmarks = -1: must be at least 0"),
        ({"can_landmarks": 9}, "can_landmarks = 9: must be at most 8"),
        ({"can_flooding": "4"}, "can_flooding = '4': must be one of directed, corner, optimal"),
        ({"can_clock": "rounds"}, "can_clock = 'rounds': must be one of time, hops"),
        ({"can_processing_ms": -1.0}, "can_processing_ms = -1.0: must be at least 0"),
        ({"overlay_dimensions": 0}, "overlay_dimensions = 0: must be at least 1"),
        (
            {"can_dimensions": 1, "can_bits": 31},
            "can_bits = 31: must be at most 30 with can_dimensions = 1",
        ),
        (
            {"systems": "can", "nodes": 1025, "can_bits": 10},
            "can_bits = 10: gives 2^10 zones at most for 1,025 nodes; give more",
        ),
    ],
)
def test_bad_input_is_refused(given, line):
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert str(refused.value).startswith(line)


def test_what_the_defaults_are():
    assert [most_bits(d) for d in (1, 2, 6, 40)] == [30, 40, 40, 40]
    assert [CanConfig(dimensions=d).halvings for d in (1, 6)] == [30, 40]
    assert CanConfig(bits=12).halvings == 12
    RunConfig(nodes=1025, can_bits=10)  # of no matter without the system
    RunConfig(systems="can", nodes=1024, can_bits=10)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ["--can-dimensions", "3"],
            "can_dimensions = 3: has no effect without can in --systems; give both",
        ),
        (
            ["--overlay-dimensions", "3"],
            "overlay_dimensions = 3: has no effect without --overlay can; give both",
        ),
        (
            ["--systems", "can", "--can-landmarks", "8"],
            "can_landmarks = 8: must be at most the 3 routers of the network",
        ),
    ],
)
def test_flags_are_refused_before_any_work(flags, line, tmp_path, capsys):
    links = tmp_path / "links.csv"
    links.write_text("src,dst,delay_ms\n1,2,1\n2,3,1\n")
    given = ["run", "--nodes", "5", "--groups", "1", "--topology", str(links)]
    with pytest.raises(SystemExit) as left:
        main([*given, "--out", str(tmp_path / "out"), *flags])
    assert left.value.code == 2
    assert capsys.readouterr().err.strip() == f"scribe-spark: error: {line}"


def test_worlds_have_no_landmarks():
    from scribe_spark import WorldConfig

    assert WorldConfig(can_dimensions=3).can.dimensions == 3
    with pytest.raises(InputError, match="can_landmarks = 3: applies to runs only"):
        WorldConfig(can_landmarks=3)
