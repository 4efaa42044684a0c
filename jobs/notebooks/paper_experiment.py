# Databricks notebook source
# MAGIC %md
# MAGIC # The paper's experiment
# MAGIC Castro, Druschel, Kermarrec, Rowstron, *Scribe: A large-scale and decentralized
# MAGIC application-level multicast infrastructure*, IEEE JSAC 20(8), 2002, Section IV: 100,000
# MAGIC nodes on 5,050 routers, 1,500 groups with Zipf-like sizes; one message is multicast to each
# MAGIC group, over Scribe and over IP multicast. Then trees built in other ways, and many small
# MAGIC groups.
# MAGIC
# MAGIC The widget `nodes` sets the size: with all 100,000 the numbers can be held against the
# MAGIC paper's.

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
    variants="bottleneck,collapse,lazy",
)
done = run(config, dbutils.widgets.get("paper_out"), spark=spark, overwrite=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figures 6 to 10
# MAGIC Scribe and IP multicast side by side, on the paper's axes.
# MAGIC
# MAGIC **Figure 6**: group size against group rank; gsize(r) = floor(N r^-1.25 + 0.5).

# COMMAND ----------


def figure(name: str) -> None:
    displayHTML(done.read_text(f"figures/{name}.svg"))


figure("figure-06-group-size")

# COMMAND ----------

# MAGIC %md
# MAGIC **Figure 7**: how many groups have at most a delay penalty. RMD is the ratio of the maximum
# MAGIC delays to a group's members, Scribe over IP multicast; RAD that of the averages.

# COMMAND ----------

figure("figure-07-delay-penalty")

# COMMAND ----------

# MAGIC %md
# MAGIC **Figures 8 and 9**: node stress. How many children tables, and how many entries in them
# MAGIC all, a node keeps.

# COMMAND ----------

figure("figure-08-children-tables")
figure("figure-09-children-entries")

# COMMAND ----------

# MAGIC %md
# MAGIC **Figure 10**: link stress. How many links carry so many packets when one message is
# MAGIC multicast to every group.

# COMMAND ----------

figure("figure-10-link-stress")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figure 11: the bottleneck remover
# MAGIC A node with more than 64 children drops some, each to a sibling. Delays hardly change.

# COMMAND ----------

figure("figure-11-bottleneck-remover")
display(done.table("group_delay").groupBy("system").agg({"rad": "median", "rmd": "median"}))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figures 12 to 14: many small groups
# MAGIC Half as many nodes and 20 times as many groups, of 11 members each. Scribe's paths without
# MAGIC branches show; *collapse* cuts them short, *lazy growth* does not make them.

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
# MAGIC ## Measured against published
# MAGIC What the paper's text quotes, beside what this run measured. A published number is there
# MAGIC only where the run is the paper's experiment: the same network, as many nodes and groups.

# COMMAND ----------

import pandas as pd

both = {"main": done, "small groups": small_groups}
numbers = pd.concat(pd.DataFrame(r.metrics()).assign(experiment=name) for name, r in both.items())
ratio = numbers["value"].astype(float) / numbers["paper"].astype(float).replace(0, float("nan"))
numbers = numbers.assign(percent=(100 * (ratio - 1)).round(1))
display(numbers[["experiment", "figure", "name", "value", "unit", "paper", "percent"]])

# COMMAND ----------

# MAGIC %md
# MAGIC `report.html` in the run's folder holds all of this on one page, with what explains the
# MAGIC differences.
