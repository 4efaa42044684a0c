"""What flooding over Pastry refuses; see `test_peers_oracle` for what a run hands over."""

from __future__ import annotations

import pytest

from scribe_spark.config import Execution, RunConfig
from scribe_spark.errors import InputError
from scribe_spark.experiments.checks import check


def test_too_many_copies_are_refused(tmp_path):
    config = RunConfig(nodes=100_000, groups=1_500, systems="flooding", flooding_over="overlay")
    with pytest.raises(InputError, match=r"flooding_over = 'overlay'.*150,000,000 copies"):
        check(config, Execution(out=str(tmp_path / "out")))


def test_bad_values_are_refused_in_one_line():
    with pytest.raises(InputError, match="flooding_over = 'all'"):
        RunConfig(flooding_over="all")
