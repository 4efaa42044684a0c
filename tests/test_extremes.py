"""The least and greatest numbers in every field: refused in one line, or everything works."""

import math
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from scribe_spark.config import (
    Execution,
    FieldRecord,
    Paper,
    ReferenceTreeConfig,
    RunConfig,
    WorldConfig,
    fields_of,
    write_toml,
)
from scribe_spark.config.fields import all_fields
from scribe_spark.config.section import Section
from scribe_spark.core.errors import InputError
from scribe_spark.pastry.waves import wave_size
from scribe_spark.systems.scribe.groups import group_sizes
from scribe_spark.topology.registry import load
from scribe_spark.worlds.events import check_world
from scribe_spark.worlds.generators import Weibull, share_of

NUMBERS = [
    *(0, 1, -1, 30, 2**31, 2**53 + 1, 2**63, -(2**63), 10**400, -0.0, 5e-324, 1e-6, 1e308),
    *(math.nextafter(1, 0), math.nextafter(1, 2), math.nan, math.inf, -math.inf),
]
#: Numbers for a field that runs have, too: its section, which is the same, knows what it takes.
FEW = [0, 1, -1, 2**63, math.nan]
OTHERS: list[Any] = [True, None, "", "\0", "9" * 10_000, [], [2**63], {}, b"\xff"]

#: A small network, so that a graph is made in no time.
SMALL: dict[str, Any] = {
    "nodes": 40, "transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 2,
    "power_law_routers": 20, "power_law_links": 30,
}  # fmt: skip

#: Field -> the generator that it is a parameter of, where nodes need not be known.
GENERATORS = {
    "share": "mass-failure", "event_round": "mass-failure", "crowd": "group-crowd",
    "crowd_group": "group-crowd", "lifetime": "churn", "weibull_shape": "churn",
    "membership": "group-churn", "publish_rate": "publications", "publishers": "publications",
    "event_seconds": "mass-failure", "lifetime_seconds": "churn", "round_seconds": "churn",
    "membership_seconds": "group-churn", "publish_seconds": "publications",
}  # fmt: skip


def made(kind: type[Section], field: FieldRecord, value: Any) -> Section:
    given: dict[str, Any] = (
        {**SMALL, "groups": 3} if issubclass(kind, RunConfig | WorldConfig) else {}
    )
    if kind is ReferenceTreeConfig and field.section in ("overlay", "topology"):
        given = {"scaling": [9], "hosts": [], "dht": "routed", "assignment": "pastry"}
    if kind is Execution:
        given = {"out": "o"}
    if kind is WorldConfig:
        given |= {"rounds": 4, "generator": GENERATORS.get(field.flat, "publications")}
        given |= {"initial": 30} if given["generator"] == "churn" else {}
        given |= {"reference_tree": True} if field.section == "reference_tree" else {}
    if field.flat.startswith("power_law"):
        given["topology"] = "power-law"
    return kind(**{**given, field.flat: value})


def use(config: Section, field: FieldRecord) -> None:
    """Compute what is computed of a config before there is a session."""
    flat = config.flat()
    assert {n: v for n, v in flat.items() if v is not None} == tomllib.loads(write_toml(flat))
    hash(config)
    if isinstance(config, Paper):
        config.runs() if config.seeds < 100 else None
    if isinstance(config, RunConfig | WorldConfig | ReferenceTreeConfig):
        assert 0 <= config.estimated_work < 2**200
        assert wave_size(2**31, config.overlay.growth) >= 1
        hash(config.network_key)
        network = config.topology
        extra = network.extra_transit_stub + network.extra_stub_stub  # each takes 20 microseconds
        if field.section == "topology" and network.routers < 300 and extra < 1_000:
            load(config if isinstance(config, RunConfig) else RunConfig(topology=config.topology))
    if isinstance(config, RunConfig):
        assert (group_sizes(config.replace(groups=min(config.groups.count or 0, 99))) >= 0).all()
        assert config.can.halvings >= 1
        WorldConfig.of_run(config)
    if isinstance(config, RunConfig | WorldConfig):
        for name in ("prune_backoff", "unsubscribe_backoff"):
            assert 0 <= getattr(config.gossipsub, name) < 2**31
        world = config.world
        assert 0 < Weibull(world.lifetime, world.weibull_shape).scale < math.inf
        assert share_of(2**62, world.share) < 2**62
    if isinstance(config, WorldConfig) and field.flat in GENERATORS:
        check_world(config)


def cases(kind: type[Section]) -> Iterator[FieldRecord]:
    """Every field of a config, but for names that have checks of their own."""
    fields = all_fields(kind) if hasattr(kind, "sections") else fields_of(kind, "own")
    yield from fields.values()


def bounds_of(kind: type[Section], field: FieldRecord) -> dict[str, Any]:
    """The least and the greatest value that a field takes, if it is a number."""
    section = getattr(kind, "sections", {}).get(field.section, kind)
    return {
        bound: getattr(mark, bound)
        for mark in section.model_fields[field.name].metadata
        for bound in ("ge", "gt", "le", "lt")
        if getattr(mark, bound, None) is not None
    }


def values_of(kind: type[Section], field: FieldRecord) -> list[Any]:
    """The least and the greatest value of a field, and others."""
    bounds, sections = bounds_of(kind, field).values(), getattr(kind, "sections", {})
    of_runs = RunConfig.sections.get(field.section)
    if kind is RunConfig or field.flat in GENERATORS or sections.get(field.section) is not of_runs:
        return [*bounds, *NUMBERS, *OTHERS]
    return [*bounds, *FEW, *OTHERS[:3]]


KINDS = (RunConfig, WorldConfig, ReferenceTreeConfig, Paper, Execution)


@pytest.mark.parametrize(
    ("kind", "field"),
    [pytest.param(kind, field, id=f"{kind.__name__}-{field.flat}")
     for kind in KINDS for field in cases(kind)],
)  # fmt: skip
def test_extreme_values(kind, field):
    taken = 0
    for value in values_of(kind, field):
        try:
            config = made(kind, field, value)
            use(config, field)
            taken += 1
        except InputError as error:
            line = str(error)
            assert line.isprintable()
            assert len(line) < 2_500
    is_number = field.kind.name in ("int", "float") and not field.kind.choices
    # how many nodes there are is for `scaling` to say, and links are for routers
    if is_number and field.flat not in ("nodes", "power_law_routers", "power_law_links"):
        assert taken, "no number at all is taken"


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_least_and_a_greatest_value(kind):
    for field in cases(kind):
        if field.kind.name in ("int", "float") and not field.kind.choices:
            bounds = bounds_of(kind, field).keys()
            assert bounds & {"ge", "gt"}, field.flat
            assert bounds & {"le", "lt"}, field.flat
