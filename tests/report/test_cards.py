"""The cards at the top of the pages of runs and worlds."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from scribe_spark.report import world
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.tables import run_cards, verdict, world_cards
from scribe_spark.report.world import render_world, world_notes
from scribe_spark.worlds.summary import system_of


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


#: Four rounds: of 100 deliveries that are due 90 are in time, 4 late, 6 lost; the publications of
#: rounds 2 and 3 are not due, and 5 and 0 of their deliveries are open.
ROUNDS = """
nodes.live 50 40 40 40
lookups.right 1 0.5 1 0.5
lookups.hops 2 3 2 3
scribe.publications.expected 60 40 40 40
scribe.publications.due 60 40 0 0
scribe.publications.in_time 60 30 35 40
scribe.publications.late 0 4 0 0
scribe.publications.lost 0 6 - -
scribe.publications.open 0 0 5 0
scribe.publications.first_copies 90 30 35 45
scribe.publications.duplicates 0 50 20 30
scribe.multicasts 1 1 1 1
scribe.multicasts.reached 1 0.75 1 1
scribe.rad.median 1.5 1.1 1.2 -
scribe.time_to_99.median 7 - 8 9
link_stress.payload.max - 7 - 5
scribe.control 2 4 2 4
can.publications.expected 60 40 40 40
can.publications.due 60 40 0 0
can.publications.in_time 60 40 40 40
can.publications.late 0 0 0 0
can.publications.lost 0 0 - -
can.publications.open 0 0 0 0
"""
ROUNDS = pd.DataFrame(
    [
        (number, system_of(name), name, float(value))
        for name, *values in map(str.split, ROUNDS.strip().splitlines())
        for number, value in enumerate(values)
        if value != "-"
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
