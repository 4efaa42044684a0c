"""Locations of OUT that no file system takes are refused in one line, before any work."""

from __future__ import annotations

import pytest

from scribe_spark.core.paths import local_contents, refuse_long_names
from scribe_spark.errors import InputError


@pytest.mark.parametrize(
    "out",
    ["/tmp/" + "x" * 256, "/tmp/" + "ä" * 128, "hdfs://host/" + "x" * 256, "file:/" + "x" * 256],
)
def test_a_name_that_is_too_long(out):
    with pytest.raises(InputError, match=r"^out = .*has a name of 256 bytes; must be at most 255$"):
        refuse_long_names(out)


def test_a_path_that_leaves_no_room_for_the_files_in_it(tmp_path, monkeypatch):
    long = "/abc" * 930
    with pytest.raises(InputError, match=r"^out = .*is a path of 3,720 bytes; must be at most"):
        local_contents(long)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"is a path of 3,\d\d\d bytes"):  # from here
        local_contents(long[1 + len(str(tmp_path)) - 20 :].lstrip("/"))
    refuse_long_names("hdfs://host" + long)
    refuse_long_names("/abc" * 900)
    refuse_long_names("/tmp/" + "x" * 255)


def test_a_nul():
    with pytest.raises(InputError, match=r"^out = .*cannot be read"):
        local_contents("/tmp/a\0b")
