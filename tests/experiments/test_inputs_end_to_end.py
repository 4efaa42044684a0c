"""Bad input as a user types it: one line, exit code 2, nothing left behind, no Spark started."""

import json

import pytest

from scribe_spark.core.errors import InputError
from scribe_spark.core.paths import local_contents, refuse_long_names

from .conftest import FLAGS, MEMBERS_FLAGS, command, shell


@pytest.fixture
def refused(refused, no_spark):
    """Run a small run that is refused before Spark starts; return the line of its error."""

    def run(*arguments: str) -> str:
        usual = MEMBERS_FLAGS if "--members" in arguments else FLAGS
        if "--topology" in arguments:  # the others are of the network
            usual = FLAGS[:4]
        return refused("run", *usual, *arguments)

    return run


MEMBERS = "group,node\n1,0\n1,199\n"


def test_a_real_shell(tmp_path):
    """No Java is needed to be told; and the line is all there is."""
    (tmp_path / "m.csv").write_text(MEMBERS + "1,0\n")
    flags = (*MEMBERS_FLAGS, "--members", str(tmp_path / "m.csv"), "--out", str(tmp_path / "out"))
    done = shell(command("run", *flags), JAVA_HOME="/nowhere")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "group=1, node=0 occurs twice" in done.stderr


# ------------------------------------------------------------------------------------------ OUT


@pytest.mark.parametrize("how", [(), ("--resume",), ("--overwrite",)])
@pytest.mark.parametrize("theirs", ["thesis.tex", "tables/a.csv", "manifest.json"])
def test_out_of_somebody_else(refused, tmp_path, how, theirs):
    file = tmp_path / "out" / theirs
    file.parent.mkdir(parents=True)
    file.write_text('{"name": "a browser extension", "version": 3}')
    assert "name a new folder" in refused("--out", str(tmp_path / "out"), *how)
    assert file.exists()


def test_out_that_exists(refused, copy):
    says = "exists; use --resume to continue or --overwrite to replace it"
    assert refused("--out", str(copy)) == f"out = {str(copy)!r}: {says}"
    assert refused("--out", copy.as_uri()) == f"out = {copy.as_uri()!r}: {says}"


def test_out_of_another_config(refused, copy):
    """The small run also wrote routing tables, and had seed 1."""
    line = refused("--out", str(copy), "--resume")
    assert line.startswith("write_routing_table = False: ")
    assert f"{copy} was made with write_routing_table = True" in line
    line = refused("--out", str(copy), "--write-routing-table", "--seed", "2", "--resume")
    assert line.startswith("seed = 2: ")
    assert f"{copy} was made with seed = 1" in line


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace('"rows"', '"cows"').replace('"tables"', '"fables"'),
        lambda text: text.replace('"overlay"', '"underlay"'),
        lambda text: json.dumps(json.loads(text) | {"phases": None}),
        lambda text: json.dumps(json.loads(text) | {"resolved": []}),
        lambda text: json.dumps(json.loads(text) | {"versions": {}}),
        lambda text: "\x00\xff" * 9,
    ],
    ids=["cut", "empty", "renamed", "unknown phase", "no phases", "list", "no version", "bytes"],
)
def test_out_with_a_scrambled_manifest(refused, copy, change):
    """Whose config the folder is from is not known, so nothing in it can be gone on with."""
    file = copy / "manifest.json"
    file.write_text(change(file.read_text()), encoding="latin-1")
    line = refused("--out", str(copy), "--write-routing-table", "--resume")
    assert "its manifest.json cannot be read" in line


# --- locations of OUT -----------------------------------------------------------------------------


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
