# Databricks notebook source
# MAGIC %md
# MAGIC # One group in three systems
# MAGIC One group has a Scribe tree, a GossipSub mesh, and a CAN of its members. In each of them,
# MAGIC the same source publishes one message. The pictures show a line for each link on which a
# MAGIC node forwards; it is thick if it carried the first copy of a node.

# COMMAND ----------

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from scribe_spark import RunConfig, Simulation
from scribe_spark.can.multicast import live_can
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.runtime.batches import Batches

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("nodes", "40", "Nodes")
dbutils.widgets.text("members", "24", "Members of the group")
dbutils.widgets.text("seed", "1", "Seed")
dbutils.widgets.text("topology", "transit-stub", "Topology")

config = RunConfig(
    nodes=int(dbutils.widgets.get("nodes")),
    topology=dbutils.widgets.get("topology"),
    seed=int(dbutils.widgets.get("seed")),
    groups=1,
    group_size=int(dbutils.widgets.get("members")),
    source="routed",
    systems="scribe,gossipsub,can",
    gossipsub_d=3,
    gossipsub_d_low=2,
    gossipsub_d_high=5,
    gossipsub_d_out=1,
    gossipsub_flood_publish=False,
    can_dimensions=2,
)
simulation = Simulation(spark, config)
systems = {system.system: system for system in simulation.systems}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Costs
# MAGIC A tree sends one copy to each node, but some forwarders are not members. In a mesh and in a
# MAGIC CAN only members forward, and they get some copies more than once.


# COMMAND ----------


def table(rows):
    """A table that a system hands over, as pandas."""
    return Batches.of(rows).frame.toPandas()


def copies_of(system):
    """Every copy: ``sender, receiver, first``."""
    if system.tree_edges is not None:
        edges = table(system.tree_edges).rename(columns={"parent": "sender", "child": "receiver"})
        return edges.assign(first=True)[["sender", "receiver", "first"]]
    copies = table(system.table("copies"))
    return copies[copies["kind"] == "payload"][["sender", "receiver", "first"]]


copies = {name: copies_of(systems[name]) for name in ("scribe", "gossipsub", "can")}
deliveries = {name: table(systems[name].deliveries) for name in copies}
members = sorted(table(simulation.memberships)["node"])
group = simulation.multicast_groups.toPandas().iloc[0]
costs = [
    (
        name,
        len(sent),
        len(sent) - int(sent["first"].sum()),
        int(deliveries[name]["hops"].max()),
        float(deliveries[name]["delay_us"].mean() / 1000),
    )
    for name, sent in copies.items()
]
display(
    spark.createDataFrame(
        costs, "system string, copies int, duplicates int, hops_max int, delay_ms double"
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Pictures
# MAGIC Members are filled, the source has a ring. The tree is drawn by depth, the mesh on a circle.
# MAGIC In the CAN, each node is in its zone of the square (opposite edges of the square are
# MAGIC connected).

# COMMAND ----------


def by_depth(sent, root):
    """Places of the nodes of a tree, its root on top, children below their parents."""
    parent = dict(zip(sent["receiver"], sent["sender"], strict=True))
    rows = [[root]]
    while below := [node for node in parent if parent[node] in rows[-1]]:
        above = rows[-1].index
        rows.append(sorted(below, key=lambda node, above=above: (above(parent[node]), node)))
    most = len(rows) - 1 or 1
    return {
        node: ((at + 1) / (len(row) + 1), 1 - depth / most)
        for depth, row in enumerate(rows)
        for at, node in enumerate(row)
    }


def on_a_circle(nodes):
    """Places of nodes, one after the other."""
    angle = 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    x, y = 0.5 + 0.5 * np.sin(angle), 0.5 + 0.5 * np.cos(angle)
    return dict(zip(nodes, zip(x, y, strict=True), strict=True))


def zones_of_the_group():
    """The lower corner and the sides of each node's zone, in a square of side 1."""
    facts, underlay = simulation.overlay.ring.facts, simulation.underlay
    source = facts.positions(np.array([group["source"]]))
    member = np.union1d(facts.positions(np.array(members)), source)
    none = np.zeros_like(member)
    overlays = Overlays(np.array([group["group"]]), none, member, none[:1], source)
    network = Network(facts.ring, underlay.kernel, underlay.lan_us, config.seed, in_run=True)
    zones = live_can(config.can, config.seed).zones(overlays, network)
    places = zones.space.places
    low, side = zones.low / places, zones.side(np.arange(len(zones))) / places
    nodes = facts.ring.node[zones.node].tolist()
    return dict(zip(nodes, zip(low.T.tolist(), side.T.tolist(), strict=True), strict=True))


def drawing(sent, place, title, boxes=()):
    """Nodes and the copies between them."""
    figure = Figure(figsize=(5, 4.4))
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.88))
    for low, side in boxes:
        axes.add_patch(Rectangle(low, *side, fill=False, edgecolor="#cccccc", linewidth=0.8))
    for row in sent.sort_values(["first", "sender", "receiver"]).itertuples():
        (x, y), (to_x, to_y) = place[row.sender], place[row.receiver]
        ink, width = ("#444444", 1.6) if row.first else ("#bbbbbb", 0.6)
        axes.plot([x, to_x], [y, to_y], "-", color=ink, linewidth=width, zorder=1)
    for node, (x, y) in place.items():
        colour = "#1f77b4" if node in members else "white"
        edge = "#d62728" if node == group["source"] else "#1f77b4"
        axes.scatter(x, y, s=150, color=colour, edgecolor=edge, linewidth=1.8, zorder=2)
        ink = "white" if node in members else "#1f77b4"
        axes.text(x, y, node, ha="center", va="center", fontsize=6, color=ink, zorder=3)
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
    return figure


tree = copies["scribe"]
zones = zones_of_the_group()
middles = {
    node: (low[0] + side[0] / 2, low[1] + side[1] / 2) for node, (low, side) in zones.items()
}
in_mesh = sorted(zones)  # those who take part: members and the source
drawings = {
    "scribe": drawing(tree, by_depth(tree, group["root"]), "Scribe's tree"),
    "gossipsub": drawing(copies["gossipsub"], on_a_circle(in_mesh), "GossipSub's mesh"),
    "can": drawing(copies["can"], middles, "The group's CAN", zones.values()),
}
for figure in drawings.values():
    display(figure)
simulation.close()
