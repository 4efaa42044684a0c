# Databricks notebook source
# MAGIC %md
# MAGIC # Network, overlay and trees as graphs
# MAGIC Each of the three has a method `graphframe()`, for analyses with
# MAGIC [GraphFrames](https://graphframes.io). The Python half of that library is installed with the
# MAGIC package; the other half is a jar (`make graphframes`, or `--packages` of `spark-submit`).
# MAGIC Where the jar is missing this notebook says so and ends.

# COMMAND ----------

from pyspark.sql import functions as F

from scribe_spark import RunConfig, Simulation
from scribe_spark.topology import GraphFramesMissing

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
# MAGIC Vertices are routers, edges are links, one for each direction. How many links routers have;
# MAGIC and whether all routers can reach each other.

# COMMAND ----------

degrees = network.outDegrees.groupBy("outDegree").count().orderBy("outDegree")
display(degrees)
components = network.connectedComponents(use_local_checkpoints=True)
print("connected components:", components.select("component").distinct().count())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Pastry's overlay
# MAGIC Vertices are nodes, edges are the entries of their leaf sets and routing tables (`kind`).
# MAGIC The edges are computed whenever they are read, so the graph is kept in memory.
# MAGIC
# MAGIC *PageRank*: which nodes are known best, counting more what well-known nodes know.

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
# MAGIC A *motif* is a pattern of edges. This one finds two nodes that know each other in the same
# MAGIC way. In leaf sets that is always so. In routing tables it is not: the nearest node with a
# MAGIC prefix may have one that is nearer to itself.

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
# MAGIC Vertices are nodes, edges lead from a parent to a child, for each `system` and `group`. How
# MAGIC many children nodes have in all of Scribe's trees together; and the tree of the largest
# MAGIC group, in which every node but the root has one parent.

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
# MAGIC A GraphFrame goes wherever the name of a topology goes; so does a `Topology`, or two
# MAGIC DataFrames (vertices, edges). Edges need `src`, `dst` and `delay_ms`; routes are those of
# MAGIC least `weight`, or of least delay where there is no such column. Here every link of the same
# MAGIC network takes twice as long.

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
