"""The page of Scribe, GossipSub and Bayeux under the same events, from tables of worlds."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tools.folders import COUNTS
from tools.peers_living_results import CHURN, FAILURE, FIGURE, PEERS_LIVING, commands


def world(folder: Path, systems: list[str], rounds: int, lost: dict[int, int]) -> None:
    """Scribe loses deliveries of the large one of two groups, GossipSub nothing."""
    rows, publications = [], []
    deadline = FAILURE[1] if rounds == FAILURE[0] else CHURN[1]
    for number in range(rounds):
        rows += [
            (number, "pastry", "nodes.live", 50.0),
            (number, "pastry", "messages.keep-alive", 12_000.0),
            (number, "scribe", "messages.JOIN", 600.0),
            (number, "scribe", "messages.heartbeat", 900.0),
            (number, "scribe", "messages.payload", 900.0),
            (number, "scribe", "link_stress.payload.max", 7.0),
            (number, "scribe", "link_stress.maintenance.max", 60.0),
        ]
        for group, expected in ((1, 100), (2, 20)):
            missing = lost.get(number, 0) if group == 1 else 0
            got = expected - missing
            # a third of the first copies is for members that die later, who are not expected
            came = expected * 3 // 2
            due = expected if number < rounds - deadline else 0
            results = {"scribe": (got, 0, missing, came, 0)}
            if "gossipsub" in systems:
                results["gossipsub"] = expected, 0, 0, came, 4 * came
            if "can" in systems:
                results["can"] = expected, 0, 0, came, came
            publications += [
                (number, system, group, expected, due, *counts)
                for system, counts in results.items()
            ]
        if "gossipsub" in systems:
            rows.append((number, "gossipsub", "gossipsub.control", 12.5))
            # no multicast reaches the largest group in round 2; only half of the members in 4
            ratios = {"rad.median": 1.5, "rad.largest": 2.0 + number, "rdp.mean": 3.0}
            ratios["multicasts.reached"] = 1 - 0.5 * (number == 4)
            rows += [
                (number, "gossipsub", f"gossipsub.{name}", value)
                for name, value in ratios.items()
                if number != 2 or name != "rad.largest"
            ]
    tables = {
        "rounds": pd.DataFrame(rows, columns=["round", "system", "measure", "value"]),
        "publications": pd.DataFrame(publications, columns=["round", "system", "group", *COUNTS]),
    }
    for name, table in tables.items():
        (folder / "tables" / name).mkdir(parents=True)
        table.to_parquet(folder / "tables" / name / "part.parquet")
    resolved = {"nodes": 60, "initial": 50, "groups": 3, "lost_after": deadline}
    manifest = {
        "resolved": resolved,
        "round": {"seconds": 30.0, "has": "30 s: one round of Scribe"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def page_of(out: Path) -> str:
    """The lines of the page; its figure lies in the same folder."""
    PEERS_LIVING.figures(out, out)
    return "\n".join(PEERS_LIVING.parts["worlds"].lines(out))


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of the table by the heads of its columns."""
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def test_a_row_for_each_system_in_each_world_that_is_there(tmp_path: Path) -> None:
    world(
        tmp_path / "quarter-fails-best-effort", ["scribe", "gossipsub", "can"], FAILURE[0], {2: 10}
    )
    world(tmp_path / "lifetime-600-reliable", ["scribe"], CHURN[0], {})
    text = page_of(tmp_path)
    rows = rows_of(text)
    assert [row["system"] for row in rows] == [
        "Scribe, best effort",
        "GossipSub",
        "CAN multicast",
        "Scribe, reliable",
    ]
    looked_at = FAILURE[0] - 1 - FAILURE[1]
    scribe, gossip, can = rows[:3]
    for name in ("control messages per node and second", "link stress of control, maximum"):
        assert can[name] == "not simulated"
    assert can["duplicates per delivery"] == "1"
    # a round of 30 s: 1,500 messages of 50 nodes are one per node and second
    assert scribe["control messages per node and second"] == "1"
    assert "At the start there are 50 nodes, which are members of 3 groups;" in text
    assert scribe["lost, %"] == f"{100 * 10 / looked_at / 120:.2g}"
    assert scribe["link stress of payload, maximum"] == "7"
    assert scribe["link stress of control, maximum"] == "2"
    assert gossip["duplicates per delivery"] == "4"
    assert gossip["control messages per node and second"] == "12.5"
    assert "A *round* of the world takes 30 s, and consists of one round of Scribe." in text
    # rounds 1, 3, 5, 6, 7: not the one that is incomplete
    rounds = [number for number in range(1, looked_at + 1) if number not in (2, 4)]
    largest = f"{2 + sum(rounds) / len(rounds):.3g}"
    drawn = f"{2 + sum([*rounds, 4]) / (len(rounds) + 1):.3g}"
    told = [gossip[f"{name} group"] for name in ("RAD, median", "RAD, largest")]
    assert told == ["1.5", largest]
    assert scribe["RAD, median group"] == "-"
    drawing = (tmp_path / FIGURE).read_text("utf-8")
    assert "quarter-fails, Scribe, best effort: least 91.7 %" in drawing
    assert "quarter-fails, GossipSub: least 100 %" in drawing
    assert f"GossipSub: RAD, largest group, mean of the rounds {drawn}" in drawing


def test_under_churn_the_steady_state_counts(tmp_path: Path) -> None:
    """60 of 100 are lost until round 12, then 10."""
    worst = dict.fromkeys(range(13), 60)
    world(tmp_path / "lifetime-1800-best-effort", ["scribe"], CHURN[0],
          dict.fromkeys(range(CHURN[0]), 10) | worst)  # fmt: skip
    (row,) = rows_of(page_of(tmp_path))
    assert row["rounds"] == f"13 to {CHURN[0] - 1 - CHURN[1]}"
    # 110 of all 120 deliveries; of the two groups 90 and 100 %
    assert row["in time, %"] == "91.666"
    assert row["in time, median group, %"] == "95.000"
    assert row["lost, %"] == "8.3"


@pytest.mark.parametrize("nodes", [100, 100_000])
def test_the_same_events_for_all_systems(nodes: int) -> None:
    """Only the delivery and the systems differ between the worlds of a scenario."""
    words = {name: command.split() for name, command in commands(nodes, 5).items()}
    assert len(words) == 3 * 2
    for scenario in ("quarter-fails", "lifetime-1800", "lifetime-600"):
        pair = words[f"{scenario}-best-effort"], words[f"{scenario}-reliable"]
        differ = [both for both in zip(*pair, strict=True) if len({*both}) > 1]
        assert differ == [
            ("best-effort", "reliable"),
            ("scribe,gossipsub,bayeux,flooding,can", "scribe"),
        ]
