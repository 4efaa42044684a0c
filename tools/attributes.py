"""The page docs/attributes.md: the attributes and methods that a user's code reads, by class."""

import dataclasses
import inspect
import re
from collections.abc import Iterator

from scribe_spark.experiments import Run, Simulation
from scribe_spark.rounds.group_overlays import GroupOverlays, Network, Overlays
from scribe_spark.rounds.grown_overlays import GrownOverlays, Period
from scribe_spark.rounds.system import LivingRound, SystemOnBuckets, SystemRound
from scribe_spark.systems.scribe.variants import VariantContext
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.world import World
from tools.pages import table

#: The classes of the page, in order.
CLASSES = (
    *(Run, Simulation, World, Overlays, Network, Kernel, GroupOverlays, GrownOverlays, Period),
    *(LivingRound, SystemOnBuckets, SystemRound, VariantContext),
)

_ROLE = re.compile(r":\w+:`~?([^`]*)`|``([^`]*)``")
_ENTRY = re.compile(r"^(\w[\w, ]*) : (.*)\n((?:    .*\n?|\n)+)", re.M)


def attributes() -> Iterator[str]:
    """Yield the lines of ``docs/attributes.md``: a section for each class."""
    for number, cls in enumerate(CLASSES):
        text = inspect.getdoc(cls) or ""
        rows = dict([*_described(text), *_members(cls)])
        yield from ([""] * (number > 0) + [f"## {cls.__name__}", "", _first(text), ""])
        yield from table(["name", "meaning"], rows.items())


def _described(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the meanings in the section "Attributes" of a docstring."""
    section = text.partition("\nAttributes\n----------\n")[2]
    section = re.split(r"\n\w+\n---+\n", section)[0]
    for names, kind, words in _ENTRY.findall(section + "\n"):
        meaning = _first(inspect.cleandoc(words))
        yield ", ".join(f"`{name}`" for name in names.split(", ")), f"{_plain(kind)}: {meaning}"


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class of the package, in order of its file."""
    for of in reversed(cls.__mro__):
        if not of.__module__.startswith("scribe_spark") or (of is not cls and of in CLASSES):
            continue
        for name, member in vars(of).items():
            text = inspect.getdoc(member) or ""
            own = text and text != inspect.getdoc(type(member))
            as_elsewhere = text.startswith("See ")
            if own and not (
                name.startswith("_") or dataclasses.is_dataclass(member) or as_elsewhere
            ):
                yield f"`{name}{_arguments(member)}`", _first(text)


def _arguments(member: object) -> str:
    """Return the arguments of a method in brackets; nothing for a property."""
    member = getattr(member, "__func__", member)
    if not inspect.isfunction(member):
        return ""
    return f"({', '.join([*inspect.signature(member).parameters][1:])})"


def _first(text: str) -> str:
    """Return the first sentence of a docstring."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return _plain(re.split(r"(?<=[.]) (?=[A-Z`:])", paragraph)[0])


def _plain(text: str) -> str:
    return _ROLE.sub(lambda found: f"`{found[1] or found[2]}`", text)
