"""Systems with own rounds on Spark: worlds in tasks, as jobs and after a stop; runs; settings."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from small_network import NETWORK, table
from stopping import Stops

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES, run, run_world

#: The groups of a system.
SMALL = {**NETWORK, "nodes": 50, "groups": 3, "group_size": 25}
LARGER = {**NETWORK, "nodes": 60, "groups": 3, "group_size": 40}
GROUPS = {
    "narada": {**SMALL, "systems": "narada"},
    "nice": {**LARGER, "systems": "nice"},
    "overcast": {**SMALL, "systems": "overcast"},
    "plumtree": {**SMALL, "systems": "plumtree"},
    "splitstream": {**LARGER, "systems": ("scribe", "splitstream")},
    "gossipsub": {**SMALL, "systems": ("scribe", "gossipsub", "bayeux")},
}

#: The world of each system, besides `GROUPS` and `OF_ALL`.
OF_ALL = {
    **{"share": 0.2, "generator": "mass-failure+publications", "publish_source": "any"},
    **{"measures": ("delay", "node_stress", "link_stress"), "link_stress_period": 2},
}
WORLDS = {
    "narada": {"rounds": 12, "event_round": 9, "narada_join_periods": 4},
    "nice": {"rounds": 5, "event_round": 3, "nice_newcomers": 20, "round_seconds": 30.0},
    "overcast": {
        **{"rounds": 3, "event_round": 1, "round_seconds": 6.0},
        **{"overcast_linear": 1, "overcast_lease": 5},
    },
    "plumtree": {"rounds": 3, "event_round": 2},
    "splitstream": {"rounds": 6, "event_round": 2, "splitstream_bound": 18, "lost_after": 2},
    "gossipsub": {
        **{"rounds": 4, "event_round": 2, "lost_after": 1, "round_seconds": 2.0},
        **{"gossipsub_loss": 0.2, "gossipsub_heartbeat_ms": 2000.0},
    },
}

SIZES = {"message_size": "20KB", "uplink": "20Mbit/s", "downlink": "50Mbit/s"}
SEVERAL = SIZES | {
    **{"generator": "mass-failure", "publications": 3, "interval": "30ms", "validation": "2ms"},
    "published_by": "members",
}
#: Publications of all groups in all rounds, some of them together, by sources that live.
SCHEDULE = ["time,group,node,size"] + [
    f"{30_000 * (n // 12) + 7 * (n % 5)}ms,{1 + n % 3},{n},{1 + n % 4}0KB" for n in range(24)
]
SCHEDULED = SEVERAL | {
    **{"publications": None, "interval": "0us", "published_by": "source"},
    "schedule": "schedule.csv",
}

#: How a world is played beside one in one bucket.
WAYS = {
    "tasks": {"buckets": 2, "engine": "tasks"},
    "jobs": {"buckets": 2, "engine": "jobs"},
    "seven": {"buckets": 7, "engine": "jobs"},
    "stopped": {"buckets": 2, "resume": True},
}


class World(NamedTuple):
    """A world: its system, its settings, and the ways in which it is played."""

    system: str
    more: Mapping[str, Any]
    ways: str
    slow: bool = True

    def config(self, folder: Path) -> WorldConfig:
        more = dict(self.more)
        if "schedule" in more:
            more["schedule"] = str(folder / "schedule.csv")
            Path(more["schedule"]).write_text("\n".join(SCHEDULE))
        return WorldConfig(**GROUPS[self.system] | OF_ALL | WORLDS[self.system] | more)


MATCHED = {"splitstream_policy": "spare-capacity"}
CASES = {
    "gossipsub and bayeux": World("gossipsub", {}, "tasks jobs stopped"),
    "narada": World("narada", {}, "seven stopped"),
    "narada, sizes": World("narada", SIZES, "seven stopped"),
    "narada, 30 s": World("narada", {"round_seconds": 30.0}, "seven stopped"),
    "nice": World("nice", {}, "tasks seven stopped"),
    "overcast": World("overcast", {}, "tasks", slow=False),
    "overcast, all ways": World("overcast", {}, "seven stopped"),
    "overcast, sizes": World("overcast", SIZES, "tasks seven stopped"),
    "plumtree": World("plumtree", {}, "jobs seven"),
    "plumtree, sizes": World("plumtree", SIZES, "tasks"),
    "plumtree, several": World("plumtree", SEVERAL, "tasks"),
    "plumtree, schedule": World("plumtree", SCHEDULED, "tasks", slow=False),
    "plumtree, schedule, all ways": World("plumtree", SCHEDULED, "jobs stopped"),
    "splitstream": World("splitstream", {}, "tasks jobs seven stopped"),
    "splitstream, matched": World("splitstream", MATCHED, "tasks jobs seven stopped"),
    "splitstream, schedule": World("splitstream", SCHEDULED, "jobs stopped"),
}


def play(spark, out: Path, config: WorldConfig, told: Stops | None = None, **how) -> None:
    run_world(spark, config, Execution(out=str(out), **how), told or Stops())


def play_with_a_stop(spark, out: Path, config: WorldConfig) -> None:
    """Play a world that is interrupted in the middle, and that continues from there."""
    half = f"round {config.world.rounds // 2}:"
    with pytest.raises(KeyboardInterrupt):
        play(spark, out, config, Stops(half), **WAYS["stopped"])
    told = Stops()
    play(spark, out, config, told, **WAYS["stopped"])
    assert any("continues with round" in line for line in told.lines)


def slow(cases: Mapping[str, Any], marked: Callable[[Any], bool]) -> list[Any]:
    """Return cases as parameters of a test; the marked ones are slow."""
    marks = (pytest.mark.slow, ())
    return [pytest.param(one, id=name, marks=marks[not marked(one)]) for name, one in cases.items()]


@pytest.mark.parametrize("world", slow(CASES, lambda world: world.slow))
def test_a_world_is_the_same_in_tasks_as_jobs_and_after_a_stop(spark, tmp_path, world, monkeypatch):
    config = world.config(tmp_path)
    play(spark, tmp_path / "one", config, buckets=1)
    for way in world.ways.split():
        if way == "stopped":
            monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
            play_with_a_stop(spark, tmp_path / way, config)
        else:
            play(spark, tmp_path / way, config, **WAYS[way])
        is_split = world.system == "splitstream" and "schedule" in world.more
        by_tree = ("rounds_by_part",) if is_split else ()
        for name in ("rounds", "publications", *by_tree):
            one = table(tmp_path / "one", name)
            pd.testing.assert_frame_equal(table(tmp_path / way, name), one)
        if by_tree:
            check_stripes(tmp_path / way)
    assert table(tmp_path / "one", "publications")["in_time"].sum() > 0


def check_stripes(out: Path) -> None:
    """The deliveries of all stripes of a round are those of the round."""
    rows, rounds = table(out, "rounds_by_part"), table(out, "rounds")
    assert rows["part"].nunique() > 3
    for number, hops in rows[rows["measure"] == "hops"].groupby("round"):
        mine = rounds[rounds["round"] == number].set_index("measure")["value"]
        mean = (hops["count"] * hops["mean"]).sum() / hops["count"].sum()
        assert mean == pytest.approx(mine["splitstream.depth.mean"], abs=0.001)
        assert hops["max"].max() == mine["splitstream.depth.max"]
        of = rows[rows["round"] == number].set_index("measure")
        sums = (of["count"] * of["mean"]).groupby("measure").sum()
        # all packets on whole links; a group's RAD is a mean of those of its stripes
        links = sums["link_stress"] / mine["splitstream.link_stress.mean_existing"]
        assert links == pytest.approx(round(links), abs=0.01)
        assert sums["children_entries"] >= 60 * mine["splitstream.children_entries.mean"]
        for ratio in ("rad", "rmd"):
            assert of.loc[ratio, "max"].max() >= mine[f"splitstream.{ratio}.max"]


# --- runs


class Run(NamedTuple):
    """A run: its system, its settings, its engines."""

    system: str
    more: Mapping[str, Any] = {}
    engines: tuple[str, ...] = ("tasks",)
    slow: bool = True
    drawn: int = 0  # the edges of the picture; 0: none is compared


UPLINK = {"message_size": "20KB", "uplink": "20Mbit/s"}
RUNS = {
    "narada": Run("narada", {"narada_periods": 40}),
    # the picture has all members of one group but the top leader
    "nice": Run("nice", engines=("tasks", "jobs"), drawn=39),
    "overcast": Run("overcast", {"overcast_rounds": 60}, ("tasks", "jobs")),
    "plumtree": Run("plumtree", slow=False),
    "plumtree, sizes": Run("plumtree", SIZES),
    "splitstream": Run("splitstream"),
    "splitstream, sizes": Run("splitstream", UPLINK),
}


def rows_of(out: Path, name: str, system: str) -> pd.DataFrame:
    """Return the rows of a system in a table; none where a run of the system has no such table."""
    if not (out / "tables" / name).exists():
        return pd.DataFrame()
    rows = table(out, name)
    return rows[rows["system"] == system]


@pytest.mark.parametrize("case", slow(RUNS, lambda case: case.slow))
def test_a_run_reaches_each_member_once(spark, tmp_path, case):
    config = RunConfig(**GROUPS[case.system], **case.more)
    phases = PHASES[:3] if "message_size" in case.more else PHASES
    metrics = []
    for engine in case.engines:
        out = tmp_path / engine
        execution = Execution(out=str(out), master="local[2]", engine=engine)
        run(spark, config, execution, phases)
        members = table(out, "members")
        sizes = members.groupby("group").size()
        names = "deliveries", "tree_edges", "copies", "system_state"
        deliveries, edges, copies, state = (rows_of(out, name, case.system) for name in names)
        reached = deliveries[["group", "node"]]
        assert not reached.duplicated().any()
        assert len(reached.merge(members[["group", "node"]])) == len(reached)
        firsts = edges if len(edges) else copies[(copies["kind"] == "payload") & copies["first"]]
        if len(edges):
            assert not edges.duplicated(["group", "child"]).any()
        # trees of SplitStream also have nodes that are no members
        for rows in (reached, *[firsts] * (case.system != "splitstream")):
            assert rows.groupby("group").size().between(sizes - 1, sizes).all()
        assert len(state)
        if case.drawn:
            assert len(table(out, "pictures")) == case.drawn
            assert f"picture-{case.system}" in (out / "report.html").read_text("utf-8")
        if phases == PHASES:
            rows = json.loads((out / "metrics.json").read_text("utf-8"))
            metrics.append({row["name"]: row["value"] for row in rows})
    assert all(one == metrics[0] for one in metrics)
    assert all(one[f"{case.system}.reached"] == 1 for one in metrics)


def test_a_run_measures_each_tree(spark, tmp_path):
    """One publication of each group in each stripe: the measures of trees, from other tables."""
    config = RunConfig(**GROUPS["splitstream"] | {"groups": 2}, publications=16, interval="30ms")
    run(spark, config, Execution(out=str(tmp_path), master="local[2]"), PHASES)
    known = table(tmp_path, "by_tree").set_index(["tree", "measure"])
    assert {*known.pop("system")} == {"splitstream"}
    of_base, of = (
        table(tmp_path, "deliveries").query(f"system == '{name}'")
        for name in ("ip_multicast", "splitstream")
    )
    tree = table(tmp_path, "schedule").groupby("group").cumcount()
    assert {*tree} == {*range(16)}
    both = of.merge(of_base, on=["publication", "group", "node"], suffixes=("", "_base"))
    copies = table(tmp_path, "copies").query("system == 'splitstream'")
    copies = copies.assign(tree=tree[copies["publication"]].to_numpy())
    ends = ["delay_ms", "delay_ms_base"]
    for number, rows in both.groupby(tree[both["publication"]].to_numpy()):
        groups = rows.groupby("group")[ends]
        rad, rmd = (sums[ends[0]] / sums[ends[1]] for sums in (groups.mean(), groups.max()))
        mine = copies[copies["tree"] == number]
        sent = mine.groupby("sender").size().reindex(range(60), fill_value=0)
        tables = mine.groupby("sender")["group"].nunique().reindex(range(60), fill_value=0)
        for measure, values in {
            **{"delay_ms": rows["delay_ms"], "hops": rows["hops"], "rad": rad, "rmd": rmd},
            **{"rdp": rows["delay_ms"] / rows["delay_ms_base"]},
            **{"children_entries": sent, "children_tables": tables},
        }.items():
            found = known.loc[number, measure]
            wanted = len(values), values.mean(), values.max()
            assert tuple(found[["count", "mean", "max"]]) == pytest.approx(wanted, abs=0.001)
    packets = table(tmp_path, "link_stress").query("system == 'splitstream'")["packets"].sum()
    on_links = known.xs("link_stress", level="measure")
    assert (on_links["count"] * on_links["mean"]).sum() == pytest.approx(packets, rel=0.001)
    numbers = json.loads((tmp_path / "metrics.json").read_text("utf-8"))
    metrics = {row["name"]: row["value"] for row in numbers}
    means = known.xs("rad", level="measure")["mean"]
    ends = [metrics[f"splitstream.by_tree.rad.{end}"] for end in ("least", "greatest")]
    assert ends == [means.min(), means.max()]


# --- refused settings

#: A config of SplitStream, whose stripes depend on the digits of Pastry.
STRIPES = {"systems": "splitstream", "nodes": 100, "groups": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"transit_rate": "0Mbit/s"}, "transit_rate = '0Mbit/s': must be above 0"),
        ({"plumtree_rules": "babel"}, "plumtree_rules = 'babel': must be one of paper, iroh"),
        (STRIPES | {"splitstream_stripes": 12}, "splitstream_stripes = 12: must be a power of 16"),
    ],
)
def test_impossible_settings_are_refused(given, words):
    for config in (RunConfig, WorldConfig):
        with pytest.raises(InputError) as refused:
            config(**given)
        assert str(refused.value).startswith(words)


@pytest.mark.parametrize(
    ("members", "bound", "words"),
    [
        (5_001, 17, "splitstream_bound = 17: must be 18 or more with more than 5,000 members"),
        (500_001, 24, "systems = 'splitstream': supports groups of 500,000 members"),
        (5_001, 18, None),
        (5_001, 0, None),
        (5_000, 17, None),
    ],
)
def test_tight_bounds_and_large_groups_are_refused(members, bound, words):
    given = {"groups": 1, "group_size": members, "nodes": 1_000_000}
    given |= {"systems": "splitstream", "splitstream_bound": bound}
    if words is None:
        RunConfig(**given)
        return
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert str(refused.value).startswith(words)


def test_a_group_of_a_table_that_is_too_large_is_refused_in_one_line(spark, tmp_path):
    rows = "\n".join(f"1,{node}" for node in range(1_025))
    (tmp_path / "members.csv").write_text(f"group,node\n{rows}\n")
    config = WorldConfig(
        **NETWORK, nodes=1_100, members=str(tmp_path / "members.csv"), systems="narada", rounds=2
    )
    with pytest.raises(InputError, match=r"^systems = 'narada': has 1,025 members in group 1; "):
        play(spark, tmp_path / "out", config, buckets=2)
