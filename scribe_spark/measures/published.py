"""The numbers that the paper publishes, and the test whether a run is one of its experiments.

The values are data: ``published.toml``, beside this file.

References
----------
JSAC 2002, Section IV.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from scribe_spark import config as configs
from scribe_spark.config import RunConfig
from scribe_spark.systems import all_systems

#: Fields that change no number of what a run with them measures.
_IGNORED = {
    *("seed", "variants", "systems", "write_routing_table", "write_knowledge", "knowledge"),
    *("reference_children", "reference_assignment"),  # systems that the paper does not have
}

#: The overlay that `check` is of.
_PERFECT = "perfect"

#: How nodes arrive, of which the paper leaves much open.
_OF_ARRIVALS = {"growth", "contact", "introduce", "maintenance"}

#: Fields that only the trees of variants depend on.
_OF_TREES = {"limit", "capacities", "shed_group", "shed_child", "shed_table"}


@dataclass(frozen=True)
class Published:
    """A published number, its independent check, and notes.

    Attributes
    ----------
    paper : float or None
        The published value.
    check : str or None
        The range over ten seeds of an independent simulation with perfect routing tables.
    note : str or None
        What the paper says in words.
    fitted : bool
        Parameters of the network were fitted to this number: that it is met confirms nothing.
    """

    paper: float | None = None
    check: str | None = None
    note: str | None = None
    fitted: bool = False


@dataclass(frozen=True)
class _Section:
    """Numbers of one section of the paper.

    Attributes
    ----------
    section : str
        Where the paper has them.
    configs : list of str
        The experiments (`config.EXPERIMENTS`) that they are of.
    values : mapping
        Name of a metric -> what is published.
    trees : bool
        They depend on the limit of children and on what is shed.
    figures : mapping of str to str
        Figure of the main experiment -> the one that shows the same of this one.
    figures_where : list of str
        The fields that a run must have as the experiment has them to have its figures.
    """

    section: str
    configs: list[str]
    values: Mapping[str, Published]
    trees: bool = False
    figures: Mapping[str, str] = field(default_factory=dict)
    figures_where: list[str] = field(default_factory=list)


def _of_systems() -> set[str]:
    """The fields of systems that the paper does not have."""
    own = {system.section for system in all_systems()}
    sections = (section for name, section in RunConfig.sections.items() if name in own)
    return {flat for section in sections for flat in section.flat_names().values()}


@functools.cache
def _sections() -> tuple[_Section, ...]:
    text = resources.files(__package__).joinpath("published.toml").read_text("utf-8")
    return tuple(
        _Section(**{**table, "values": {n: Published(**v) for n, v in table["values"].items()}})
        for table in tomllib.loads(text).values()
    )


def published(config: RunConfig) -> dict[str, Published]:
    """Return the paper's numbers for a run: none, unless it is one of the paper's experiments.

    Returns
    -------
    dict of str to Published
        By the metric's name; also of systems that the run does not have.
    """
    found: dict[str, Published] = {}
    for section in _sections():
        ignored = _IGNORED | _OF_ARRIVALS | _of_systems()
        ignored |= set() if section.trees else _OF_TREES
        if any(_is_experiment(config, name, ignored) for name in section.configs):
            found |= section.values
    if config.overlay.kind == _PERFECT:
        return found
    return {name: dataclasses.replace(known, check=None) for name, known in found.items()}


def replaced_figures(config: RunConfig) -> Mapping[str, str]:
    """The main experiment's figures that this run has others for, and which.

    A run with groups of Section IV.F's size has that section's figures, also where it is too
    different to have its published numbers.
    """
    ours = config.flat()
    for section in _sections():
        theirs = [configs.EXPERIMENTS[name].config.flat() for name in section.configs]
        if section.figures and any(
            all(ours[field] == other[field] for field in section.figures_where) for other in theirs
        ):
            return section.figures
    return {}


def main_figures() -> Mapping[str, str]:
    """Every figure that shows in another experiment what a figure of the main one shows.

    Returns
    -------
    mapping of str to str
        Its number -> that of the main experiment's figure.
    """
    return {other: main for section in _sections() for main, other in section.figures.items()}


def _is_experiment(config: RunConfig, name: str, ignored: set[str]) -> bool:
    """Return whether a config is that of an experiment in all fields but those ignored."""
    ours, theirs = config.flat(), configs.EXPERIMENTS[name].config.flat()
    return all(ours[field] == theirs[field] for field in theirs if field not in ignored)


_UNITS = {"": 1.0, "k": 1e3, "M": 1e6}


def check_range(check: str) -> tuple[float, float] | None:
    """The bounds of a range such as ``2.21-2.23 M``; None if the text is none.

    What would be rounded to the range's ends is inside.
    """
    found = re.fullmatch(r"([\d,.]+)(?:-([\d,.]+))?(?: ([kM]))?", check)
    if found is None:
        return None
    low, high, unit = found.groups(default="")
    ends = [text.replace(",", "") for text in (low, high or low)]
    digits = max(len(text.partition(".")[2]) for text in ends)
    half, scale = 0.5 * 10**-digits, _UNITS[unit]
    return (float(ends[0]) - half) * scale, (float(ends[1]) + half) * scale
