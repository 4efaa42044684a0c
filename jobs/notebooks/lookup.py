# Databricks notebook source
# MAGIC %md # A lookup service on Pastry
# MAGIC Roots store values of keys. Pastry routes `PUT` and `GET` to the key, and `ANSWER` to the
# MAGIC nodeId of the node that asked (JSAC, Section II).

# COMMAND ----------

import numpy as np
from pyspark.sql import functions as F

from scribe_spark import Application, RunConfig, Simulation, Step
from scribe_spark.core.draws import below
from scribe_spark.core.u128 import half_of_digest

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("nodes", "2000", "Nodes")
dbutils.widgets.text("keys", "1000", "Keys")
NODES, KEYS = int(dbutils.widgets.get("nodes")), int(dbutils.widgets.get("keys"))


class Lookup(Application):
    """A key-value store: every root keeps the values of its keys in the state table `store`."""

    state = {"store": "node bigint, key_hi bigint, key_lo bigint, value string"}

    def deliver(self, state, messages):
        store, put = state["store"], messages["kind"] == "PUT"
        state["store"] = {name: np.r_[store[name], messages[name][put]] for name in store}
        values = dict(zip(zip(store["key_hi"], store["key_lo"]), store["value"]))
        get = {name: column[messages["kind"] == "GET"] for name, column in messages.items()}
        found = [values.get(key, "") for key in zip(get["key_hi"], get["key_lo"])]
        answer = {"kind": np.full(len(found), "ANSWER"), "value": np.array(found, dtype=str)}
        back = {"key_hi": get["from_hi"], "key_lo": get["from_lo"]}
        return Step(sent=get | back | answer, outcomes=messages)


# COMMAND ----------

simulation = Simulation(spark, RunConfig(nodes=NODES, groups=0))
overlay, name = simulation.overlay, F.sha1(F.concat(F.lit("key-"), "id"))
key = half_of_digest(name, 0).alias("key_hi"), half_of_digest(name, 1).alias("key_lo")
value = F.concat(F.lit("value-"), "id").alias("value")
zero = [F.lit(0).cast("bigint").alias(half) for half in ("from_hi", "from_lo")]
kind, node = F.lit("PUT").alias("kind"), below(NODES, 1, "PUT", "id").alias("node")
puts = spark.range(KEYS).select("id", node, *key, kind, value, *zero)
stored = overlay.route(Lookup(), puts, name="PUT").state("store")

# COMMAND ----------

# MAGIC %md A random node asks for each key. The column `value` has the answer.

# COMMAND ----------

kind, empty = F.lit("GET").alias("kind"), F.lit("").alias("value")
asking = spark.range(KEYS).select("id", below(NODES, 1, "GET", "id").alias("node"), *key)
askers = simulation.nodes.selectExpr("node", "id_hi AS from_hi", "id_lo AS from_lo")
gets = asking.join(askers, "node", "inner").select("*", kind, empty)
lookups = overlay.route(Lookup(), gets, state={"store": stored}, name="GET").outcomes()
stretch = (F.sum("delay_us") / F.sum("direct_us")).alias("stretch")
answered = F.count_if(F.col("value") != "")
display(lookups.groupBy("kind").agg(answered, F.avg("hops"), F.max("hops"), stretch))
