"""What users are told: lines of bounded length, without secrets, and progress."""

import ast
import io
import json
import re
import time
from pathlib import Path

import pytest
from command_line import exit_code

import scribe_spark
from scribe_spark.core.errors import (
    InputError,
    RunError,
    check_names,
    error_of_task,
    in_words,
    listed,
    named,
    one_line,
    redacted,
    shown,
)
from scribe_spark.core.progress import Bars, Lines, Silent, pick
from scribe_spark.experiments import Sweep
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.plan import refuse_other_config
from scribe_spark.report.page import facts, settings

PACKAGE = Path(scribe_spark.__file__).parent

#: Texts of terminals, of right-to-left order, of half a character, and of two lines.
HOSTILE = ["\x1b[31mred\x1b[0m", "a\u202eb", "\udcff", "one\r\ntwo\x00", "\x9b2J"]


class Odd:
    """An object whose text has a line break and a control character."""

    def __repr__(self) -> str:
        return "<odd\n\x07 object>"


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_are_escaped(text):
    for line in (shown(text), listed([text]), in_words(text), str(InputError(text, text, text)),
                 str(RunError(text)), one_line(OSError(text))):  # fmt: skip
        assert line.isprintable()
    assert shown(text) == repr(text)
    assert shown(Odd()) == "<odd \\x07 object>"


@pytest.mark.parametrize("text", ["x" * 10**6, "\x1b" * 10**5, "\n" * 10**5 + "end"])
def test_long_texts_are_cut(text):
    assert len(shown(text)) <= 200
    assert len(listed([text])) <= 60
    assert len(in_words(text)) <= 500
    assert len(str(InputError(text, text, text))) <= 2_500
    assert len(str(RunError(text))) <= 2_000
    assert len(one_line(ValueError(text))) <= 500
    with pytest.raises(InputError) as refused:
        check_names([text], ["nodes", "groups"], text)
    assert len(str(refused.value)) <= 1_000


def test_both_ends_of_a_long_value_are_shown():
    line = shown("/data/" + "x" * 5_000 + "/members.csv")
    assert line.startswith("'/data/xxx")
    assert line.endswith("xxx/members.csv'")
    assert "..." in line
    assert shown("two  blanks") == "'two  blanks'"


def test_long_lists_are_cut():
    assert listed(f"column{n}" for n in range(1_742)).endswith(", column11 and 1,730 more")
    assert listed([]) == "none"
    assert listed(["group", "a node", "x,y", ""]) == "group, 'a node', 'x,y', ''"


def test_only_a_name_that_is_like_it_is_proposed():
    systems = ["scribe", "bayeux", "flooding", "can"]
    with pytest.raises(InputError, match=r"is unknown; give one of scribe, bayeux, flooding, can$"):
        check_names(["foo"], systems, "systems")
    with pytest.raises(InputError, match=r"is unknown; did you mean 'flooding'\?$"):
        check_names(["floding"], systems, "systems")
    with pytest.raises(InputError, match=r"is unknown; --help has the list$"):
        check_names(["foo"], [f"name{n}" for n in range(100)], "config key")
    with pytest.raises(InputError, match=r"give one of scribe, .*can; did you mean 'can'\?$"):
        named(dict.fromkeys(systems), "cann", "overlay")


#: Texts that are no messages, but types of columns, or names that the package has made.
NO_MESSAGES = {
    *("systems/baselines.py", "experiments/digests.py"),
    *("engine/program.py", "worlds/setting.py"),
}


def _formats_itself(node: ast.AST) -> bool:
    """Whether code quotes a value by ``!r``, or joins names by a comma, itself."""
    if isinstance(node, ast.FormattedValue):
        return node.conversion in (ord("r"), ord("a"))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of = node.func.value
        joined = node.func.attr == "join" and isinstance(of, ast.Constant)
        return joined and of.value in (", ", " and ", " or ")
    return False


def test_no_other_module_formats_values_or_names():
    """One that did would have to bound them and to escape control characters, too."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if name in NO_MESSAGES | {"core/errors.py", "__init__.py"} or name.startswith("report/"):
            continue
        text = file.read_text("utf-8")
        tree = ast.parse(text if re.search(r"![ra]\}|\.join\(", text) else "")
        found += [f"{name}:{node.lineno}" for node in ast.walk(tree) if _formats_itself(node)]
    assert found == []


TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/tmp/a.py", line 5, in step
    raise LookupError("7 is not one of 3 sorted keys")
LookupError: 7 is not one of 3 sorted keys

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/tmp/a.py", line 7, in step
    refuse()
{0}

JVM stacktrace: scribe_spark.core.errors.other"""


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (InputError("column a: b", "x = y: z", "say: c = d"), True),
        (InputError("column label", "an array", "give another one"), True),
        (RunError("GossipSub PUBLISH: has not ended"), True),
        (ValueError("scribe_spark.core.errors.RunError: quoted"), False),
    ],
)
def test_errors_of_tasks_are_read_from_the_trace(error, known):
    line = f"{type(error).__module__}.{type(error).__qualname__}: {error}".removeprefix("builtins.")
    found = error_of_task(RuntimeError(TRACE.format(line)))
    assert (found is not None) == known
    if known:
        assert (type(found), str(found)) == (type(error), str(error))
    assert error_of_task(error) is None


# --- secrets --------------------------------------------------------------------------------------


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
    """Nothing but `cli.parsing` prints."""
    for path in (Path(scribe_spark.__file__).parent / "cli").glob("*.py"):
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        printing = [
            c for c in calls if ast.unparse(c.func) in ("print", "click.echo", "click.secho")
        ]
        assert not printing or path.name == "parsing.py"


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


# --- progress -------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(progress) -> None:
    with progress.phase("trees"):
        progress.round("join", 0, 1200, 0.5)
        progress.round("join", 1, 30, 0.25)
        progress.round("multicast", 0, 0, 0.1)
        progress.note("a [note] in passing")


def test_lines():
    stream = io.StringIO()
    work(Lines(stream))
    first, *rounds, note, last = stream.getvalue().splitlines()
    assert first == "trees: started"
    assert rounds == [
        "  join: round 0, 1,200 messages left, 0.5 s",
        "  join: round 1, 30 messages left, 0.2 s",
        "  multicast: round 0, 0 messages left, 0.1 s",
    ]
    assert note == "a [note] in passing"
    assert last.startswith("trees: done in ")


def test_a_phase_that_fails_says_so():
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), Lines(stream).phase("trees"):
        1 / 0  # noqa: B018
    assert "trees: stopped after" in stream.getvalue()
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), Bars(stream).phase("trees"):
        1 / 0  # noqa: B018
    assert "done" not in stream.getvalue()


def test_bars_tell_round_messages_and_seconds(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    work(Bars(stream))
    text = stream.getvalue()
    assert "0:00:0" in text
    assert "a [note] in passing" in text
    assert "trees      done in " in text


def test_bars_outside_a_phase_ignore_rounds():
    Bars(Terminal()).round("join", 0, 5, 0.1)


@pytest.mark.parametrize(
    ("stream", "kind"), [(Terminal(), Bars), (io.StringIO(), Lines)], ids=["terminal", "pipe"]
)
def test_pick(stream, kind):
    assert isinstance(pick(stream), kind)


@pytest.mark.parametrize("make", [lambda: Lines(io.StringIO()), lambda: Bars(Terminal()), Silent])
def test_stdout_is_left_alone(make, capsys):
    work(make())
    assert capsys.readouterr().out == ""
