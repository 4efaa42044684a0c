"""The values that the paper publishes, and the test whether a run is one of its experiments.

The values are data in ``published.toml``, beside this file.

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
from scribe_spark.systems.registry import all_systems

#: Fields of a config that do not change any published number.
_IGNORED = {*("seed", "variants", "systems", "write_routing_table", "write_knowledge", "knowledge")}

#: The kind of overlay to which the values `check` apply.
_PERFECT = "perfect"

#: Fields that describe arrivals, which the paper does not specify in full.
_OF_ARRIVALS = {"growth", "contact", "introduce", "maintenance"}

#: Fields that only the trees of variants depend on.
_OF_TREES = {"limit", "capacities", "shed_group", "shed_child", "shed_table"}


@dataclass(frozen=True)
class PublishedNumber:
    """A number that the paper publishes, its range in the independent check, and notes."""

    #: The published value.
    paper: float | None = None
    #: The range of values in ten seeds of an independent simulation with perfect routing tables.
    check: str | None = None
    #: What the paper says about the number in words.
    note: str | None = None
    #: True if parameters of the network were fitted to this number, so that agreement confirms
    #: nothing.
    fitted: bool = False


@dataclass(frozen=True)
class _PublishedSection:
    """The published numbers of one section of the paper, with its figures."""

    #: The number of the section.
    section: str
    #: The experiments (`config.EXPERIMENTS`) to which the numbers apply.
    configs: list[str]
    #: The name of a metric -> the published number.
    values: Mapping[str, PublishedNumber]
    #: True if the numbers depend on the limit of children and on the rules for dropping children.
    trees: bool = False
    #: A figure of the main experiment -> the figure with the same measure in this section.
    figures: Mapping[str, str] = field(default_factory=dict)
    #: The fields that must agree with the experiment for a run to have its figures.
    figures_where: list[str] = field(default_factory=list)


def _of_systems() -> set[str]:
    """Return the names of the fields that belong to systems, none of which the paper has."""
    own = {system.config_section for system in all_systems()}
    sections = (section for name, section in RunConfig.sections.items() if name in own)
    return {flat for section in sections for flat in section.flat_names().values()}


@functools.cache
def _sections() -> tuple[_PublishedSection, ...]:
    text = resources.files(__package__).joinpath("published.toml").read_text("utf-8")
    return tuple(
        _PublishedSection(
            **{**table, "values": {n: PublishedNumber(**v) for n, v in table["values"].items()}}
        )
        for table in tomllib.loads(text).values()
    )


def published(config: RunConfig) -> dict[str, PublishedNumber]:
    """Return the paper's numbers for a run; empty unless the run is an experiment of the paper."""
    found: dict[str, PublishedNumber] = {}
    for section in _sections():
        ignored = _IGNORED | _OF_ARRIVALS | _of_systems()
        ignored |= set() if section.trees else _OF_TREES
        if any(_is_experiment(config, name, ignored) for name in section.configs):
            found |= section.values
    if config.overlay.kind == _PERFECT:
        return found
    return {name: dataclasses.replace(known, check=None) for name, known in found.items()}


def replaced_figures(config: RunConfig) -> Mapping[str, str]:
    """Return a mapping from the main experiment's figures to those that replace them in a run.

    A run with groups as small as in Section IV.F has that section's figures.
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
    """Return a mapping from figures of other experiments to the same figures of the main one."""
    return {other: main for section in _sections() for main, other in section.figures.items()}


def _is_experiment(config: RunConfig, name: str, ignored: set[str]) -> bool:
    """Return True if a config equals the experiment `name` of the paper but for some fields."""
    ours, theirs = config.flat(), configs.EXPERIMENTS[name].config.flat()
    return all(ours[field] == theirs[field] for field in theirs if field not in ignored)


_UNITS = {"": 1.0, "k": 1e3, "M": 1e6}


def check_range(check: str) -> tuple[float, float] | None:
    """Return the bounds of a range such as ``2.21-2.23 M``, ends rounded; None for other texts."""
    found = re.fullmatch(r"([\d,.]+)(?:-([\d,.]+))?(?: ([kM]))?", check)
    if found is None:
        return None
    low, high, unit = found.groups(default="")
    ends = [text.replace(",", "") for text in (low, high or low)]
    digits = max(len(text.partition(".")[2]) for text in ends)
    half, scale = 0.5 * 10**-digits, _UNITS[unit]
    return (float(ends[0]) - half) * scale, (float(ends[1]) + half) * scale
