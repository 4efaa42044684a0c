# Databricks notebook source
# MAGIC %md # A lookup service on Pastry
# MAGIC A second application beside Scribe. The root of a key keeps its value: `PUT` and `GET` go to
# MAGIC the key, `ANSWER` to the nodeId of the node that asked; all are routed (JSAC, Section II).

# COMMAND ----------

from pyspark.sql import functions as F

from scribe_spark import Application, RunConfig, Simulation, Step, Table
from scribe_spark.core.u128 import half_of_digest
from scribe_spark.draws import below
from scribe_spark.overlay import start_path

dbutils.widgets.text("nodes", "2000", "Nodes")
dbutils.widgets.text("keys", "1000", "Keys")
NODES, KEYS = int(dbutils.widgets.get("nodes")), int(dbutils.widgets.get("keys"))
STORED = ["node", "key_hi", "key_lo"]


class Lookup(Application):
    """A key-value store: every root keeps the values of its keys in the state table `store`."""

    def __init__(self):
        super().__init__({"store": Table(STORED, ["value"])})

    def deliver(self, state, messages, round):
        if "path" not in messages.columns:  # PUT
            return Step(changes={"store": messages.select(*STORED, "value")})
        get = messages.where("kind = 'GET'").drop("value")
        found = get.join(state["store"].rows(), STORED, "left")
        back = {"key_hi": F.col("from_hi"), "key_lo": F.col("from_lo"), "kind": F.lit("ANSWER")}
        return Step(found.withColumns(back | {"path": start_path()}), outcomes=messages)


# COMMAND ----------

simulation = Simulation(spark, RunConfig(nodes=NODES, groups=0))
overlay, name = simulation.overlay, F.sha1(F.concat(F.lit("key-"), "id"))
key = half_of_digest(name, 0).alias("key_hi"), half_of_digest(name, 1).alias("key_lo")
value = F.concat(F.lit("value-"), "id").alias("value")
puts = spark.range(KEYS).select(below(NODES, 1, "PUT", "id").alias("node"), *key, value)
overlay.route(lookup := Lookup(), puts, name="PUT").release()  # kept in `lookup.state`

# COMMAND ----------

# MAGIC %md Each key is looked up from a random node; the answer says `value` once it is back there.

# COMMAND ----------

kind, empty = F.lit("GET").alias("kind"), F.lit(None).cast("string").alias("value")
asking = spark.range(KEYS).select("id", below(NODES, 1, "GET", "id").alias("node"), *key)
askers = simulation.nodes.select(
    "node", F.col("id_hi").alias("from_hi"), F.col("id_lo").alias("from_lo")
)
gets = asking.join(askers, "node", "inner").select("*", kind, empty, start_path())
messages = overlay.route(lookup, gets, name="GET").outcomes()
lookups = overlay.add_path_delay(messages)  # hops, delay_us; direct_us between the ends
stretch = (F.sum("delay_us") / F.sum("direct_us")).alias("stretch")
display(lookups.groupBy("kind").agg(F.count("value"), F.avg("hops"), F.max("hops"), stretch))
