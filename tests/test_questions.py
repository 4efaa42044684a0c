"""The configs of docs/questions.md, and the page's tables."""

import json

import pandas as pd
import pytest

from scribe_spark.config import RunConfig, read_toml
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.systems.registry import systems_of_run
from tools import questions


@pytest.mark.parametrize("name", questions.COLUMNS)
def test_a_config_asks_one_question_and_has_its_answers(name):
    path = questions.ROOT / "data" / f"{name}.toml"
    config = RunConfig.of(read_toml(str(path)))
    systems = systems_of_run(config.trees.variants, config.trees.systems)
    known = metric_definitions(systems, config)
    for metric, _ in questions.COLUMNS[name].values():
        assert f"scribe.{metric}" in known
    asked = questions.question_of(path)
    assert asked[0].isupper()
    assert asked.count("?") == 1


def test_answers_are_shares_times_and_never(tmp_path):
    values = {"within_1s.weight": 0.994, "quorum.median": 1234.4, "quorum.p99": None,
              "replies.median": 7.0, "replies.p99": 9.0, "replies.never": 2}  # fmt: skip
    rows = [{"name": f"scribe.{name}", "value": value} for name, value in values.items()]
    (tmp_path / "stake_quorum").mkdir()
    (tmp_path / "stake_quorum" / "metrics.json").write_text(json.dumps(rows))
    *_, row, _, read = questions.answers("stake_quorum", tmp_path)
    assert read == questions.READ["stake_quorum"]
    assert row == "| Scribe | 99.4 % | 1,234 ms | never | 7 ms | 9 ms | 2 |"


#: What a tree does not have.
TREE = "scribeduplicates.mean"


def test_what_systems_deliver_by_what_is_withheld(tmp_path):
    for part, name in enumerate(questions.KINDS.values()):
        values = {"reached": 1 - part / 2, "latency.p50": 100.4 * (part + 1), "latency.p99": None}
        values["duplicates.mean"] = 1.5
        rows = [
            {"name": f"{system}.{metric}", "value": None if system + metric == TREE else value}
            for system in (["scribe"] * (part == 0) + ["plumtree"])
            for metric, value in values.items()
        ]
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps(rows))
    *_, payload, everything, scribe, _, read = questions.withheld(tmp_path)
    assert read == questions.READ["withhold"]
    assert scribe == "| Scribe | `payload` | 100.0 % | 100 ms | never | 0 |"
    assert payload == "| Plumtree | `payload` | 100.0 % | 100 ms | never | 1.50 |"
    assert everything == "| Plumtree | `all` | 50.0 % | 201 ms | never | 1.50 |"


def test_what_worlds_deliver_counts_what_is_due(tmp_path):
    for name in questions.DELIVERIES.values():
        # publications of round 0 do not count, nor those that are not due
        counts = {"round": [0, 1, 2, 3], "group": 1, "expected": 10, "due": [10, 10, 10, 0],
                  "in_time": [0, 4, 5, 9], "late": [0, 2, 3, 0], "lost": [10, 4, 2, 0],
                  "first_copies": 9, "duplicates": 0, "system": "scribe"}  # fmt: skip
        (tmp_path / name / "tables" / "publications").mkdir(parents=True)
        pd.DataFrame(counts).to_parquet(tmp_path / name / "tables" / "publications" / "a.parquet")
    *_, reliable, end = questions.delivered(tmp_path)
    assert reliable == "| `reliable` | 45.0 % | 25.0 % | 30.0 % |"
    assert end == ""
