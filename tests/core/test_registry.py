"""A registry: entries of the package keep their names, a user's are replaced."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scribe_spark.core.registry import Registry


@dataclass(frozen=True)
class Colour:
    name: str
    code: int = 0


def test_entries_of_the_package_stay_and_those_of_users_come_after():
    colours = Registry("colour", Colour("red"), Colour("green"))
    assert colours.register(Colour("mauve", 1)) == Colour("mauve", 1)
    colours.register(Colour("ochre"))
    colours.register(Colour("mauve", 2))
    assert list(colours) == ["red", "green", "mauve", "ochre"]
    assert colours["mauve"].code == 2
    with pytest.raises(ValueError, match="'red' is a colour of the package; take another name"):
        colours.register(Colour("red", 1))
    for name in ("red", "mauve", "mauve"):
        colours.unregister(name)
    assert list(colours) == ["red", "green", "ochre"]
    assert colours["red"] == Colour("red")
