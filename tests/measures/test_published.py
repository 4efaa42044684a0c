"""A number is put beside the paper's only where the run is the paper's experiment."""

import pandas as pd
import pytest

from scribe_spark.config import EXPERIMENTS, Paper, RunConfig
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.measures.published import (
    _sections,
    check_range,
    main_figures,
    published,
    replaced_figures,
)
from scribe_spark.report.paper_figures import FIGURES, series_of

SMALL_GROUPS = {"8": "12", "9": "13", "10": "14"}


def papers(config: RunConfig) -> dict[str, float]:
    """Metric -> the published value."""
    return {name: row.paper for name, row in published(config).items() if row.paper is not None}


def test_the_table_of_the_measures():
    """Binding: the paper's numbers."""
    found = papers(EXPERIMENTS["main"].config)
    for name, paper in {
        "groups.size.sum": 395_247,
        "scribe.rad.median": 1.68,
        "scribe.rmd.max": 4.26,
        "scribe.rdp.below_1": 0.022,
        "scribe.children_tables.mean": 2.4,
        "scribe.children_entries.max": 1059,
        "ip_multicast.messages": 758_853,
        "scribe.link_stress.max": 4031,
        "scribe_bottleneck.join_stress.max": 4728,
        "scribe.rad.average_std": 62,  # under the figures
    }.items():
        assert found[name] == paper, name


def test_arrivals_are_the_same_experiment_but_not_what_the_check_is_of():
    perfect, arrivals = (published(EXPERIMENTS[name].config) for name in ("main", "arrivals"))
    assert perfect["scribe.rad.median"].check == "1.46-1.50"
    assert arrivals["scribe.rad.median"].check is None
    assert {n: v.paper for n, v in arrivals.items()} == {n: v.paper for n, v in perfect.items()}
    config = EXPERIMENTS["arrivals"].config.replace(growth=2.0, contact="random", maintenance=1)
    assert published(config) == arrivals
    assert "scribe.rad.median" not in published(config.replace(overlay="ring"))


def test_small_groups_are_section_iv_f():
    found = papers(EXPERIMENTS["small_groups"].config)
    network = {name for name in found if name.split(".")[0] in ("topology", "links")}
    assert network == {"topology.core_delay.mean", "topology.core_links", "links.paper_slots"}
    assert {name: found[name] for name in found.keys() - network} == {
        "scribe.children_entries.mean": 21.2,
        "naive_unicast.children_entries.mean": 6.6,
        "scribe_collapse.children_entries.mean": 8.5,
        "scribe.link_stress.mean": 6.1,
        "ip_multicast.link_stress.mean": 1.6,
        "naive_unicast.link_stress.mean": 2.9,
        "scribe_collapse.link_stress.mean": 3.3,
    }


def test_a_published_number_is_a_metric_of_a_run():
    series = [s for spec in FIGURES for s in series_of(spec, pd.DataFrame())]
    known = {*metric_definitions(), *(s.deviation_name for s in series)}
    for section in _sections():
        assert set(section.configs) <= set(EXPERIMENTS)
        assert set(section.values) <= known
    quoted = {name for spec in FIGURES for mark in spec.marks for name in mark.metrics}
    assert quoted <= {name for section in _sections() for name in section.values}


@pytest.mark.parametrize(
    "changes",
    [
        *({"nodes": 50_000}, {"groups": 100}, {"b": 2}, {"stub_size": 11}, {"source": "routed"}),
        *({"members": "members.csv"}, {"topology": "topohub:backbone/north_america"}),
        *({"group_size": 11}, {"nodes": 50_000, "groups": 300, "group_size": 11}),
    ],
    ids=str,
)
def test_a_run_that_is_no_experiment_has_no_published_numbers(changes):
    config = RunConfig(**changes)
    assert not published(config)


def test_what_changes_no_number_does_not_matter():
    main = papers(EXPERIMENTS["main"].config)
    for changes in (
        {"seed": 7},
        {"variants": "plain"},
        {"write_routing_table": True},
        {"systems": "scribe,can", "can_dimensions": 3},
    ):
        assert papers(EXPERIMENTS["main"].config.replace(**changes)) == main
    # the limit matters to the remover's trees, not to Scribe's
    limited = papers(EXPERIMENTS["main"].config.replace(limit=32))
    assert main.items() - limited.items() == {
        (name, value) for name, value in main.items() if name.startswith("scribe_bottleneck.")
    }
    assert limited


def test_figures_12_to_14_are_those_of_groups_as_small_as_the_papers():
    small = EXPERIMENTS["small_groups"].config
    trial = Paper(seeds=1, scale=0.01).runs()[1]["small_groups"]
    elsewhere = RunConfig(nodes=30, group_size=11, topology="power-law")
    for one in (small, trial, elsewhere):
        assert replaced_figures(one) == SMALL_GROUPS
    for other in (
        RunConfig(),
        RunConfig(groups=100, group_size=10_000),
        small.replace(group_size=12),
    ):
        assert replaced_figures(other) == {}
    assert main_figures() == {other: main for main, other in SMALL_GROUPS.items()}


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.46-1.50", (1.455, 1.48, 1.504), (1.454, 1.51)),
        ("2", (2, 1.6), (1, 3)),
        ("2.21-2.23 M", (2.206e6, 2.234e6), (2.204e6, 2.24e6)),
        ("757-760 k", (756_600, 760_400), (756_000, 761_000)),
    ],
)
def test_a_range_takes_in_what_is_rounded_to_its_ends(text, inside, outside):
    low, high = check_range(text)
    assert all(low <= value <= high for value in inside)
    assert not any(low <= value <= high for value in outside)
