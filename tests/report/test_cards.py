"""The cards at the top of the pages of runs and worlds."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from scribe_spark.report import world
from scribe_spark.report.cards import run_cards, verdict, world_cards
from scribe_spark.report.run import render
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.world import render_world, world_notes

from .sample import NOTHING


def metrics(values: dict[str, float | None], **more: str) -> list[dict[str, object]]:
    """Rows of ``metrics.json`` by name."""
    return [
        {"name": name, "value": value, "unit": "", "figure": None, "paper": None, **more}
        for name, value in values.items()
    ]


def latencies(**values: float) -> list[dict[str, object]]:
    return metrics({f"{system}.latency.p99": value for system, value in values.items()})


RUN = metrics(
    {
        "gossipsub.rad.median": 1.0101,
        "gossipsub.duplicates.mean": 6.818,
        "scribe.rad.median": 1.4581,
        "scribe.link_stress.max": 2854,
        "scribe.duplicates.mean": None,
        "ip_multicast.messages": 759_406,
        "pastry.hops.mean": 3.9,
    }
)


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


def test_a_card_has_latency_first_and_deadlines_and_quorums():
    values = {"within_800ms": 0.994, "within_800ms.weight": 0.5, "within_800ms.min": 0.1}
    values |= {"quorum.median": None, "latency.p99": 812.4}
    rows = metrics({f"scribe.{name}": value for name, value in values.items()})
    (card,) = run_cards(rows)
    assert (card.value, card.what) == ("812 ms", "latency, 99 % of deliveries")
    assert dict(card.lines) == {
        "of the members within 800ms": "99.4\xa0%",
        "of the weight within 800ms": "50\xa0%",
        "until the quorum, median": "never",
    }
    table = by_round(ROUNDS).assign(**{"scribe.within_1s": [1.0, 0.5, 0.75, 0.75]})
    _, scribe, _ = world_cards(table)
    assert dict(scribe.lines)["of the members within 1s"] == "75\xa0%"


TWO = {"scribe": 800.0, "gossipsub": 200.0}
FAST = "99\xa0% of the deliveries arrive within 200 ms with "
SLOW = ", the fastest, and within 800 ms with Scribe, the slowest of the "


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (TWO | {"ip_multicast": 100.0}, f"{FAST}GossipSub{SLOW}2 systems beside IP multicast."),
        ({"gossipsub": 200.0, "ip_multicast": 100.0}, ""),
        (
            TWO | {"bayeux": 200.0, "flooding": 200.4},
            f"{FAST}Bayeux, GossipSub and Flooding over Pastry{SLOW}4 systems.",
        ),
        ({"bayeux": 200.0, "flooding": 200.4}, f"{FAST}each of the 2 systems."),
        # no baseline is the fastest or the slowest
        *(
            (TWO | dict.fromkeys(("ip_multicast", "naive_unicast"), unicast),
             f"{FAST}GossipSub{SLOW}2 systems beside IP multicast and Naive unicast.")
            for unicast in (1.0, 900.0)
        ),
    ],
)  # fmt: skip
def test_a_sentence_compares_the_latencies_of_several_systems(values, told):
    assert verdict(run_cards(latencies(**values))) == told


def test_bars_compare_the_latencies_of_several_systems():
    cards = run_cards(latencies(**TWO, ip_multicast=100.0))
    assert [card.share for card in cards] == [100, 25, 12.5]
    assert {card.share for card in run_cards(RUN)} == {None}  # other measures


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
    rows = metrics({"scribe.reached": 1.0, "gossipsub.reached": reached, "bayeux.reached": 1.0})
    rows += latencies(scribe=800.0, gossipsub=200.0, bayeux=900.0)
    cards = run_cards(rows)
    assert [card.note for card in cards if card.title == "GossipSub"] == [note]
    assert not any(card.note for card in cards if card.title != "GossipSub")
    told = verdict(cards)
    fastest = "Scribe" if note else "GossipSub"
    assert f"{fastest}, the fastest" in told
    assert told.endswith(f" GossipSub {note}." if note else "of the 3 systems.")
    if note:
        alone = [row for row in rows if row["name"].startswith("gossipsub")]
        assert verdict(run_cards(alone)) == f"GossipSub {note}."


def test_a_world_is_not_whole_by_rounding():
    rounds = ROUNDS.pivot(index="round", columns="measure", values="value")
    rounds = rounds.assign(**{"lookups.right": 0.99996, "scribe.publications.in_time": 49.999})
    pastry, scribe, _ = world_cards(rounds)
    assert (pastry.value, scribe.value) == ("99.996\xa0%", "99.998\xa0%")


def test_the_sharing_of_links_stands_beside_latency():
    links = "128KB, interleaved uplinks, shared links"
    (card,) = run_cards(metrics({"scribe.latency.p99": 812.4}, clock=f"time: {links}"))
    assert (card.value, card.what) == ("812 ms", f"latency, 99 % of deliveries: {links}")


def test_several_runs_together_have_no_cards():
    assert run_cards([{**row, "experiment": "main"} for row in RUN]) == []


#: Four rounds: of 100 deliveries that are due 90 are in time, 4 late, 6 lost; the publications of
#: rounds 2 and 3 are not due, and 5 and 0 of their deliveries are open.
ROUNDS = pd.DataFrame(
    [
        (number, system, measure, values[number])
        for number in range(4)
        for system, measure, values in (
            ("pastry", "nodes.live", (50, 40, 40, 40)),
            ("pastry", "lookups.right", (1.0, 0.5, 1.0, 0.5)),
            ("pastry", "lookups.hops", (2.0, 3.0, 2.0, 3.0)),
            ("scribe", "scribe.publications.expected", (60, 40, 40, 40)),
            ("scribe", "scribe.publications.due", (60, 40, 0, 0)),
            ("scribe", "scribe.publications.in_time", (60, 30, 35, 40)),
            ("scribe", "scribe.publications.late", (0, 4, 0, 0)),
            ("scribe", "scribe.publications.lost", (0, 6, None, None)),
            ("scribe", "scribe.publications.open", (0, 0, 5, 0)),
            ("scribe", "scribe.publications.first_copies", (90, 30, 35, 45)),
            ("scribe", "scribe.publications.duplicates", (0, 50, 20, 30)),
            ("scribe", "scribe.multicasts", (1, 1, 1, 1)),
            ("scribe", "scribe.multicasts.reached", (1.0, 0.75, 1.0, 1.0)),
            ("scribe", "scribe.rad.median", (1.5, 1.1, 1.2, None)),
            ("scribe", "scribe.time_to_99.median", (7.0, None, 8.0, 9.0)),
            ("scribe", "link_stress.payload.max", (None, 7.0, None, 5.0)),
            ("scribe", "scribe.control", (2.0, 4.0, 2.0, 4.0)),
            ("can", "can.publications.expected", (60, 40, 40, 40)),
            ("can", "can.publications.due", (60, 40, 0, 0)),
            ("can", "can.publications.in_time", (60, 40, 40, 40)),
            ("can", "can.publications.late", (0, 0, 0, 0)),
            ("can", "can.publications.lost", (0, 0, None, None)),
            ("can", "can.publications.open", (0, 0, 0, 0)),
        )
        if values[number] is not None
    ],
    columns=["round", "system", "measure", "value"],
)


def by_round(rounds: pd.DataFrame) -> pd.DataFrame:
    return rounds.pivot(index="round", columns="measure", values="value")


def test_a_world_tells_what_became_of_its_deliveries():
    pastry, scribe, can = world_cards(by_round(ROUNDS))
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
        "open deliveries": "5",
        "duplicates per delivery": "0.5",  # 100 of 200 first copies, also at members that died
        # of rounds 0 and 3: round 1 does not reach all, round 2 leaves out expected members
        "RAD, median over the groups, mean over the rounds": "1.5",
        "payloads, busiest link": "7",  # in the rounds in which it is measured
        "control messages per node and second": "3",
    }
    assert (can.value, can.what) == ("100\xa0%", "deliveries in time")
    assert dict(can.lines)["control messages per node and second"] == "not simulated"


def test_a_world_whose_publications_are_not_due_has_no_shares():
    scribe = by_round(ROUNDS[ROUNDS["round"] > 1]).assign(**{"scribe.publications.lost": None})
    _, card, _ = world_cards(scribe)
    assert (card.value, card.what, card.number) == ("none is due", "deliveries in time", None)
    lines = dict(card.lines)
    assert lines["open deliveries"] == "5"
    assert not {"late", "lost"} & lines.keys()
    # 15 of 80 first copies are repeated; round 2 is incomplete, round 3 has no RAD
    assert lines["duplicates per delivery"] == "0.625"
    assert lines["RAD, median over the groups, mean over the rounds"] == (
        "no round reaches all members"
    )


def test_the_page_names_what_its_numbers_do_not_cover():
    assert world_notes(by_round(ROUNDS)) == [
        "The publications of rounds 2, 3 are not due: their deadline is after the last round. "
        "Deliveries that are missing are open, not lost (Scribe: 5). Shares of deliveries cover "
        "only the publications that are due.",
        "Not all members are reached in the round of the publication: Scribe in rounds 1, 2 "
        "(75\xa0% in the worst one). Delays, RAD, RMD, RDP and packets of these rounds cover the "
        "reached members only, so they seem better than they are: their points are hollow, and "
        "means leave them out.",
        "Control messages are not simulated for CAN multicast: joins and repairs take no messages "
        "and no time, but nodes must detect a failure first.",
    ]
    complete = ROUNDS[(ROUNDS["round"] == 0) & (ROUNDS["system"] != "can")]
    assert world_notes(by_round(complete)) == []
    page = render_world(ROUNDS, {}).html
    assert all(note in page for note in world_notes(by_round(ROUNDS)))
    assert "CAN multicast: not simulated." in page  # in the words of the figure of control
    # in two rounds: of each system, and once more among Scribe's trees
    assert page.count('<td class="number">not due</td>') == 2 * 3


def test_lines_break_and_points_are_hollow_where_a_round_is_incomplete(monkeypatch):
    drawn = {}

    def draw(panel):
        drawn[panel.name] = panel
        return PageFigure(panel.name, panel.title, "<svg/>")

    monkeypatch.setattr(world, "draw", draw)
    render_world(ROUNDS, {})

    def scribe(name):
        panel = drawn[f"round-systems-{name}"]
        (line,) = (line for line in panel.lines if line.label == "Scribe")
        axes = SimpleNamespace(lines=[SimpleNamespace(set_markevery=id) for _ in panel.lines])
        axes.scatter = lambda x, *_, edgecolors, **look: found.setdefault(edgecolors, x.tolist())
        found = {}
        panel.marks(axes)
        return line, found[line.look["color"]]

    line, hollow = scribe("time-to-99-median")
    assert line.points[0].tolist() == [0, 1, 2, 3]
    assert np.isnan(line.points[1]).tolist() == [False, True, False, False]
    assert hollow == [2]  # no point in round 1
    assert scribe("rad-median")[1] == [1, 2]
    assert scribe("control")[1] == []


def test_cards_come_before_the_figures():
    notes = [*metrics({"gossipsub.reached": 0.5}), *latencies(gossipsub=200.0)]
    page = render([*RUN, *notes], {}, NOTHING).html
    assert 0 < page.index('aria-label="Main numbers"') < page.index("<svg")
    assert 'GossipSub <span class="off">reaches 50\xa0% of the members</span> <strong>200' in page
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
