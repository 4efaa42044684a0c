# Databricks notebook source
# MAGIC %md
# MAGIC # Network, overlay and trees as graphs
# MAGIC The network, the overlay and the trees each have a method `graphframe()`, for analyses with
# MAGIC [GraphFrames](https://graphframes.io). This library has a Python part, which is installed
# MAGIC with the package, and a jar (`make graphframes`, or `--packages` of `spark-submit`). Without
# MAGIC the jar, this notebook prints a message and ends.

# COMMAND ----------

from pyspark.sql import functions as F

from scribe_spark import RunConfig, Simulation
from scribe_spark.runtime.graph_frame import GraphFramesMissing

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("nodes", "2000", "Nodes")
dbutils.widgets.text("groups", "50", "Groups")
dbutils.widgets.text("topology", "transit-stub", "Topology")

config = RunConfig(
    nodes=int(dbutils.widgets.get("nodes")),
    groups=int(dbutils.widgets.get("groups")),
    topology=dbutils.widgets.get("topology"),
)
simulation = Simulation(spark, config)
try:
    network = simulation.topology.graphframe()
except GraphFramesMissing as missing:
    dbutils.notebook.exit(f"GraphFrames cannot be used: {missing}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The network of routers
# MAGIC Vertices are routers; edges are links, one for each direction. These cells count the links
# MAGIC of routers, and test whether all routers can reach each other.

# COMMAND ----------

degrees = network.outDegrees.groupBy("outDegree").count().orderBy("outDegree")
display(degrees)
components = network.connectedComponents(use_local_checkpoints=True)
print("connected components:", components.select("component").distinct().count())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Pastry's overlay
# MAGIC Vertices are nodes; edges are the entries of their leaf sets and routing tables (column
# MAGIC `kind`). Spark computes the edges anew for each query, so the graph is cached.
# MAGIC
# MAGIC *PageRank* finds the nodes that many nodes have in their tables; entries of well-known nodes
# MAGIC count more.

# COMMAND ----------

overlay = simulation.overlay.graphframe().persist()
ranks = overlay.pageRank(resetProbability=0.15, maxIter=10).vertices
known_by = overlay.inDegrees.withColumnRenamed("inDegree", "known_by")
best_known = ranks.join(known_by, "id", "inner").select(
    "id", "router", "known_by", F.round("pagerank", 3).alias("pagerank")
)
display(best_known.orderBy(F.desc("pagerank"), "id").limit(10))

# COMMAND ----------

# MAGIC %md
# MAGIC A *motif* is a pattern of edges. This one finds pairs of nodes in which each has the other
# MAGIC in its table of the same kind. In leaf sets, each edge belongs to such a pair. In routing
# MAGIC tables it may not: a node has the nearest node with some prefix in its table, but that node
# MAGIC may know a nearer one with the prefix of the first.

# COMMAND ----------

mutual = (
    overlay.find("(a)-[there]->(b); (b)-[back]->(a)")
    .where("there.kind = back.kind")
    .groupBy(F.col("there.kind").alias("kind"))
    .agg(F.count("*").alias("mutual"))
)
entries = overlay.edges.groupBy("kind").agg(F.count("*").alias("entries"))
share = F.round(F.col("mutual") / F.col("entries"), 3).alias("share")
mutual_entries = entries.join(mutual, "kind", "inner").select("kind", "entries", "mutual", share)
display(mutual_entries.orderBy("kind"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Multicast trees
# MAGIC Vertices are nodes; edges lead from a parent to a child, for each `system` and `group`. The
# MAGIC first query counts the children of each node in all Scribe trees. The second one selects the
# MAGIC tree of the largest group, in which every node but the root has one parent.

# COMMAND ----------

trees = simulation.trees.graphframe()
scribe_trees = trees.filterEdges("system = 'scribe'")
children = scribe_trees.outDegrees.groupBy("outDegree").count().orderBy("outDegree")
display(children)

tree = scribe_trees.filterEdges("group = 1").dropIsolatedVertices()
tree_nodes, tree_edges = tree.vertices.count(), tree.edges.count()
parents = tree.inDegrees.agg(F.max("inDegree")).first()[0]
print(
    f"tree of group 1: {tree_nodes:,} nodes, {tree_edges:,} edges, at most {parents} parent a node"
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A graph as input
# MAGIC The setting `topology` can be a GraphFrame, a `Topology`, or two DataFrames (vertices,
# MAGIC edges). Edges need the columns `src`, `dst` and `delay_ms`. Routes minimise the column
# MAGIC `weight`, or the delay without such a column. Here, every link of the same network has twice
# MAGIC the delay.

# COMMAND ----------

from graphframes import GraphFrame

slow_links = network.edges.withColumn("delay_ms", F.col("delay_ms") * 2)
slow_network = GraphFrame(network.vertices, slow_links)
slow = Simulation(spark, config.replace(topology=slow_network))

first = network.vertices.agg(F.min("id")).first()[0]
routes = network.vertices.select(F.lit(first).alias("from"), F.col("id").alias("to"))


def mean_delay_ms(simulation: Simulation) -> float:
    """From the first router to all."""
    delays = simulation.underlay.delay(routes, "from", "to")
    return delays.agg(F.avg("delay_us")).first()[0] / 1000


before, after = mean_delay_ms(simulation), mean_delay_ms(slow)
print(f"mean delay from router {first}: {before:.1f} ms, then {after:.1f} ms")
overlay.unpersist()
simulation.close()
slow.close()
