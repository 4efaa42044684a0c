"""Files that are read: regular ones, of bounded size, also if they are compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
import tarfile
import zipfile

import pytest

from scribe_spark.core.input_files import UnfitFileError, open_file, read_file, read_packed

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
    "csv": TEXT,
    "csv.gz": gzip.compress(TEXT),
    "csv.bz2": bz2.compress(TEXT),
    "CSV.XZ": lzma.compress(TEXT),
    "csv.zip": zipped(TEXT),
    "tar": tarred(TEXT),
    "tar.gz": tarred(TEXT, mode="w:gz"),
    "tar.bz2": tarred(TEXT, mode="w:bz2"),
    "tar.xz": tarred(TEXT, mode="w:xz"),
}


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
