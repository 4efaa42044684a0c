"""A schedule without some groups: the other groups get the same tables, whoever is in those."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from scribe_spark import RunConfig
from scribe_spark.dissemination import disseminate
from scribe_spark.experiments import Simulation
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems import all_systems, is_built_in, plays_schedules

#: The schedule leaves out the first group, one in the middle and the last one.
NODES, GROUPS, SCHEDULED = 60, (1, 2, 3, 5, 7), (2, 5)
GIVEN = {
    "nodes": NODES, "overlay": "perfect", "transit_domains": 2, "transit_size": 2,
    "stubs_per_transit": 2, "stub_size": 3, "source": "direct", "lan_delay_ms": 0.5, "seed": 4,
    "uplink": "10Mbit/s", "downlink": "16Mbit/s", "limit": 64,
    "gossipsub_flood_publish": False, "gossipsub_d": 4, "gossipsub_heartbeats": 3,
}  # fmt: skip
SYSTEMS = [
    system.name for system in all_systems() if is_built_in(system) and plays_schedules(system)
]
VARIANTS = [system.variant for system in all_systems() if system.variant and is_built_in(system)]


def members(group: int) -> list[int]:
    """Return twelve nodes or more, some in several groups."""
    return np.random.default_rng(group).permutation(NODES)[: 12 + group].tolist()


#: The nodes that publish: two of a group, so that some systems have two channels; one is no member.
NO_MEMBER = next(node for node in range(NODES) if node not in members(2))
SOURCES = {2: [members(2)[0], NO_MEMBER], 5: members(5)[:1]}


def tables(spark, folder, joined: tuple[int, ...]) -> dict[str, dict[str, Counter]]:
    """Return the rows of each system and table of a run, without those of unscheduled groups."""
    rows = [f"{group},{node}" for group in joined for node in members(group)]
    (folder / "members.csv").write_text("\n".join(["group,node", *rows]) + "\n")
    sent = [(n * 5, g, node) for g in SCHEDULED for n, node in enumerate(SOURCES[g])]
    lines = [f"{ms},{g},{node},20000" for ms, g, node in sent]
    (folder / "schedule.csv").write_text("\n".join(["time,group,node,size", *lines]) + "\n")
    files = {name: str(folder / f"{name}.csv") for name in ("members", "schedule")}
    given = {"systems": ",".join(SYSTEMS), "variants": ",".join(VARIANTS)}
    found: dict[str, dict[str, Counter]] = {}
    with Simulation(spark, RunConfig(**GIVEN | given | files), engine="tasks") as stages:
        for made in stages.systems:
            by_name = {name: made.handed_over(name) for name in ("copies", "state", "control")}
            by_name |= {"edges": made.edges, "deliveries": made.deliveries}
            found[made.system] = {
                name: counted(Batches.of(table).frame.toPandas())
                for name, table in by_name.items()
                if table is not None
            }
    return found


def counted(table: pd.DataFrame) -> Counter:
    table = table[table["group"].isin(SCHEDULED) | table["group"].isna()].astype(object)
    return Counter(table.where(table.notna(), None).itertuples(False, None))


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """Return a run in which all groups have members, and one in which the scheduled groups have."""
    folder = tmp_path_factory.mktemp("left_out")
    return [tables(spark, folder, joined) for joined in (GROUPS, SCHEDULED)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_members_of_other_groups_change_nothing(runs, system):
    with_them, without = (run[system] for run in runs)
    assert with_them.keys() == without.keys()
    for name in without:
        assert with_them[name] == without[name], name
    got = Counter(row[0] for row in without["deliveries"].elements())
    assert got == {2: 13 + 14, 5: 16}


def test_edges_of_groups_without_a_source_are_left_out(spark):
    """Groups 4 and 8 have sources; those before, between and after them have edges only."""
    config = RunConfig(**GIVEN | {"groups": 1, "uplink": None, "downlink": None})
    edges = [(group, a, b) for group in (3, 4, 6, 8, 9) for a, b in ((group, 20), (20, 30))]
    with Simulation(spark, config) as stages:
        frame = spark.createDataFrame(edges, "group bigint, node bigint, peer bigint")
        sources = spark.createDataFrame([(4, 4), (8, 8)], "group bigint, source bigint")
        spread = disseminate(stages.overlay.ring, stages.underlay, frame, sources)
        found = spread.copies.frame.select("group", "sender", "receiver").collect()
        spread.release()
    wanted = [(4, 4, 20), (4, 20, 30), (8, 8, 20), (8, 20, 30)]
    assert sorted(tuple(row) for row in found) == wanted
