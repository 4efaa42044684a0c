"""Every measure of all three systems, case by case, against the oracle."""

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

import pyarrow as pa
import pytest
import worlds
from oracle import measures
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.experiments.stages import SavedTables
from scribe_spark.measures.delay import DELAY, compare_with_base, group_delay, group_penalties
from scribe_spark.measures.distributions import read_histograms
from scribe_spark.measures.joins_and_failures import join_stress
from scribe_spark.measures.latency import LATENCY_COLUMNS, collect_latencies
from scribe_spark.measures.measure import Found, RunTables, Size
from scribe_spark.measures.metrics import measure_distributions, metric_rows
from scribe_spark.measures.overlay import rank_groups
from scribe_spark.measures.stress import count_stress, link_stress, node_stress
from scribe_spark.multicast import Multicast
from scribe_spark.runtime import blocks
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import systems_of_run
from scribe_spark.systems.scribe import trees as scribe_trees

SYSTEMS = ["scribe", "ip_multicast", "naive_unicast"]


@dataclass(frozen=True)
class Expected:
    """What the oracle says of one case; the root sends."""

    one: worlds.World

    @cached_property
    def naive_edges(self) -> set[measures.Edge]:
        members = self.one.case.members
        return {
            edge
            for group, root in self.one.roots.items()
            for edge in measures.unicast_edges(group, root, members[group])
        }

    @cached_property
    def links(self) -> dict[str, dict[measures.StressLink, int]]:
        one, router, routes = self.one, self.one.case.router, self.one.routes
        members = one.case.members
        return {
            "scribe": measures.link_stress(one.grown.edges(), router, routes),
            "ip_multicast": measures.ip_link_stress(one.roots, members, router, routes),
            "naive_unicast": measures.link_stress(self.naive_edges, router, routes),
        }

    @cached_property
    def nodes(self) -> dict[str, dict[int, tuple[int, int]]]:
        nodes = self.one.case.ids
        return {
            "scribe": measures.node_stress(nodes, self.one.grown.edges()),
            "ip_multicast": measures.node_stress(nodes, set()),
            "naive_unicast": measures.node_stress(nodes, self.naive_edges),
        }

    @cached_property
    def delays(self) -> dict[int, tuple[dict, dict]]:
        """group -> deliveries by Scribe and by IP."""
        one = self.one
        return {
            group: (
                one.grown.multicast(group),
                measures.unicast_deliveries(one.overlay, root, one.case.members[group]),
            )
            for group, root in one.roots.items()
        }

    @property
    def size(self) -> Size:
        case = self.one.case
        return Size(len(case.ids), len(case.routers), len(case.links))


@pytest.fixture(scope="module")
def expected() -> list[Expected]:
    assert len(worlds.worlds()) >= 200
    return [Expected(one) for one in worlds.worlds()]


@dataclass(frozen=True)
class Tables:
    """What a run's measures phase makes, all cases in one."""

    edges: object
    deliveries: object
    nodes: object
    links: object
    delay: object


