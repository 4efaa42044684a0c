"""Secrets that a user types are in nothing that is printed or written."""

from __future__ import annotations

import ast
import io
import json
import time
from pathlib import Path

import pytest
from command_line import exit_code

import scribe_spark
from scribe_spark.errors import InputError, RunError
from scribe_spark.experiments import Sweep
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.plan import refuse_other_config
from scribe_spark.progress import Lines
from scribe_spark.redaction import redacted
from scribe_spark.report.page import facts, settings

SECRET = "sEcReT"
REMOTE = f"sc://host:15002/;use_ssl=true;token={SECRET};user_id={SECRET};x-own={SECRET}"
MEMBERS = f"s3a://AKIA:{SECRET}/{SECRET}@bucket/members.csv"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (REMOTE, "sc://host:15002/;use_ssl=true;token=***;user_id=***;x-own=***"),
        (f"at sc://h/;token={SECRET} (no)", "at sc://h/;token=*** (no)"),
        (f"sc://h/;session_id={SECRET};user_agent=me", "sc://h/;session_id=***;user_agent=me"),
        (MEMBERS, "s3a://***@bucket/members.csv"),
        (f"https://u:{SECRET}@h/x?sig={SECRET}&a=b", "https://***@h/x?sig=***&a=b"),
        (f"--conf spark.fs.s3a.secret.key={SECRET} x", "--conf spark.fs.s3a.secret.key=*** x"),
        (f"fs.s3a.access.key={SECRET}", "fs.s3a.access.key=***"),
        (f"?X-Amz-Signature={SECRET}", "?X-Amz-Signature=***"),
        # no secrets
        ("abfss://container@account.net/run", None),
        ("hdfs://namenode:8020/user/a@b/run", None),
        ("file:///a:b/c@d", None),
        ("sc://host:15002", None),
        ("groups=5, b=2; key=3", None),
    ],
)  # fmt: skip
def test_texts(text, shown):
    assert redacted(text) == (text if shown is None else shown)
    assert redacted(redacted(text)) == redacted(text)
    assert redacted({"a": [text], "b": 1, "c": None}) == {"a": [redacted(text)], "b": 1, "c": None}


def test_a_long_text_takes_no_longer_than_its_length():
    began = time.process_time()
    assert redacted("x" * 1_000_000) == "x" * 1_000_000
    assert time.process_time() - began < 5  # 0.1 s


def test_errors():
    for error in (
        InputError("remote", REMOTE, f"cannot be reached ({MEMBERS})"),
        InputError("arguments", ["--members", MEMBERS], f"no {REMOTE}"),
        RunError(f"{MEMBERS}: no more room"),
    ):
        assert SECRET not in str(error)
    assert str(InputError("remote", "sc://h/;token=a'b", "is none")) == (
        "remote = 'sc://h/;token=***': is none"
    )


def test_notes():
    stream = io.StringIO()
    Lines(stream).note(f"{MEMBERS} is locked")
    assert stream.getvalue() == "s3a://***@bucket/members.csv is locked\n"


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--members", MEMBERS],
        ["world", "--generator", "churn", "--members", MEMBERS],
        ["sweep", "--set", "b=2,4", "--members", MEMBERS],
        ["world", "--set", "b=2,4", "--generator", "churn", "--members", MEMBERS],
        ["reference-tree"],
    ],
    ids=" ".join,
)
def test_dry_runs(command, capsys):
    out = MEMBERS.replace("members.csv", "out")
    code = exit_code([*command, "--remote", REMOTE, "--out", out, "--dry-run"])
    told = "".join(capsys.readouterr())
    assert code == 0
    assert "token=***" in told
    assert SECRET not in told


def test_what_a_dry_run_has_left_out_is_asked_for(capsys):
    assert exit_code(["run", "--remote", redacted(REMOTE)]) == 2
    assert "has *** for a secret; write the secret itself" in capsys.readouterr().err


def test_commands_print_in_one_way():
    """Nothing but `cli.output` prints."""
    for path in (Path(scribe_spark.__file__).parent / "cli").glob("*.py"):
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        printing = [
            c for c in calls if ast.unparse(c.func) in ("print", "click.echo", "click.secho")
        ]
        assert not printing or path.name == "output.py"


def test_manifests_and_pages(tmp_path):
    manifest = {
        "resolved": {"members": MEMBERS, "topology": MEMBERS},
        "execution": {"out": MEMBERS},
    }
    with Folder(None, str(tmp_path)) as folder:
        folder.write_json("manifest.json", manifest)
    assert SECRET not in (tmp_path / "manifest.json").read_text()
    assert SECRET not in str((facts(manifest), settings(manifest)))
    for saved in (
        manifest["resolved"],
        json.loads((tmp_path / "manifest.json").read_text())["resolved"],
    ):
        refuse_other_config(manifest["resolved"], saved, "out")
        with pytest.raises(InputError, match="was made with members"):
            refuse_other_config({**manifest["resolved"], "members": "x"}, saved, "out")


def test_no_folder_is_called_by_a_secret():
    with pytest.raises(InputError, match=r"members = 's3a://\*\*\*@.* contains a secret"):
        Sweep(scribe_spark.RunConfig(), {"members": (MEMBERS,)})
