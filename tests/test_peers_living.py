"""The page of Scribe and GossipSub under the same events, from tables of worlds."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tools import peers_living
from tools.peers_living import FAILURE


def world(folder: Path, systems: list[str]) -> None:
    """Scribe loses a tenth of one round's deliveries, GossipSub nothing."""
    rows, publications = [], []
    for number in range(FAILURE[0]):
        lost = 10 if number == 2 else 0
        rows += [
            (number, "pastry", "nodes.live", 50.0),
            (number, "pastry", "messages.keep-alive", 400.0),
            (number, "scribe", "messages.JOIN", 20.0),
            (number, "scribe", "messages.heartbeat", 30.0),
            (number, "scribe", "messages.payload", 900.0),
            (number, "scribe", "link_stress.payload.max", 7.0),
        ]
        publications.append((number, "scribe", 1, 100, 100 - lost, 0, lost, 0))
        if "gossipsub" in systems:
            rows.append((number, "gossipsub", "gossipsub.control", 12.5))
            publications.append((number, "gossipsub", 1, 100, 100, 0, 0, 450))
    tables = {
        "rounds": pd.DataFrame(rows, columns=["round", "system", "measure", "value"]),
        "publications": pd.DataFrame(
            publications, columns=["round", "system", "group", *peers_living.COUNTS]
        ),
    }
    for name, table in tables.items():
        (folder / "tables" / name).mkdir(parents=True)
        table.to_parquet(folder / "tables" / name / "part.parquet")
    resolved = {"nodes": 60, "initial": 50, "groups": 3, "deadline": FAILURE[1]}
    (folder / "manifest.json").write_text(json.dumps({"resolved": resolved}), "utf-8")


def test_a_row_for_each_system_in_each_world_that_is_there(tmp_path: Path) -> None:
    world(tmp_path / "quarter-fails-best-effort", ["scribe", "gossipsub"])
    world(tmp_path / "lifetime-60-reliable", ["scribe"])
    text = peers_living.page(tmp_path, tmp_path / "page.md")
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [row[2] for row in rows[1:]] == ["Scribe, best effort", "GossipSub", "Scribe, reliable"]
    head, looked_at = rows[0], FAILURE[0] - 1 - FAILURE[1]
    scribe, gossip = (dict(zip(head, row, strict=True)) for row in rows[1:3])
    told = [scribe[name] for name in ("nodes", "expected", "control messages", "of Pastry")]
    assert told == ["50", f"{looked_at}00", "1", "8"]
    assert scribe["lost"] == f"{10 / looked_at:.2g} %"
    assert gossip["duplicates a delivery"] == "4.5"
    assert gossip["control messages"] == "12.5"
    drawing = (tmp_path / peers_living.FIGURE).read_text("utf-8")
    assert "quarter-fails, Scribe, best effort: least 90 %" in drawing
    assert "quarter-fails, GossipSub: least 100 %" in drawing


@pytest.mark.parametrize("nodes", [100, 100_000])
def test_the_same_events_for_both_deliveries(nodes: int) -> None:
    """Only what is delivered how differs between the two worlds of a scenario."""
    commands = peers_living.commands(nodes, 5)
    assert len(commands) == 8
    for name, command in commands.items():
        other = commands[name.replace("best-effort", "reliable")]
        differ = [one for one, two in zip(command, other, strict=True) if one != two]
        assert differ in ([], ["best-effort", "scribe,gossipsub"])