@pytest.fixture(scope="module")
def tables(spark):
    groups, members, underlay = (
        worlds.groups(spark), worlds.members(spark), worlds.underlay(spark),
    )  # fmt: skip
    groups = groups.withColumns({"source": groups.root, "source_router": groups.root_router})
    ours = Multicast(scribe_trees.SYSTEM, worlds.edges(spark), worlds.deliveries(spark, "root"))
    sources = groups.select("group", "source", "source_router")
    routes = members.join(sources, "group").where("node != source")
    names = {"node": "child", "router": "child_router"}
    names |= {"source": "parent", "source_router": "parent_router"}
    ends = routes.withColumnsRenamed(names)
    star = underlay.delay(ends, "parent_router", "child_router").persist()
    hop = F.lit(1).alias("hops")
    heard = star.select("group", F.col("child").alias("node"), hop, "delay_us")
    systems = [ours, Multicast("ip_multicast", star, heard, merged=True)]
    systems.append(Multicast("naive_unicast", star, heard))
    ends = ["group", "parent", "child", "parent_router", "child_router"]
    edges = [
        s.tree_edges.select(F.lit(s.system).alias("system"), *ends, F.lit(s.merged).alias("merged"))
        for s in systems
    ]
    in_ms = (F.col("delay_us") / 1000.0).alias("delay_ms")
    delivered = [
        Batches.of(s.deliveries).frame.select(
            F.lit(s.system).alias("system"), "group", "node", "hops", in_ms
        )
        for s in systems
    ]
    edges = blocks.union_tables(edges).persist()
    deliveries = blocks.union_tables(delivered).persist()
    # what a node sends to a group is counted by several tasks
    apart = edges.repartition(5, "child")
    counted = count_stress(apart, underlay, 3, worlds.nodes(spark), SYSTEMS).frame.persist()
    made = Tables(
        edges,
        deliveries,
        node_stress(Batches.of(counted)).frame.persist(),
        link_stress(Batches.of(counted)).frame.persist(),
        spark.createDataFrame(delays_of_groups(deliveries, groups, 3)).persist(),
    )
    yield made
    for table in (edges, deliveries, counted, made.nodes, made.links, made.delay, star):
        table.unpersist()


def delays_of_groups(deliveries, groups, buckets: int, partial: tuple[str, ...] = ()) -> pa.Table:
    """`schemas.GROUP_DELAY` of deliveries; the systems of `partial` do not reach all members."""
    rows, systems = Batches.of(deliveries, LATENCY_COLUMNS), [*SYSTEMS, *partial]
    found = collect_latencies(rows, systems, buckets=buckets)
    of_members, _ = compare_with_base(deliveries, partial, buckets, with_ratios=False)
    return group_delay(found, groups.select("group", "size").toArrow(), of_members)


def by_system(rows: dict[int, list[tuple]], seed: int, system: str) -> list[tuple]:
    return [row[1:] for row in rows[seed] if row[0] == system]


def test_node_stress_equals_the_oracle(tables, expected):
    assert [f.name for f in tables.nodes.schema] == [f.name for f in schemas.NODE_STRESS]
    found = worlds.by_seed(map(tuple, tables.nodes.collect()), 1)
    for one in expected:
        for system in SYSTEMS:
            stress = {node: held for node, *held in by_system(found, one.one.case.seed, system)}
            assert stress == {node: list(held) for node, held in one.nodes[system].items()}


def test_link_stress_equals_the_oracle(tables, expected):
    assert [f.name for f in tables.links.schema] == [f.name for f in schemas.LINK_STRESS]
    found = worlds.by_seed(map(tuple, tables.links.collect()), 2, 3)
    total = 0
    for one in expected:
        for system in SYSTEMS:
            rows = by_system(found, one.one.case.seed, system)
            stress = {tuple(link): packets for *link, packets in rows}
            assert len(stress) == len(rows)  # a link is there once
            assert stress == one.links[system], (one.one.case.seed, system)
            total += len(rows)
    assert total > 10_000


def test_rad_and_rmd_equal_the_oracle(tables, expected):
    assert [f.name for f in tables.delay.schema] == [f.name for f in schemas.GROUP_DELAY]
    found = worlds.by_seed(map(tuple, tables.delay.collect()), 1)
    none = 0
    for one in expected:
        mine = {g: row for g, *row in by_system(found, one.one.case.seed, "scribe")}
        for group, (ours, ip) in one.delays.items():
            if not ip:
                none += 1
                assert group not in mine
                continue
            size, rad, rmd = mine.pop(group)
            assert size == len(one.one.case.members[group])
            assert rad == pytest.approx(measures.rad(ours, ip), rel=1e-12)
            assert rmd == pytest.approx(measures.rmd(ours, ip), rel=1e-12)
        assert mine == {}
        for system in SYSTEMS[1:]:
            rows = by_system(found, one.one.case.seed, system)
            assert all(row[2:] == (1.0, 1.0) for row in rows)
    assert none > 20  # groups of the root alone


