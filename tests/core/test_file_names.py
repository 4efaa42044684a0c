"""Files are put in place whole, and a symbolic link never leads a write to another file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scribe_spark.core.paths import is_temporary, replace_file, temporary_name

ROOT = Path(__file__).resolve().parents[2]

#: Files that are opened for writing elsewhere: all are in folders of random names.
IN_FOLDERS_OF_OURS = {
    "scribe_spark/core/paths.py",
    "scribe_spark/engine/packing.py",
    "scribe_spark/runtime/batches.py",
    "scribe_spark/runtime/connect_server.py",
    "scribe_spark/runtime/distribute.py",
    "scribe_spark/runtime/filesystem.py",
    "scribe_spark/runtime/interrupts.py",
    "scribe_spark/runtime/sessions.py",
    "scribe_spark/cli/commands.py",
    "tools/try_faults.py",
    "benchmarks/bandwidth.py",  # a setting of its own process, in /proc
}
_WRITERS = {"write_text", "write_bytes", "touch", "to_csv", "to_json", "to_parquet"}

#: What `experiments.folder.Folder` is called: its `write_text` goes through `Files.write`.
_FOLDERS = {"folder", "self", "_folder"}


def test_temporary_names_are_hidden_and_never_the_same():
    names = {temporary_name() for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".") and is_temporary(name) for name in names)
    assert not any(map(is_temporary, ("manifest.json.tmp", ".writable.tmp", ".scribe-spark-.tmp")))


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "stranger").write_text("theirs")
    (tmp_path / "page").symlink_to(tmp_path / "stranger")
    replace_file(tmp_path / "page", b"ours")
    assert (tmp_path / "stranger").read_text() == "theirs"
    assert (tmp_path / "page").read_text() == "ours"
    assert not (tmp_path / "page").is_symlink()


def test_nothing_is_left_of_a_write_that_fails(tmp_path):
    (tmp_path / "page").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "page", b"ours")
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


def _writes(call: ast.Call) -> bool:
    """Return whether a call opens a file for writing by its name."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _WRITERS:
        owner = getattr(call.func.value, "attr", getattr(call.func.value, "id", ""))
        to_a_text = call.func.attr.startswith("to_") and not call.args
        return owner not in _FOLDERS and not to_a_text
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    return name == "open" and any(str(text)[:1] in "wax+" and text for text in texts)


def test_files_are_written_in_one_way():
    """`replace_file` and `Files.write`; whatever opens a file itself may follow a link."""
    found = {
        str(path.relative_to(ROOT))
        for room in ("scribe_spark", "tools", "benchmarks", "jobs")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _writes(node)
    }
    assert found <= IN_FOLDERS_OF_OURS, found - IN_FOLDERS_OF_OURS
