"""The start and the end of worlds: events from files, tables in order; queries, also of runs."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_network import NETWORK

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.experiments import PHASES, run
from scribe_spark.experiments.run_world import run_world
from scribe_spark.runtime import batches
from scribe_spark.worlds.drivers import EventFiles

CONFIG = WorldConfig(
    **NETWORK, nodes=60, groups=4, replicas=1, leaf_set=4, lookups=5, rounds=3,
    generator="mass-failure+publications", measures="delay,link_stress",
)  # fmt: skip

#: The most queries that Spark plans for a world and for a run in tasks, from start to page.
MOST_QUERIES, MOST_OF_A_RUN = 14, 1

ORDERS = {
    "events": ("round", "node"),
    "memberships": ("group", "node"),
    "tree_edges": ("system", "group", "parent", "child"),
    "deliveries": ("system", "group", "node"),
}


def last_query(spark) -> int:
    """Return the number of the last query, which Spark's listener of queries has seen."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    seen = spark._jsparkSession.sharedState().statusStore().executionsList()
    return max((seen.apply(at).executionId() for at in range(seen.length())), default=-1)


@pytest.fixture(scope="module")
def played(spark, tmp_path_factory) -> tuple[Path, int]:
    """Return the folder of a world with two buckets in tasks, and its number of queries."""
    out, before = tmp_path_factory.mktemp("ends") / "out", last_query(spark)
    run_world(spark, CONFIG, Execution(out=str(out), buckets=2, engine="tasks"))
    return out, last_query(spark) - before


def test_a_world_plans_few_queries(played):
    _, queries = played
    assert 0 < queries <= MOST_QUERIES


def test_a_run_plans_few_queries(spark, tmp_path):
    config, before = RunConfig(**NETWORK, nodes=60, groups=4), last_query(spark)
    run(spark, config, Execution(out=str(tmp_path / "out"), engine="tasks")).close()
    assert 0 < last_query(spark) - before <= MOST_OF_A_RUN


def test_tables_of_a_run_are_measured_alike_in_this_process_in_tasks_and_by_queries(
    spark, tmp_path, monkeypatch
):
    given = {"nodes": 40, "groups": 2, "overlay": "perfect", "systems": "scribe,gossipsub"}
    config, found = RunConfig(**NETWORK, **given), []
    for number, (many, some) in enumerate([(2**22, 2**18), (2**22, 1), (1, 2**18)]):
        monkeypatch.setattr(batches, "_MANY_ROWS", many)
        monkeypatch.setattr(batches, "_SOME_ROWS", some)
        made, before = Execution(out=str(tmp_path / str(number)), engine="tasks"), last_query(spark)
        with run(spark, config, made, PHASES[:-1]) as done:
            tables = [entry["tables"].items() for entry in done.manifest()["phases"]]
            named = [(name, {**of, "files": 0}) for entries in tables for name, of in entries]
            found.append((named, done.metrics(), last_query(spark) - before))
    assert found[0][:2] == found[1][:2] == found[2][:2]
    assert len(found[0][0]) > 10
    queries = [number for *_, number in found]
    assert queries[0] == queries[1]
    assert queries[1] + 5 <= queries[2]


@pytest.mark.parametrize("table", ORDERS)
def test_rows_of_a_file_are_in_order(played, table):
    files = sorted((played[0] / "tables" / table).glob("*.parquet"))
    rows = [pq.read_table(file).select(ORDERS[table]).to_pylist() for file in files]
    assert sum(map(len, rows)) > 20
    for of in rows:
        keys = [tuple(row.values()) for row in of]
        assert keys == sorted(keys)


def test_tasks_read_the_events_of_their_rounds_from_files(played):
    """A world whose events are in a DataFrame has the same rounds; they are in no file."""
    out, _ = played
    files = EventFiles(tuple(map(str, (out / "tables" / "events").glob("*.parquet"))))
    every = pq.read_table(out / "tables" / "events").to_pylist()
    for rounds in (range(1), range(1, 3), range(3)):
        wanted = [row for row in every if row["round"] in rounds]
        assert files.read(rounds).to_pylist() == wanted != []
