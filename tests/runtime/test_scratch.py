"""Folders of files that tasks share: in the user's scratch folder, gone with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scribe_spark.runtime.scratch import SCRATCH

PROGRAM = """
from scribe_spark.runtime.scratch import scratch_folder
folder = scratch_folder()
(folder / "table").write_text("rows")
print(folder)
raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("folders", "where"),
    [("a,b", "a"), ("a", "a"), ("", "tmp"), (None, "tmp"), ("file/a", "tmp")],
    ids=str,
)
def test_where_it_is_and_that_it_goes(tmp_path, folders, where):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "file").write_text("no folder can be made in it")
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    environment.pop(SCRATCH, None)
    if folders is not None:
        environment[SCRATCH] = ",".join(str(tmp_path / of) for of in folders.split(",") if of)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    made = Path(done.stdout.strip())
    assert made.parent == tmp_path / where, done.stderr
    assert not made.exists()
