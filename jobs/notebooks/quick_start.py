# Databricks notebook source
# MAGIC %md
# MAGIC # Quick start
# MAGIC A small experiment: nodes on a network of routers form a *Pastry* overlay; groups of them
# MAGIC build *Scribe* multicast trees on it, and one message is multicast to every group. (The NGC
# MAGIC paper says *topic*, *subscribe* and *publish* for *group*, *join* and *multicast*.)
# MAGIC
# MAGIC A run is a frozen config and a SparkSession. What a config does not name is as in the paper.

# COMMAND ----------

from pyspark.sql import functions as F

from scribe_spark import RunConfig, run

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
# MAGIC A run leaves tables in Parquet. Every multicast system (Scribe, IP multicast, naive unicast)
# MAGIC leaves the same two: its tree edges, and its deliveries. Here is the delay of each system in
# MAGIC the largest group:

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
# MAGIC The same tables in SQL: how Scribe spreads the work of forwarding. A node's *children table*
# MAGIC of a group lists whom it forwards that group's messages to.

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
# MAGIC The paper's numbers are in `metrics.json`, with what the paper has for 100,000 nodes and
# MAGIC 1,500 groups beside them; `report.html` in the same folder draws its figures.

# COMMAND ----------

metrics = {row["name"]: row["value"] for row in done.metrics()}
for name in ("pastry.hops.mean", "pastry.stretch", "scribe.rad.median", "scribe.rad.largest"):
    print(f"{name:<20} {metrics[name]:.2f}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## In between
# MAGIC `done.simulation` has every stage of the run as a DataFrame, made when it is asked for: the
# MAGIC children tables that the JOIN messages left, for one.

# COMMAND ----------

children = done.simulation.children
display(children.groupBy("group").count().orderBy(F.desc("count"), "group").limit(5))
done.simulation.release()
