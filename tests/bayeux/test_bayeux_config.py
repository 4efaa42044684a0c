"""Flags of Bayeux, and overlays on which Bayeux and flooding cannot be; see `test_peers_oracle`."""

from __future__ import annotations

import pytest

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import check


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"bayeux_partitions": 0}, "bayeux_partitions = 0"),
        ({"bayeux_partitions": 65}, "bayeux_partitions = 65"),
        ({"bayeux_root": "chord"}, "bayeux_root = 'chord'"),
        ({"bayeux_hops": "leaves"}, "bayeux_hops = 'leaves'"),
        ({"bayeux_recreate": 3}, "bayeux_recreate.*applies to worlds"),
    ],
)
def test_bad_values_are_refused_in_one_line(given, refused):
    with pytest.raises(InputError, match=refused) as error:
        RunConfig(**given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"bayeux_recreate": -1}, "bayeux_recreate = -1"),
        ({"bayeux_partitions": 2}, "bayeux_partitions.*applies to runs"),
        ({"bayeux_root": "surrogate"}, "bayeux_root.*applies to runs"),
    ],
)
def test_worlds_refuse_what_is_of_runs(given, refused):
    with pytest.raises(InputError, match=refused):
        WorldConfig(**given)


@pytest.mark.parametrize("system", ["bayeux", "flooding"])
def test_an_overlay_without_rows_is_refused(system, tmp_path):
    config = RunConfig(nodes=120, overlay="can", systems=system)
    with pytest.raises(InputError, match=f"{system}, which needs Pastry's tables"):
        check(config, Execution(out=str(tmp_path / "out")))
