"""The cards at the top of the pages of runs and worlds."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from scribe_spark.report import render
from scribe_spark.report.cards import run_cards, verdict, world_cards
from scribe_spark.report.world import render_world

from .test_page import NOTHING


def metric(name: str, value: float | None) -> dict[str, object]:
    return {"name": name, "value": value, "unit": "", "figure": None, "paper": None}


RUN = [
    metric("gossipsub.rad.median", 1.0101),
    metric("gossipsub.duplicates.mean", 6.818),
    metric("scribe.rad.median", 1.4581),
    metric("scribe.link_stress.max", 2854),
    metric("scribe.duplicates.mean", None),
    metric("ip_multicast.messages", 759_406),
    metric("pastry.hops.mean", 3.9),
]


def test_a_run_has_a_card_for_each_system_in_the_order_of_the_registry():
    cards = run_cards(RUN)
    assert [(card.title, card.value, card.what) for card in cards] == [
        ("Scribe", "1.46", "RAD, median group"),
        ("GossipSub", "1.01", "RAD, median group"),
        ("IP multicast", "759,406", "packets, all links"),
    ]
    assert [list(card.lines) for card in cards] == [
        [("packets, busiest link", "2,854")],
        [("duplicates per delivery", "6.82")],
        [],
    ]
    assert len({card.colour for card in cards}) == 3


def test_latency_comes_first_where_it_is_measured():
    (card,) = run_cards([*RUN[2:4], metric("scribe.latency.p99", 812.4)])
    assert (card.value, card.what) == ("812 ms", "latency, 99 % of deliveries")


def test_bars_and_a_sentence_compare_the_latencies_of_several_systems():
    rows = [
        metric("scribe.latency.p99", 800.0),
        metric("gossipsub.latency.p99", 200.0),
        metric("ip_multicast.latency.p99", 100.0),
    ]
    cards = run_cards(rows)
    assert [card.share for card in cards] == [100, 25, 12.5]
    assert verdict(cards) == (
        "99\xa0% of the deliveries arrive within 200 ms with GossipSub, the fastest, and within "
        "800 ms with Scribe, the slowest of the 2 systems beside IP multicast."
    )
    assert verdict(run_cards(rows[1:])) == ""
    equal = [metric("bayeux.latency.p99", 200.0), metric("flooding.latency.p99", 200.4)]
    assert "200 ms with Bayeux, GossipSub and Flooding over Pastry, the fastest, and" in verdict(
        run_cards([*rows, *equal])
    )
    assert verdict(run_cards(equal)) == (
        "99\xa0% of the deliveries arrive within 200 ms with each of the 2 systems."
    )


@pytest.mark.parametrize("unicast", [1.0, 900.0])
def test_no_baseline_is_the_fastest_or_the_slowest(unicast):
    rows = [
        *(metric("scribe.latency.p99", 800.0), metric("gossipsub.latency.p99", 200.0)),
        *(metric(f"{name}.latency.p99", unicast) for name in ("ip_multicast", "naive_unicast")),
    ]
    assert verdict(run_cards(rows)).endswith(
        "within 200 ms with GossipSub, the fastest, and within 800 ms with Scribe, the slowest of "
        "the 2 systems beside IP multicast and Naive unicast."
    )


@pytest.mark.parametrize(
    ("reached", "note"),
    [
        *((1.0, ""), (None, "")),
        (0.94217, "reaches 94.2\xa0% of the members"),
        (0.99996, "reaches 99.996\xa0% of the members"),  # not 100 %
        (0.0, "reaches 0\xa0% of the members"),
    ],
)
def test_a_card_begins_with_the_members_that_are_not_reached(reached, note):
    rows = [
        *(metric("scribe.reached", 1.0), metric("scribe.latency.p99", 800.0)),
        *(metric("gossipsub.reached", reached), metric("gossipsub.latency.p99", 200.0)),
        *(metric("bayeux.reached", 1.0), metric("bayeux.latency.p99", 900.0)),
    ]
    cards = run_cards(rows)
    assert {card.title: card.note for card in cards} == {
        **{"Scribe": "", "GossipSub": note, "Bayeux": ""}
    }
    told = verdict(cards)
    fastest = "Scribe" if note else "GossipSub"
    assert f"{fastest}, the fastest" in told
    assert told.endswith(f" GossipSub {note}." if note else "of the 3 systems.")
    page = render(rows, {}, NOTHING).html
    assert (f'GossipSub <span class="off">{note}</span> <strong>200' in page) == bool(note)


def test_the_only_system_does_not_reach_everybody():
    rows = [metric("gossipsub.reached", 0.5), metric("gossipsub.latency.p99", 200.0)]
    assert verdict(run_cards(rows)) == "GossipSub reaches 50\xa0% of the members."


def test_a_world_is_not_whole_by_rounding():
    rounds = ROUNDS.pivot(index="round", columns="measure", values="value")
    rounds = rounds.assign(**{"lookups.right": 0.99996, "scribe.publications.in_time": 49.999})
    pastry, scribe = world_cards(rounds)
    assert (pastry.value, scribe.value) == ("99.996\xa0%", "99.998\xa0%")
    assert {card.share for card in run_cards(RUN)} == {None}  # other measures


def test_the_sharing_of_links_stands_beside_latency():
    clock = {"clock": "time: 128KB, interleaved uplinks, shared links"}
    (card,) = run_cards([metric("scribe.latency.p99", 812.4) | clock])
    links = "128KB, interleaved uplinks, shared links"
    assert (card.value, card.what) == ("812 ms", f"latency, 99 % of deliveries: {links}")


def test_several_runs_together_have_no_cards():
    assert run_cards([{**row, "experiment": "main"} for row in RUN]) == []


#: Two rounds: of 100 deliveries 90 are in time, 4 late, 6 lost.
ROUNDS = pd.DataFrame(
    [
        (number, system, measure, values[number])
        for number in (0, 1)
        for system, measure, values in (
            ("pastry", "nodes.live", (50, 40)),
            ("pastry", "lookups.right", (1.0, 0.5)),
            ("pastry", "lookups.hops", (2.0, 3.0)),
            ("scribe", "scribe.publications.expected", (60, 40)),
            ("scribe", "scribe.publications.in_time", (60, 30)),
            ("scribe", "scribe.publications.late", (0, 4)),
            ("scribe", "scribe.publications.lost", (0, 6)),
            ("scribe", "scribe.publications.duplicates", (0, 47)),
            ("scribe", "scribe.rad.median", (1.5, None)),
        )
    ],
    columns=["round", "system", "measure", "value"],
)


def test_a_world_tells_what_became_of_its_deliveries():
    pastry, scribe = world_cards(ROUNDS.pivot(index="round", columns="measure", values="value"))
    assert (pastry.title, pastry.value) == ("Pastry", "75\xa0%")
    assert list(pastry.lines) == [
        ("in the worst round", "50\xa0%"),
        ("hops of a lookup, mean", "2.5"),
        ("live nodes, first round", "50"),
        ("live nodes, last round", "40"),
    ]
    assert (scribe.title, scribe.value, scribe.what) == ("Scribe", "90\xa0%", "deliveries in time")
    assert dict(scribe.lines) == {
        "late": "4\xa0%",
        "lost": "6\xa0%",
        "duplicates per delivery": "0.5",
        "RAD, median over the groups, mean over the rounds": "1.5",
    }


def test_cards_come_before_the_figures():
    run, world = render(RUN, {}, NOTHING).html, render_world(ROUNDS, {}).html
    for page in (run, world):
        assert 0 < page.index('aria-label="Main numbers"') < page.index("<svg")
        assert "<strong>" in page
    assert "cards.html" not in run
    assert 'aria-label="Main numbers' not in render([], {}, NOTHING).html


def test_figures_that_do_not_change_come_last_and_are_folded():
    names = ("nodes.live", "leaf_sets.right", "cells.dead", "cells.delay", "lookups.delivered")
    table = pd.DataFrame(
        [
            (number, "pastry", name, 5.0 if name == "nodes.live" else number + 1.0)
            for number in (0, 1)
            for name in (*names, "lookups.hops", "lookups.lost")
        ],
        columns=["round", "system", "measure", "value"],
    )
    page = render_world(table, {}).html
    assert "<summary>1 more figure: Live nodes</summary>" in page
    headings = re.findall(r'-heading">([^<]*) <small>', page)
    assert headings[0] == "Leaf sets that match the ring"
    assert headings[-1] == "Live nodes"
    assert len(headings) == 7
    assert '<li><a href="#section-1">Nodes and lookups</a> <small>7</small></li>' in page
    assert page.count('<a href="tables/rounds">Table rounds</a>') == 7
    assert page.count('<a href="figures/round-live.png">PNG</a>') == 1
