"""The faults of `tools.try_faults` are in lines that the package has."""

from __future__ import annotations

from pathlib import Path

import pytest

import scribe_spark
from tools.try_faults import FAULTS, ROOT


def test_every_entry_of_the_file_is_a_fault():
    text = (ROOT / "tools" / "faults.txt").read_text("utf-8")
    assert len(FAULTS) == text.count("\n    ") > 75


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_one_line(name):
    fault = FAULTS[name]
    text = (Path(scribe_spark.__file__).parent / fault.file).read_text()
    assert text.count(fault.right) == 1
    assert fault.wrong not in text
    assert (ROOT / fault.tests).is_file()
