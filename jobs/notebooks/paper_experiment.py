# Databricks notebook source
# MAGIC %md
# MAGIC # The paper's experiment
# MAGIC Castro, Druschel, Kermarrec, Rowstron, *Scribe: A large-scale and decentralized
# MAGIC application-level multicast infrastructure*, IEEE JSAC 20(8), 2002, Section IV: 100,000
# MAGIC nodes on 5,050 routers, and 1,500 groups with Zipf-like sizes. Scribe and IP multicast send
# MAGIC one message to each group. Further experiments build trees in other ways, and have many
# MAGIC small groups.
# MAGIC
# MAGIC The widget `nodes` sets the number of nodes. With 100,000, the numbers can be compared with
# MAGIC those of the paper.

# COMMAND ----------

from scribe_spark import RunConfig, run

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, displayHTML, spark

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
    variants="bottleneck,collapse,lazy",
)
done = run(config, dbutils.widgets.get("paper_out"), spark=spark, overwrite=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figures 6 to 10
# MAGIC Scribe beside IP multicast, with the axes of the paper.
# MAGIC
# MAGIC **Figure 6**: the size of a group by its rank: gsize(r) = floor(N r^-1.25 + 0.5).

# COMMAND ----------


def figure(name: str) -> None:
    displayHTML(done.read_text(f"figures/{name}.svg"))


figure("figure-06-group-size")

# COMMAND ----------

# MAGIC %md
# MAGIC **Figure 7**: the number of groups with at most a given delay penalty. RMD is the maximum
# MAGIC delay of a group's members with Scribe, divided by that with IP multicast; RAD is the same
# MAGIC ratio of average delays.

# COMMAND ----------

figure("figure-07-delay-penalty")

# COMMAND ----------

# MAGIC %md
# MAGIC **Figures 8 and 9**: node stress. The number of children tables that a node stores, and the
# MAGIC number of entries in all of them.

# COMMAND ----------

figure("figure-08-children-tables")
figure("figure-09-children-entries")

# COMMAND ----------

# MAGIC %md
# MAGIC **Figure 10**: link stress. The number of links that carry a given number of packets, when
# MAGIC each group gets one message.

# COMMAND ----------

figure("figure-10-link-stress")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figure 11: the bottleneck remover
# MAGIC A node with more than 64 children drops some; each of them becomes a child of another child.
# MAGIC Delays hardly change.

# COMMAND ----------

figure("figure-11-bottleneck-remover")
display(done.table("group_delay").groupBy("system").agg({"rad": "median", "rmd": "median"}))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figures 12 to 14: many small groups
# MAGIC Half as many nodes, and 20 times as many groups of 11 members each. Scribe's trees then have
# MAGIC long paths without branches. *Collapse* removes these paths, and *lazy growth* does not
# MAGIC build them.

# COMMAND ----------

few = max(config.overlay.nodes // 2, 11)
small = config.replace(
    nodes=few, groups=20 * config.groups.count, group_size=11, variants=["collapse", "lazy"]
)
out = dbutils.widgets.get("paper_out") + "-small-groups"
small_groups = run(small, out, spark=spark, overwrite=True)
for name in ("12-small-groups-children-tables", "13-small-groups-children-entries"):
    displayHTML(small_groups.read_text(f"figures/figure-{name}.svg"))
displayHTML(small_groups.read_text("figures/figure-14-small-groups-link-stress.svg"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Comparison with the published numbers
# MAGIC Numbers of the paper's text beside those of this run. A published number is shown only if
# MAGIC the run is the paper's experiment: the same network, nodes and groups.

# COMMAND ----------

import pandas as pd

both = {"main": done, "small groups": small_groups}
numbers = pd.concat(pd.DataFrame(r.metrics()).assign(experiment=name) for name, r in both.items())
ratio = numbers["value"].astype(float) / numbers["paper"].astype(float).replace(0, float("nan"))
numbers = numbers.assign(percent=(100 * (ratio - 1)).round(1))
display(numbers[["experiment", "figure", "name", "value", "unit", "paper", "percent"]])

# COMMAND ----------

# MAGIC %md
# MAGIC The page `report.html` in the run's folder shows all of this, and explains the differences.
