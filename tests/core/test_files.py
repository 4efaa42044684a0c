"""Files that are written whole, and files that are read: regular ones, of bounded size."""

import ast
import bz2
import gzip
import io
import lzma
import os
import socket
import tarfile
import zipfile
from pathlib import Path

import pytest

from scribe_spark.core.paths import (
    UnfitFileError,
    is_temporary,
    open_file,
    read_file,
    read_packed,
    replace_file,
    temporary_name,
)

ROOT = Path(__file__).resolve().parents[2]

#: Files that are opened for writing elsewhere: all are in folders of random names.
IN_FOLDERS_OF_OURS = {
    "scribe_spark/core/paths.py",
    "scribe_spark/engine/packing.py",
    "scribe_spark/runtime/batches.py",
    "scribe_spark/runtime/distribute.py",
    "scribe_spark/runtime/filesystem.py",
    "scribe_spark/runtime/interrupts.py",
    "scribe_spark/runtime/jvm_process.py",
    "scribe_spark/runtime/remote_inputs.py",
    "scribe_spark/runtime/sessions.py",
    "scribe_spark/cli/commands.py",
    "tools/try_faults.py",
    "benchmarks/bandwidth.py",  # a setting of its own process, in /proc
}
_WRITERS = {"write_text", "write_bytes", "touch", "to_csv", "to_json", "to_parquet"}

#: What `experiments.folder.Folder` is called: its `write_text` goes through `Files.write`.
_FOLDERS = {"folder", "self", "_folder", "stored", "F"}  # F.to_json is a function of Spark


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


# --- input files ----------------------------------------------------------------------------------


TEXT = b"group,node\n" + b"1,2\n" * 1_000


def tarred(*texts: bytes, mode: str = "w") -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=mode) as out:
        for number, text in enumerate(texts):
            member = tarfile.TarInfo(f"{number}.csv")
            member.size = len(text)
            out.addfile(member, io.BytesIO(text))
    return archive.getvalue()


def zipped(text: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a.csv", text)
    return archive.getvalue()


PACKED = {
    "csv": TEXT, "csv.gz": gzip.compress(TEXT), "csv.bz2": bz2.compress(TEXT),
    "CSV.XZ": lzma.compress(TEXT), "csv.zip": zipped(TEXT), "tar": tarred(TEXT),
    "tar.gz": tarred(TEXT, mode="w:gz"), "tar.bz2": tarred(TEXT, mode="w:bz2"),
    "tar.xz": tarred(TEXT, mode="w:xz"),
}  # fmt: skip


@pytest.mark.parametrize("ending", PACKED)
def test_the_bound_is_of_the_content(tmp_path, ending):
    """All but the archive of tar, whose size counts, have exactly the bytes of the text."""
    file = tmp_path / f"table.{ending}"
    file.write_bytes(PACKED[ending])
    content = len(tarred(TEXT)) if "tar" in ending else len(TEXT)
    assert read_packed(file, content) == TEXT
    with pytest.raises(UnfitFileError, match=f"^has more than {content - 1:,} bytes; give a small"):
        read_packed(file, content - 1)


def test_content_without_an_end_is_read_up_to_the_bound(tmp_path):
    """Ten GB in 10 MB."""
    file = tmp_path / "bomb.csv.gz"
    file.write_bytes(gzip.compress(bytes(2**20)) * 10_000)
    with pytest.raises(UnfitFileError, match=r"more than 3,000,000 bytes"):
        read_packed(file, 3_000_000)


@pytest.mark.parametrize("texts", [(), (TEXT, TEXT)], ids=["none", "two"])
def test_an_archive_holds_one_file(tmp_path, texts):
    (tmp_path / "a.tar").write_bytes(tarred(*texts))
    with pytest.raises(ValueError, match="must hold one file"):
        read_packed(tmp_path / "a.tar")


@pytest.mark.parametrize("read", [open_file, read_file, read_packed])
@pytest.mark.parametrize("name", ["a pipe", "a socket", "a device"])
def test_only_regular_files_are_opened(tmp_path, read, name):
    """A pipe without a writer would never be opened, and /dev/zero has no end."""
    file = tmp_path / "input"
    with socket.socket(socket.AF_UNIX) as listening:
        if name == "a pipe":
            os.mkfifo(file)
        elif name == "a socket":
            listening.bind(str(file))
        else:
            file.symlink_to("/dev/zero")
        with pytest.raises(UnfitFileError, match=f"^is {name}, not a file; write its content"):
            read(file)


def test_the_bound_of_a_plain_file(tmp_path):
    (tmp_path / "a").write_bytes(TEXT)
    assert read_file(tmp_path / "a", len(TEXT)) == TEXT
    with pytest.raises(UnfitFileError, match=f"has more than {len(TEXT) - 1:,} bytes"):
        read_file(tmp_path / "a", len(TEXT) - 1)
