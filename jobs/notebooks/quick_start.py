# Databricks notebook source
# MAGIC %md
# MAGIC # Quick start
# MAGIC A small experiment: nodes on a network of routers form a *Pastry* overlay. Groups of nodes
# MAGIC build *Scribe* multicast trees on it, and each group gets one message. (The NGC paper says
# MAGIC *topic*, *subscribe* and *publish* for *group*, *join* and *multicast*.)
# MAGIC
# MAGIC A run needs a config and a SparkSession. All settings that the config does not name are
# MAGIC those of the paper.

# COMMAND ----------

from pyspark.sql import functions as F

from scribe_spark import RunConfig, run

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("nodes", "2000", "Nodes")
dbutils.widgets.text("groups", "50", "Groups")
dbutils.widgets.text("topology", "transit-stub", "Topology")
dbutils.widgets.text("quick_start_out", "out/quick-start", "Folder or URL")

config = RunConfig(
    nodes=int(dbutils.widgets.get("nodes")),
    groups=int(dbutils.widgets.get("groups")),
    topology=dbutils.widgets.get("topology"),
)
done = run(config, dbutils.widgets.get("quick_start_out"), spark=spark, overwrite=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Tables
# MAGIC A run writes Parquet tables. Every multicast system (Scribe, IP multicast, naive unicast)
# MAGIC has its deliveries in the table `deliveries` and its tree edges in `tree_edges`. This is the
# MAGIC delay of each system in the largest group:

# COMMAND ----------

deliveries = done.table("deliveries")
largest = (
    deliveries.where("group = 1")
    .groupBy("system")
    .agg(
        F.count("node").alias("members"),
        F.round(F.avg("delay_ms"), 1).alias("mean_ms"),
        F.round(F.max("delay_ms"), 1).alias("max_ms"),
        F.max("hops").alias("max_hops"),
    )
    .orderBy("system")
)
display(largest)

# COMMAND ----------

# MAGIC %md
# MAGIC The next query uses SQL. It shows how Scribe distributes the work of forwarding: a node's
# MAGIC *children table* of a group lists the nodes to which it forwards the messages of this group.

# COMMAND ----------

done.table("node_stress").createOrReplaceTempView("node_stress")
busiest = spark.sql("""
    SELECT system,
           round(avg(children_entries), 2) AS mean_entries,
           max(children_entries) AS max_entries,
           sum(if(children_entries = 0, 1, 0)) AS idle_nodes
    FROM node_stress GROUP BY system ORDER BY system
""")
display(busiest)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Metrics
# MAGIC The numbers of the run are in `metrics.json`, beside those that the paper has for 100,000
# MAGIC nodes and 1,500 groups. The page `report.html` in the same folder has the figures.

# COMMAND ----------

metrics = {row["name"]: row["value"] for row in done.metrics()}
for name in ("pastry.hops.mean", "pastry.stretch", "scribe.rad.median", "scribe.rad.largest"):
    print(f"{name:<20} {metrics[name]:.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Intermediate results
# MAGIC `done.simulation` has all intermediate results of the run as DataFrames, for example the
# MAGIC children tables. They are computed when they are read.

# COMMAND ----------

children = done.simulation.children
display(children.groupBy("group").count().orderBy(F.desc("count"), "group").limit(5))
done.simulation.release()
