"""A registry: entries of the package keep their names, a user's are replaced."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scribe_spark.core.registry import Registry


@dataclass(frozen=True)
class Colour:
    name: str
    code: int = 0


@pytest.fixture
def colours() -> Registry[Colour]:
    return Registry("colour", Colour("red"), Colour("green"))


def test_a_users_entry_comes_last_and_can_be_registered_again(colours):
    assert colours.register(Colour("mauve", 1)) == Colour("mauve", 1)
    colours.register(Colour("ochre"))
    colours.register(Colour("mauve", 2))
    assert list(colours) == ["red", "green", "mauve", "ochre"]
    assert colours["mauve"].code == 2


def test_an_entry_of_the_package_keeps_its_name(colours):
    with pytest.raises(ValueError, match="'red' is a colour of the package; take another name"):
        colours.register(Colour("red", 1))
    colours.unregister("red")
    assert colours["red"] == Colour("red")


def test_a_users_entry_can_be_taken_out_again(colours):
    colours.register(Colour("mauve"))
    colours.unregister("mauve")
    colours.unregister("mauve")
    assert set(colours) == {"red", "green"}
