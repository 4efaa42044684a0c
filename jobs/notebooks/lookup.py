# Databricks notebook source
# MAGIC %md # A lookup service on Pastry
# MAGIC A second application beside Scribe. The root of a key keeps its value: `PUT` and `GET` go to
# MAGIC the key, `ANSWER` to the nodeId of the node that asked; all are routed (JSAC, Section II).

# COMMAND ----------

from pyspark.sql import functions as F

from scribe_spark import Application, RunConfig, Simulation
from scribe_spark.draws import below
from scribe_spark.ids import half_of_digest

dbutils.widgets.text("nodes", "2000", "Nodes")
dbutils.widgets.text("keys", "1000", "Keys")
NODES, KEYS = int(dbutils.widgets.get("nodes")), int(dbutils.widgets.get("keys"))


class Lookup(Application):
    """A node's store is the PUT messages that were delivered to it."""

    def __init__(self, store=None):
        self.store = store

    def deliver(self, messages, past):
        if self.store is None:
            return None
        asked = messages.where("kind = 'GET'").drop("value")
        found = asked.join(self.store, ["node", "key_hi", "key_lo"], "left")
        back = {"key_hi": F.col("from_hi"), "key_lo": F.col("from_lo"), "kind": F.lit("ANSWER")}
        return found.withColumns(back)


# COMMAND ----------

simulation = Simulation(spark, RunConfig(nodes=NODES, groups=0))
overlay, name = simulation.overlay, F.sha1(F.concat(F.lit("key-"), "id"))
key = half_of_digest(name, 0).alias("key_hi"), half_of_digest(name, 1).alias("key_lo")
value = F.concat(F.lit("value-"), "id").alias("value")
puts = spark.range(KEYS).select(below(NODES, 1, "PUT", "id").alias("node"), *key, value)
kept = overlay.route(Lookup(), puts, name="PUT").union()
store = kept.select("node", "key_hi", "key_lo", "value")

# COMMAND ----------

# MAGIC %md Each key is looked up from a random node; the answer says `value` once it is back there.

# COMMAND ----------

kind, empty = F.lit("GET").alias("kind"), F.lit(None).cast("string").alias("value")
asking = spark.range(KEYS).select("id", below(NODES, 1, "GET", "id").alias("node"), *key)
askers = simulation.nodes.select(
    "node", F.col("id_hi").alias("from_hi"), F.col("id_lo").alias("from_lo")
)
gets = asking.join(askers, "node", "inner").select("*", kind, empty)
messages = overlay.route(Lookup(store), gets, trail=True, name="GET").union()
lookups = overlay.travelled(messages)  # hops, delay_us; direct_us between the ends
moved = F.sum(F.when(F.col("hops") > 0, F.col("delay_us")))
stretch = (moved / F.sum("direct_us")).alias("stretch")
display(lookups.groupBy("kind").agg(F.count("value"), F.avg("hops"), F.max("hops"), stretch))
