"""One experiment as a chain of tables, each made from those before it when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import baselines, pastry, schemas, scribe, superstep
from scribe_spark.config import RunConfig
from scribe_spark.measures import metrics
from scribe_spark.measures.published import published
from scribe_spark.progress import Progress, Silent
from scribe_spark.runtime import blocks
from scribe_spark.schemas import MICROSECONDS, Multicast, to_ms
from scribe_spark.topology import Graph, Topology, load
from scribe_spark.topology.checks import MOST_ROUTERS, check_routable
from scribe_spark.underlay.hops import HopUnderlay
from scribe_spark.underlay.matrices import MatrixUnderlay, Underlay, compute_routes

__all__ = ["Simulation", "systems"]


def systems(config: RunConfig) -> list[str]:
    """The multicast systems of an experiment, in the order of its tables."""
    variants = [_system(name) for name in scribe.STRATEGIES if name in config.trees.variants]
    return ["scribe", *variants, "ip_multicast", "naive_unicast"]


def _system(variant: str) -> str:
    """What the measures call the trees of a variant."""
    return f"scribe_{variant}"


class Simulation:
    """A config and a SparkSession; attributes are the stages, computed once and on demand.

    Parameters
    ----------
    spark : SparkSession
    config : RunConfig
    saved : dict of DataFrame, optional
        Tables that stand already (by their name in `schemas`); they are read, not made again.
    progress : Progress, optional
    most_routers : int
        With more routers than this, routes are searched for, not kept as matrices.
    shares : Simulation, optional
        One of the same session: its graph and routes are taken where the network is the same.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: RunConfig,
        saved: dict[str, DataFrame] | None = None,
        progress: Progress | None = None,
        most_routers: int = MOST_ROUTERS,
        shares: Simulation | None = None,
    ) -> None:
        self.spark, self.config, self.most_routers = spark, config, most_routers
        self.saved = saved if saved is not None else {}
        self.progress = progress or Silent()
        same = shares is not None and shares.config.network_key == config.network_key
        self._shares = shares if same else None
        self._held: list[DataFrame | superstep.Rounds | scribe.Variant] = []

    # --- topology

    @cached_property
    def graph(self) -> Graph:
        """Routers and links on the driver."""
        if self._shares is not None:
            return self._shares.graph
        return load(self.config, self.spark)

    @cached_property
    def topology(self) -> Topology:
        """Routers and links in GraphFrames' form."""
        return Topology.from_graph(self.spark, self.graph)

    @cached_property
    def underlay(self) -> Underlay:
        """Routes between routers, at hand on every executor."""
        if self._shares is not None:
            return self._shares.underlay
        graph, config = self.graph, self.config
        check_routable(graph, config.tie, self.most_routers)
        routers = graph.vertices["id"].to_numpy()
        lan_us = round(config.lan_delay_ms * MICROSECONDS)
        if len(routers) > self.most_routers:
            return HopUnderlay.of(self.spark, routers, graph.edges, lan_us)
        routes = compute_routes(self.spark, routers, graph.edges, config.tie, config.seed)
        return MatrixUnderlay.of(self.spark, routes, len(graph.edges), lan_us)

    # --- overlay

    @cached_property
    def nodes(self) -> DataFrame:
        """`schemas.NODES`."""
        return self._stage(
            "nodes", lambda: pastry.make_nodes(self.spark, self.config, self.underlay.routers)
        )

    @cached_property
    def overlay(self) -> pastry.PastryOverlay:
        """The Pastry network with perfect tables."""
        return pastry.PastryOverlay.build(self.nodes, self.underlay, self.config)

    # --- trees

    @cached_property
    def members(self) -> DataFrame:
        """``group, node, router``, partitioned by node."""
        config = self.config
        made = scribe.draw_members if config.members is None else scribe.read_members
        members = self._stage("members", lambda: made(self.spark, config))
        at = self.nodes.select("node", "router")
        joined = members.hint("shuffle_hash").join(at, "node", "inner")
        return self._hold(joined.select("group", "node", "router").persist())

    @cached_property
    def created(self) -> DataFrame:
        """Each group's CREATE where it was delivered: `scribe.create`, with what it travelled."""
        groups = scribe.make_groups(self.members, self.nodes, self.config)
        rounds = scribe.create(self.overlay, groups, self.progress)
        if not rounds.tables:  # no group, no CREATE
            return _uncreated(groups)
        delivered = rounds.union().where(F.col("next").isNull())
        travelled = self.overlay.travelled(delivered)
        sizes = groups.select("group", "size")
        table, _ = blocks.materialise(travelled.join(F.broadcast(sizes), "group", "inner"))
        rounds.release()
        return self._hold(table)

    @cached_property
    def rooted(self) -> DataFrame:
        """``group, key_hi, key_lo, size, root, root_router``: every group, members or not."""
        return self.created.select(
            "group",
            "key_hi",
            "key_lo",
            "size",
            F.col("node").alias("root"),
            F.col("router").alias("root_router"),
        )

    @cached_property
    def groups(self) -> DataFrame:
        """Those that have a source: as `rooted`, and ``source, source_router``."""
        if self.config.source == "root":
            root = {"source": F.col("root"), "source_router": F.col("root_router")}
            return self.rooted.withColumns(root)
        drawn = F.broadcast(scribe.senders(self.members, self.config.seed))
        return self._hold(self.rooted.join(drawn, "group", "inner").persist())

    @cached_property
    def children(self) -> DataFrame:
        """Scribe's children tables, with delays: the tree edges, partitioned by parent."""
        rounds = scribe.join(self.overlay, self.groups, self.members, self.progress)
        if not rounds.tables:  # no member, no JOIN
            return baselines.unicasts(self.groups, self.members, self.underlay).limit(0)
        edges = scribe.Scribe.children(rounds.tables)
        table = scribe.timed_edges(edges, self.underlay)
        rounds.release()
        return self._hold(table)

    @cached_property
    def variants(self) -> dict[str, scribe.Variant]:
        """The trees of each other way to build them, by its name in `RunConfig.variants`."""
        capacities = None
        if self.config.capacities is not None:
            capacities = scribe.read_capacities(self.spark, self.config).repartition("node")
            self._hold(capacities.persist())
        forest = scribe.Forest(
            self.overlay,
            self.rooted,
            self.members,
            self.children,
            self.config,
            self.progress,
            capacities,
        )
        named = {
            n: grow for n, grow in scribe.STRATEGIES.items() if n in self.config.trees.variants
        }
        built = {name: grow(forest) for name, grow in named.items()}
        self._held.extend(built.values())
        return built

    @cached_property
    def systems(self) -> list[Multicast]:
        """Every multicast system's hand-over, in the order of :func:`systems`."""
        edges = {"scribe": self.children}
        edges |= {_system(name): variant.edges for name, variant in self.variants.items()}
        trees = [self._multicast(system, tree) for system, tree in edges.items()]
        star = baselines.unicasts(self.groups, self.members, self.underlay).persist()
        self._hold(star)
        return [*trees, baselines.ip_multicast(star), baselines.naive_unicast(star)]

    def _multicast(self, system: str, edges: DataFrame) -> Multicast:
        handed_over, rounds = scribe.multicast(
            self.overlay,
            self.groups,
            self.members,
            edges,
            self.config.source,
            self.progress,
            system,
        )
        self._held.append(rounds)
        return handed_over

    def release(self) -> None:
        """Free what the stages keep in memory; they are made again when asked for."""
        if "overlay" in self.__dict__:
            self.overlay.release()
        for held in self._held:
            if not isinstance(held, DataFrame):
                held.release()
            else:
                held.unpersist()
                blocks.release(held)
        self._held.clear()
        for stage in _IN_MEMORY:
            self.__dict__.pop(stage, None)

    def close(self) -> None:
        """Free all of it, also the routes that others share: nothing can be asked for any more."""
        self.release()
        if self._shares is None and "underlay" in self.__dict__:
            self.underlay.release()

    # --- what each phase leaves

    def phase(self, name: str) -> Iterator[tuple[str, DataFrame]]:
        """The tables of a phase, one by one; a table may be read back once it has been saved."""
        yield from {
            "topology": self._topology,
            "overlay": self._overlay,
            "trees": self._trees,
            "measures": self._measures,
        }[name]()

    def _topology(self) -> Iterator[tuple[str, DataFrame]]:
        yield "routers", self.topology.routers()
        yield "links", self.topology.links()
        assert self.underlay  # routes belong to this phase's time

    def _overlay(self) -> Iterator[tuple[str, DataFrame]]:
        yield "nodes", self.nodes
        del self.nodes  # from here on, the saved ones
        yield "table_entries", pastry.table_entries(self.overlay.state, self.config.b)
        if self.config.write_routing_table:
            yield "routing_table", pastry.routing_table(self.overlay.state, self.config.b)

    def _trees(self) -> Iterator[tuple[str, DataFrame]]:
        yield "members", schemas.conform(self.members, schemas.MEMBERS)
        yield "groups", schemas.conform(self.rooted, schemas.GROUPS)
        yield (
            "pastry_routes",
            self.created.select(
                "source",
                F.col("node").alias("root"),
                "hops",
                to_ms("delay_us"),
                to_ms("direct_us", "direct_ms"),
            ),
        )
        yield "tree_edges", blocks.union_tables([_edges(system) for system in self.systems])
        yield "deliveries", blocks.union_tables([_deliveries(system) for system in self.systems])
        if self.variants:
            yield "extra_joins", self._extra_joins()
            yield "overloaded", self._overloaded()
        self.release()

    def _measures(self) -> Iterator[tuple[str, DataFrame]]:
        saved = self.saved
        load = metrics.loads(saved["tree_edges"]).persist()
        yield "node_stress", metrics.node_stress(load, saved["nodes"], systems(self.config))
        yield "link_stress", metrics.link_stress(saved["tree_edges"], load, self.underlay)
        load.unpersist()
        yield "group_delay", metrics.group_delay(saved["deliveries"], saved["groups"])
        joining = None
        if "extra_joins" in saved:
            joining = metrics.join_stress(saved["extra_joins"], saved["link_stress"], self.underlay)
        spread = metrics.distributions(
            saved["groups"],
            saved["deliveries"],
            saved["group_delay"],
            saved["node_stress"],
            saved["link_stress"],
            joining,
            equal_groups=self.config.group_size is not None,
        )
        yield "distributions", schemas.held(self.spark, spread, schemas.DISTRIBUTIONS)

    def numbers(self) -> list[dict]:
        """`metrics.json`, from the tables of all phases."""
        saved = self.saved
        # sums of floats depend on their order: whole microseconds here, sorted rows below
        mean = F.avg(F.round(F.col("delay_ms") * MICROSECONDS)) / MICROSECONDS
        (core,) = saved["links"].agg(F.count(F.lit(1)).alias("n"), mean.alias("mean")).collect()
        routers = saved["routers"].count()
        size = metrics.Size(self.config.nodes, routers, core["n"])
        chosen = saved["pastry_routes"].select("hops", "delay_ms", "direct_ms")
        routes: pd.DataFrame = chosen.toPandas()
        routes = routes.sort_values(list(routes.columns), ignore_index=True)
        spread: pd.DataFrame = saved["distributions"].toPandas()
        rdps = metrics.rdp(saved["deliveries"])
        (tables,) = saved["table_entries"].collect()
        others = {
            "topology.core_delay.mean": core["mean"],
            "pastry.table_entries.mean": tables["entries"] / self.config.nodes,
            **self._joining_numbers(),
        }
        known = published(self.config, systems(self.config))
        return metrics.numbers(size, spread, rdps, routes, others, self.config.b, known)

    def _joining_numbers(self) -> dict[str, float]:
        """What variants add to joining, and what they could not reach."""
        saved = self.saved
        if "extra_joins" not in saved:
            return {}
        over = {row["system"]: row["nodes"] for row in saved["overloaded"].collect()}
        found = {f"{system}.overloaded": nodes for system, nodes in over.items()}
        joining = saved["members"].count()
        sums = F.count(F.lit(1)).alias("joins"), F.sum("probes").alias("probes")
        sent = {
            row["system"]: row
            for row in saved["extra_joins"].groupBy("system").agg(*sums).collect()
        }
        for system in over:
            joins, probes = (sent[system][n] if system in sent else 0 for n in ("joins", "probes"))
            found[f"{system}.extra_joins"] = joins
            if joining + joins:
                found[f"{system}.probes_per_join"] = probes / (joining + joins)
        return found

    def _extra_joins(self) -> DataFrame:
        """`schemas.EXTRA_JOINS`."""
        sent = [
            variant.joins.withColumn("system", F.lit(_system(name)))
            for name, variant in self.variants.items()
            if variant.joins is not None
        ]
        if not sent:
            return schemas.held(self.spark, [], schemas.EXTRA_JOINS)
        return schemas.conform(blocks.union_tables(sent), schemas.EXTRA_JOINS)

    def _overloaded(self) -> DataFrame:
        """`schemas.OVERLOADED`: one row for each variant that heeds limits."""
        over = {_system(name): variant.overloaded for name, variant in self.variants.items()}
        rows = [(system, nodes) for system, nodes in over.items() if nodes is not None]
        return schemas.held(self.spark, rows, schemas.OVERLOADED)

    # --- helpers

    def _stage(self, name: str, make) -> DataFrame:
        return self.saved[name] if name in self.saved else make()

    def _hold(self, frame: DataFrame) -> DataFrame:
        self._held.append(frame)
        return frame


_IN_MEMORY = (
    "overlay",
    "members",
    "created",
    "rooted",
    "groups",
    "children",
    "variants",
    "systems",
)


def _uncreated(groups: DataFrame) -> DataFrame:
    """`Simulation.created` of no group."""
    none, creator = F.lit(0).cast("bigint"), F.col("creator")
    return groups.limit(0).select(
        *("group", "key_hi", "key_lo", "size"),
        *(creator.alias("node"), F.col("creator_router").alias("router"), creator.alias("source")),
        *(F.lit(0).alias("hops"), none.alias("delay_us"), none.alias("direct_us")),
    )


def _edges(system: Multicast) -> DataFrame:
    return system.tree_edges.select(
        F.lit(system.system).alias("system"),
        "group",
        "parent",
        "child",
        "parent_router",
        "child_router",
        F.lit(system.merged).alias("merged"),
    )


def _deliveries(system: Multicast) -> DataFrame:
    return system.deliveries.select(
        F.lit(system.system).alias("system"), "group", "node", "hops", to_ms("delay_us")
    )
