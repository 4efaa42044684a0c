# Databricks notebook source
# MAGIC %md
# MAGIC # One failure in a tree of twenty nodes
# MAGIC The pictures show a group's tree before a node fails, before its children notice the
# MAGIC failure, and after they have joined again. In every round the root publishes one message.

# COMMAND ----------

import pandas as pd
from matplotlib.figure import Figure

from scribe_spark import Simulation, WorldConfig, make_world
from scribe_spark.worlds.events import world_events

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("nodes", "20", "Nodes")
dbutils.widgets.text("members", "15", "Members of the group")
dbutils.widgets.text("seed", "1", "Seed")
dbutils.widgets.text("topology", "transit-stub", "Topology")

config = WorldConfig(
    nodes=int(dbutils.widgets.get("nodes")),
    topology=dbutils.widgets.get("topology"),
    seed=int(dbutils.widgets.get("seed")),
    b=2,
    leaf_set=4,
    groups=1,
    group_size=int(dbutils.widgets.get("members")),
    replicas=2,
    generator="publications",
    publish_source="root",
    delivery="reliable",
    rounds=6,
    lookups=0,
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The node that fails
# MAGIC The first round shows the tree. Of the nodes below the root, the one with the most children
# MAGIC will fail in round 2.

# COMMAND ----------


def tree_of(world):
    """The tree: ``node, parent, member, root``."""
    return world.memberships.toPandas().sort_values("node").reset_index(drop=True)


simulation = Simulation(spark, config)
events = world_events(simulation.nodes, config)
world = make_world(simulation, config, events)
world.step()
tree = tree_of(world)
world.release()
root = int(tree.loc[tree["root"], "node"].iloc[0])
below = tree[tree["parent"].notna() & (tree["parent"] != root)]["parent"].astype(int)
failing = int(below.value_counts().sort_index().idxmax())
failure = spark.createDataFrame(
    [(2, failing, "fail", None)], "round int, node bigint, event string, group bigint"
)
print(f"root {root}; node {failing} fails, the parent of {(tree['parent'] == failing).sum()} nodes")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Round by round
# MAGIC From round 2 on, the children get no message from their parent. After `parent_timeout`
# MAGIC rounds (2), in round 4, they route a JOIN to the group. They also get the messages that they
# MAGIC missed, because delivery is reliable.

# COMMAND ----------

# publications of a source that is dead cannot be: the root does not fail here
world = make_world(simulation, config, events.unionByName(failure))
trees, measured = [], []
for number in range(config.world.rounds):
    measured.append({"round": number, **world.step()})
    trees.append(tree_of(world))
world.release()
simulation.close()
rounds = pd.DataFrame(measured).fillna(0)
shown = ["round", "scribe.orphans", "scribe.joins", "messages.heartbeat", "messages.retransmission"]
there = [name for name in shown if name in rounds]
display(spark.createDataFrame(rounds[there]))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Pictures
# MAGIC The tree before the failure (round 1), when the node is dead and its children have not
# MAGIC noticed it (2), and after the repair (4). Members are filled; a dashed line leads to a dead
# MAGIC parent.

# COMMAND ----------


def depths(tree):
    """Node -> its distance from where its chain of parents ends."""
    parent = {row.node: row.parent for row in tree.itertuples()}
    found = {}
    for node in parent:
        at, steps = node, 0
        while at in parent and not pd.isna(parent[at]):
            at, steps = int(parent[at]), steps + 1
        found[node] = steps
    return found


def drawing(tree, title):
    """A tree, its root on top."""
    depth = depths(tree)
    level, place = {}, {}
    for node in sorted(depth, key=lambda one: (depth[one], one)):
        level.setdefault(depth[node], []).append(node)
    for row in level.values():
        for at, node in enumerate(row):
            place[node] = ((at + 1) / (len(row) + 1), -depth[node])
    figure = Figure(figsize=(6, 3))
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.86))
    for row in tree.itertuples():
        x, y = place[row.node]
        if not pd.isna(row.parent):
            dead = int(row.parent) not in place
            to = (x, y + 0.6) if dead else place[int(row.parent)]
            axes.plot([x, to[0]], [y, to[1]], "--" if dead else "-", color="#888888", zorder=1)
        colour = "#1f77b4" if row.member else "white"
        axes.scatter(x, y, s=190, color=colour, edgecolor="#1f77b4", zorder=2)
        ink = "white" if row.member else "#1f77b4"
        axes.text(x, y, row.node, ha="center", va="center", fontsize=7, color=ink, zorder=3)
    axes.set_axis_off()
    axes.set_title(title, fontsize=9)
    return figure


drawings = {number: drawing(trees[number], f"after round {number}") for number in (1, 2, 4)}
for figure in drawings.values():
    display(figure)