def penalties(expected: list[Expected]) -> list[float]:
    """RDP of all members of the cases' first groups."""
    first = [one.delays[1] for one in expected if one.delays]
    return [value for ours, ip in first for value in measures.rdp(ours, ip).values()]


def check_rdp(found: dict[str, float], values: list[float]) -> None:
    assert found["rdp.mean"] == pytest.approx(fmean(values), abs=1e-9)
    assert found["rdp.median"] == pytest.approx(median(values), abs=1e-9)
    for name, bound in (("below_1", 1), ("below_2_25", 2.25), ("below_4", 4)):
        share = sum(value < bound for value in values) / len(values)
        assert found[f"rdp.{name}"] == pytest.approx(share, abs=1e-12), name


def test_rdp_of_the_first_groups_of_all_cases_equals_the_oracle(tables, expected):
    """Nodes differ between cases, so the groups of rank 1 of all of them make one large group."""
    group = F.col("group")
    first = tables.deliveries.withColumn("group", F.when(group % worlds.STRIDE == 1, 1))
    values = penalties(expected)
    assert len(values) > 1000
    found = group_penalties(first, 1, ["scribe"])
    assert set(found) == {"scribe"}
    check_rdp(found["scribe"], values)


@pytest.mark.parametrize(("buckets", "scheduled"), [(1, False), (2, True)])
def test_delays_are_compared_for_the_members_that_a_system_reaches(spark, buckets, scheduled):
    """Bayeux reaches two of four members: (20 + 60) / (10 + 30), not 40 / mean(10, 20, 30, 40)."""
    by_ip = {1: 10.0, 2: 20.0, 3: 30.0, 4: 40.0}
    delays = {
        "ip_multicast": by_ip,
        "scribe": {node: 3 * delay for node, delay in by_ip.items()},
        "bayeux": {1: 20.0, 3: 60.0},
    }
    rows = [(system, 1, node, 1, delay) for system, of in delays.items()
            for node, delay in of.items()]  # fmt: skip
    rows += [("ip_multicast", 2, 9, 1, 5.0), ("scribe", 2, 9, 1, 10.0)]  # Bayeux reaches nobody
    table = spark.createDataFrame(rows, schemas.DELIVERIES)
    if scheduled:
        table = table.withColumn("publication", F.lit(0).cast("bigint"))
    sizes = spark.createDataFrame([(1, 5), (2, 2)], "group bigint, size bigint")
    made = delays_of_groups(table, sizes, buckets, ("bayeux",)).to_pylist()
    assert {(row["system"], row["group"]): tuple(row.values())[2:] for row in made} == {
        ("ip_multicast", 1): (5, 1, 1), ("scribe", 1): (5, 3, 3), ("bayeux", 1): (5, 2, 2),
        ("ip_multicast", 2): (2, 1, 1), ("scribe", 2): (2, 2, 2),
    }  # fmt: skip
    found = group_penalties(table, 1, ["scribe", "bayeux"], buckets)
    assert {system: tuple(of.values())[:3] for system, of in found.items()} == {
        "scribe": (3, 3, 3), "bayeux": (2, 2, 2)
    }  # fmt: skip


# --- distributions and numbers --------------------------------------------------------------------


def run_tables(**tables) -> RunTables:
    """What a run of the three systems has saved."""
    saved = SavedTables()
    saved.update(tables)
    return RunTables(saved, systems_of_run(["plain"]), nodes=1, b=4)


def values_of(found: Found) -> dict[str, float | None]:
    """Every metric by name."""
    rows = metric_rows(found, systems_of_run(["plain"]), {}, {})
    values = {row["name"]: row["value"] for row in rows}
    assert len(values) == len(rows)
    return values


