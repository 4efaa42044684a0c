"""Messages: one line of bounded length, whatever users, files and libraries put into them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import scribe_spark
from scribe_spark.errors import (
    InputError,
    RunError,
    check_names,
    error_of_task,
    in_words,
    listed,
    named,
    one_line,
    shown,
)

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
    *("baselines/unicasts.py", "experiments/digests.py"),
    *("engine/in_turn.py", "worlds/lengths.py"),
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
        if name in NO_MESSAGES | {"errors.py", "__init__.py"} or name.startswith("report/"):
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

JVM stacktrace: scribe_spark.errors.other"""


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (InputError("column a: b", "x = y: z", "say: c = d"), True),
        (InputError("column label", "an array", "give another one"), True),
        (RunError("GossipSub PUBLISH: has not ended"), True),
        (ValueError("scribe_spark.errors.RunError: quoted"), False),
    ],
)
def test_errors_of_tasks_are_read_from_the_trace(error, known):
    line = f"{type(error).__module__}.{type(error).__qualname__}: {error}".removeprefix("builtins.")
    found = error_of_task(RuntimeError(TRACE.format(line)))
    assert (found is not None) == known
    if known:
        assert (type(found), str(found)) == (type(error), str(error))
    assert error_of_task(error) is None
