"""The switchboard of private tricks."""

from __future__ import annotations

import pytest

from scribe_spark.errors import InputError
from scribe_spark.runtime.tricks import TRICKS, VARIABLE, check_tricks, enabled, markdown

NAMES = [trick.name for trick in TRICKS]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (None, NAMES),
        ("", NAMES),
        ("all", NAMES),
        ("none", []),
        ("cached_classes, python_daemon", ["cached_classes", "python_daemon"]),
        ("-cached_classes", [name for name in NAMES if name != "cached_classes"]),
        ("all,-cached_classes", [name for name in NAMES if name != "cached_classes"]),
    ],
)
def test_the_variable_chooses(monkeypatch, text, used):
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    check_tricks()
    assert {name for name in NAMES if enabled(name)} == set(used)


@pytest.mark.parametrize("text", ["magic", "all,-magic", "none,cached_classes", "None"])
def test_another_value_is_refused(monkeypatch, text):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=VARIABLE) as caught:
        check_tricks()
    assert "\n" not in str(caught.value)


def test_every_trick_says_what_it_is():
    assert len(set(NAMES)) == len(NAMES)
    for trick in TRICKS:
        assert all([trick.does, trick.uses, trick.gain, trick.without]), trick.name


def test_a_trick_that_is_not_listed_is_a_mistake():
    with pytest.raises(KeyError):
        enabled("magic")


def test_the_table_has_a_row_for_each():
    lines = markdown().splitlines()
    assert lines[0] == "| name | does | uses | gain | without | connect |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {name}" for name in NAMES]
