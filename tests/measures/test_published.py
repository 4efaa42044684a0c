"""What a run's numbers are held against: Section IV.A-E's values, IV.F's for equal groups."""

from __future__ import annotations

from scribe_spark.config import EXPERIMENTS, Paper, RunConfig
from scribe_spark.measures.published import NUMBERS, published

PLAIN = ["scribe", "ip_multicast", "naive_unicast"]


def papers(config: RunConfig, *variants: str) -> dict[str, float | None]:
    return {name: row.paper for name, row in published(config, [*PLAIN, *variants]).items()}


def test_the_table_of_the_measures():
    """Binding: the paper's numbers as `measures.md` has them."""
    found = papers(RunConfig(), "scribe_bottleneck")
    for name, paper in {
        "groups.size.sum": 395_247,
        "scribe.rad.median": 1.68,
        "scribe.rad.max": 2,
        "scribe.rmd.median": 1.69,
        "scribe.rmd.max": 4.26,
        "scribe.rdp.mean": 1.81,
        "scribe.rdp.median": 1.65,
        "scribe.rdp.below_1": 0.022,
        "scribe.children_tables.mean": 2.4,
        "scribe.children_tables.median": 2,
        "scribe.children_tables.max": 40,
        "scribe.children_entries.mean": 6.2,
        "scribe.children_entries.median": 3,
        "scribe.children_entries.max": 1059,
        "scribe.messages": 2_489_824,
        "ip_multicast.messages": 758_853,
        "scribe.link_stress.max": 4031,
        "ip_multicast.link_stress.max": 950,
        "scribe_bottleneck.join_stress.mean": 2.7,
        "scribe_bottleneck.join_stress.max": 4728,
        "scribe_bottleneck.probes_per_join": 3,
    }.items():
        assert found[name] == paper, name


def test_equal_groups_are_section_iv_f():
    small = EXPERIMENTS["small_groups"].config
    found = papers(small, "scribe_collapse", "scribe_lazy")
    told = {n: p for n, p in found.items() if p is not None and n.split(".")[0] not in HELD}
    assert told == {
        "scribe.children_entries.mean": 21.2,
        "naive_unicast.children_entries.mean": 6.6,
        "scribe_collapse.children_entries.mean": 8.5,
        "scribe.link_stress.mean": 6.1,
        "ip_multicast.link_stress.mean": 1.6,
        "naive_unicast.link_stress.mean": 2.9,
        "scribe_collapse.link_stress.mean": 3.3,
    }
    figures = {name: row.figure for name, row in published(small, PLAIN).items()}
    assert figures["scribe.children_tables.max"] == "12"
    assert figures["scribe.children_entries.max"] == "13"
    assert figures["links.existing"] == figures["scribe.link_stress.max"] == "14"


HELD = {"topology", "links"}  # the network is the same


def test_only_the_systems_of_the_run_are_told():
    assert not [name for name in papers(RunConfig()) if name.startswith("scribe_")]
    one = papers(RunConfig(), "scribe_lazy")
    assert {name.split(".")[0] for name in one if name.startswith("scribe_")} == {"scribe_lazy"}
    every = papers(RunConfig(), "scribe_bottleneck", "scribe_collapse", "scribe_lazy")
    assert list(every) == list(NUMBERS)


def test_another_network_is_not_held_against_the_papers():
    found = papers(RunConfig(topology="power-law"))
    assert {found[name] for name in found if name.split(".")[0] in HELD} == {None}
    stress = {value for name, value in found.items() if "_stress." in name}
    assert stress | {found["scribe.messages"]} == {None}
    assert found["scribe.rad.median"] == 1.68


def test_the_internet_is_run_once_and_scaled_with_the_rest():
    runs = Paper(seeds=2, scale=0.01).runs()
    assert list(runs[1]) == ["main", "small_groups", "internet"]
    assert list(runs[2]) == ["main", "small_groups"]
    internet = runs[1]["internet"]
    assert (internet.power_law_routers, internet.power_law_links) == (1026, 1423)
    full = Paper(seeds=1).runs()[1]["internet"]
    assert (full.nodes, full.power_law_routers) == (100_000, 102_639)