def test_distributions_of_groups_and_delays(tables, spark, expected):
    run = run_tables(
        groups=worlds.groups(spark),
        deliveries=tables.deliveries,
        group_delay=tables.delay,
        node_stress=tables.nodes,
        link_stress=tables.links,
    )
    spread = measure_distributions(run, {})
    assert list(spread.columns) == ["figure", "system", "measure", "value", "count"]
    assert set(spread["figure"]) == set("6789") | {"10", "III"}
    sizes = spread[spread["figure"] == "6"]
    largest_first = sorted(
        (len(members) for one in expected for members in one.one.case.members.values()),
        reverse=True,
    )
    assert sizes["value"].tolist() == list(range(1, len(largest_first) + 1))
    assert sizes["count"].tolist() == largest_first
    found = values_of(Found(Size(9, 1, 0), 4, read_histograms(spread)))
    pairs = [pair for one in expected for pair in one.delays.values() if pair[1]]
    for name, measure in (("rad", measures.rad), ("rmd", measures.rmd)):
        values = [measure(*pair) for pair in pairs]
        mine = spread[(spread["measure"] == name)]
        assert set(mine["system"]) == {"scribe"}
        assert mine["count"].sum() == len(values)
        assert found[f"scribe.{name}.median"] == pytest.approx(median(values))
        assert found[f"scribe.{name}.max"] == pytest.approx(max(values))
    depths = [hops for ours, _ in pairs for hops, _ in ours.values()]
    assert found["scribe.depth.mean"] == pytest.approx(fmean(depths))
    assert found["scribe.depth.max"] == max(depths)
    assert found["groups.size.sum"] == sum(largest_first)
    ends = found["groups.size.max"], found["groups.size.min"]
    assert ends == (largest_first[0], largest_first[-1])


def test_stress_of_joining_is_the_trees_and_the_added_joins(tables, spark, expected):
    """Every tree edge of some groups as a JOIN sent again: their links carry twice the packets."""
    again = [
        ("scribe_bottleneck", *edge, 1)
        for edge in worlds.edges(spark)
        .select("group", "parent", "child", "parent_router", "child_router")
        .where("group % 2 = 0")
        .collect()
    ]
    extra = spark.createDataFrame(again, schemas.EXTRA_JOINS)
    after = {"scribe_bottleneck": "scribe"}
    found = told(join_stress(extra, tables.links, worlds.underlay(spark), after))
    half = tables.edges.where("system = 'scribe' AND group % 2 = 0")
    added = told(link_stress(count_stress(half, worlds.underlay(spark), 2)).frame)
    base = told(tables.links.where("system = 'scribe'"))
    assert added
    assert found == {link: base[link] + added.get(link, 0) for link in base}


def told(links) -> dict[tuple, int]:
    rows = links.select("kind", "src", "dst", "packets").collect()
    return {tuple(row[:3]): row[3] for row in rows}


def test_a_rank_is_not_a_groups_number(spark):
    """Of a user's members: the largest group has rank 1, of equal ones that of the least number."""
    groups = spark.createDataFrame(
        [(7, 5), (900, 5), (40, 2), (-3, 1)], "group bigint, size bigint"
    )
    heard = [("ip_multicast", group, node, 1, 10.0) for group in (7, 900, 40) for node in (1, 2)]
    heard += [("scribe", 7, 1, 1, 20.0), ("scribe", 7, 2, 1, 40.0), ("scribe", 900, 1, 1, 500.0)]
    run = run_tables(
        groups=groups,
        deliveries=spark.createDataFrame(heard, schemas.DELIVERIES),
        group_delay=spark.createDataFrame([], schemas.GROUP_DELAY),
        node_stress=spark.createDataFrame([], schemas.NODE_STRESS),
        link_stress=spark.createDataFrame([], schemas.LINK_STRESS),
    )
    assert rank_groups(groups.toArrow())["group"].tolist() == [7, 900, 40, -3]
    spread = measure_distributions(run, {})
    sizes = spread[spread["figure"] == "6"]
    assert sizes["value"].tolist() == [1, 2, 3, 4]
    assert sizes["count"].tolist() == [5, 5, 2, 1]
    assert DELAY.collect(run)["scribe"]["rdp.mean"] == 3  # 20 / 10 and 40 / 10: those of group 7
    found = values_of(Found(Size(9, 1, 0), 4, read_histograms(spread)))
    assert [found[f"groups.size.{name}"] for name in ("sum", "max", "min")] == [13, 5, 1]
