# Databricks notebook source
# MAGIC %md
# MAGIC # The paper's experiment
# MAGIC Castro, Druschel, Kermarrec, Rowstron, *Scribe: A large-scale and decentralized application-level
# MAGIC multicast infrastructure*, IEEE JSAC 20(8), 2002, Section IV A-D: 100,000 nodes on 5,050 routers,
# MAGIC 1,500 groups with Zipf-like sizes; one message is multicast to each group, over Scribe and over
# MAGIC IP multicast.
# MAGIC
# MAGIC The widget `nodes` sets the size: with all 100,000 the numbers can be held against the paper's.

# COMMAND ----------

from scribe_spark import RunConfig, run

dbutils.widgets.text("nodes", "100000", "Nodes")
dbutils.widgets.text("groups", "1500", "Groups")
dbutils.widgets.text("seed", "1", "Seed")
dbutils.widgets.text("topology", "transit-stub", "Topology")
dbutils.widgets.text("paper_out", "out/paper-experiment", "Folder or URL")

config = RunConfig(
    nodes=int(dbutils.widgets.get("nodes")),
    groups=int(dbutils.widgets.get("groups")),
    seed=int(dbutils.widgets.get("seed")),
    topology=dbutils.widgets.get("topology"),
)
done = run(config, dbutils.widgets.get("paper_out"), spark=spark, overwrite=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figure 6: group size against group rank

# COMMAND ----------

displayHTML(done.figure(6))
