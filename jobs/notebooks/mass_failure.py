# Databricks notebook source
# MAGIC %md
# MAGIC # Mass failure
# MAGIC A share of the nodes fails silently in round 1. In the next round, nodes notice this and
# MAGIC repair their leaf sets. Lookups find dead entries of routing tables, which are then
# MAGIC repaired.

# COMMAND ----------

import pandas as pd

from scribe_spark import Simulation, WorldConfig, make_world

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("nodes", "5000", "Nodes")
dbutils.widgets.text("share", "0.1", "Share that fails")
dbutils.widgets.text("lookups", "20000", "Lookups in each round")
dbutils.widgets.text("topology", "transit-stub", "Topology")

config = WorldConfig(
    nodes=int(dbutils.widgets.get("nodes")),
    topology=dbutils.widgets.get("topology"),
    generator="mass-failure",
    share=float(dbutils.widgets.get("share")),
    lookups=int(dbutils.widgets.get("lookups")),
    rounds=5,
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Round by round
# MAGIC One world repairs its routing tables, the other does not. Both begin with perfect tables.

# COMMAND ----------

measured = []
with Simulation(spark, config) as simulation:
    for repair in ("lazy", "none"):
        world = make_world(simulation, config.replace(repair=repair))
        for number in range(config.world.rounds):
            measured.append({"repair": repair, "round": number, **world.step()})
        world.release()
rounds = pd.DataFrame(measured)
shown = ["repair", "round", "nodes.live", "leaf_sets.right", "cells.dead", "lookups.hops"]
display(spark.createDataFrame(rounds[[*shown, "lookups.right", "lookups.lost"]]))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Hops by round

# COMMAND ----------

hops = rounds.pivot(index="round", columns="repair", values="lookups.hops")
axes = hops.plot(marker="o", ylabel="mean hops of delivered lookups", figsize=(6, 3.2))
axes.set_xticks(hops.index)
axes.set_ylim(bottom=0)
display(axes.figure)
