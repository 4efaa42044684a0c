# Databricks notebook source
# MAGIC %md
# MAGIC # Tutorial: one message, 200 nodes
# MAGIC
# MAGIC You look at 200 nodes and at a tree that carries messages to 40 of them, let the root of the
# MAGIC tree fail, compare the tree with a mesh, and write a forwarding rule of your own, in about
# MAGIC 45 minutes. Write down each prediction before you run the code below it. Each step ends with
# MAGIC a question; click on *Answer* to see its answer.
# MAGIC
# MAGIC You need a clone of the repository and `make setup` ([README](../README.md)). Paste the
# MAGIC blocks one after the other into Jupyter, or into `.venv/bin/python`, which does not show the
# MAGIC pictures of this page. Databricks can import the page as a notebook:
# MAGIC `jobs/notebooks/tutorial.py`.

# COMMAND ----------

from math import log

import pandas as pd
from pyspark.sql import functions as F

from scribe_spark import Application, RunConfig, Simulation, Step, WorldConfig, make_world
from scribe_spark.core.draws import below
from scribe_spark.dissemination import all_but_sender, disseminate, random_peers
from scribe_spark.report.ring import ring_picture
from scribe_spark.report.tree_scene import scene_figures, scene_of, tree_picture
from scribe_spark.worlds import world_events

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, displayHTML, spark

dbutils.widgets.text("nodes", "100000", "Nodes of the last step")
FEW, MANY = 200, int(dbutils.widgets.get("nodes"))

config = RunConfig(
    nodes=FEW,
    groups=1,
    group_size=40,
    source="direct",
    systems="scribe,ip_multicast,naive_unicast,gossipsub",
    overlay="perfect",
    gossipsub_joins="at_once",
    gossipsub_flood_publish=False,
    seed=9,
)
simulation = Simulation(spark, config)

# COMMAND ----------

# MAGIC %md
# MAGIC Two hundred hosts are attached to a network of 5,050 routers. One group has 40 members, and
# MAGIC one of them sends a message. Nothing is computed until you ask for it. The same seed gives
# MAGIC the same numbers on every machine. With `overlay="perfect"`, nodes begin with perfect
# MAGIC tables, as in step 5; otherwise they fill their tables by joining one after the other.
# MAGIC
# MAGIC ## 1. Look at the ring
# MAGIC
# MAGIC A *node* is a host with a *nodeId*: a random number of 128 bits. These numbers form a ring,
# MAGIC on which 0 follows the largest. In *Pastry*, the overlay network below Scribe, a node knows
# MAGIC only a few other nodes:
# MAGIC
# MAGIC - its *leaf set*: the 16 nodes that are next to it on the ring;
# MAGIC - its *routing table*: row 0 has, for each hexadecimal digit, one node whose nodeId begins
# MAGIC   with this digit. Row 1 has nodes that share the first digit with the node, one for each
# MAGIC   second digit, and so on.

# COMMAND ----------

nodes = simulation.nodes.toPandas()
leafs = simulation.leaf_sets.where("node = 0").toPandas()["leaf"]
cells = simulation.routing_table.where("node = 0 AND row = 0").toPandas()["entry"]
known = {"row 0 of its routing table": cells, "its leaf set": leafs, "node 0": [0]}
displayHTML(ring_picture("ring", "The ring of nodeIds, and nodes that node 0 knows", nodes, known))

# COMMAND ----------

# MAGIC %md
# MAGIC The grey digits are first digits of nodeIds. The leaf set is beside node 0; row 0 is all
# MAGIC around the ring.
# MAGIC
# MAGIC **Predict.** Does a message to a node of the leaf set, a neighbour on the ring, take less
# MAGIC time than a message to any other node? And a message to a node of row 0?

# COMMAND ----------

sender = simulation.nodes.select("node", "router")
receiver = sender.withColumnsRenamed({"node": "to", "router": "to_router"})
row_0 = simulation.routing_table.where("row = 0")
knows = {
    "any node": sender.select("node").crossJoin(receiver.select("to")).where("node != to"),
    "a node of the leaf set": simulation.leaf_sets.withColumnRenamed("leaf", "to"),
    "a node of row 0": row_0.withColumnRenamed("entry", "to"),
}
for words, pairs in knows.items():
    routers = pairs.join(sender, "node").join(receiver, "to")
    delays = simulation.underlay.delay(routers, "router", "to_router")
    print(f"{words:<22} {delays.agg(F.avg('delay_us')).first()[0] / 1000:5.0f} ms")

# COMMAND ----------

# MAGIC %md
# MAGIC A neighbour on the ring is as far away as any node: nodeIds are random, so they say nothing
# MAGIC about the network. But for each digit of row 0, the node has a choice of about twelve nodes,
# MAGIC and the table has the nearest of them.
# MAGIC
# MAGIC **Question.** Are the nodes of row 1 nearer or farther than those of row 0? (Try `row = 1`.)
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC Farther, nearly as far as any node. Two digits have 256 values, more than there are nodes,
# MAGIC so a cell of row 1 has hardly a choice.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 2. Follow a route
# MAGIC
# MAGIC Messages go to *keys*, which are numbers on the ring, too. The destination is the *root* of
# MAGIC the key: the live node whose nodeId is closest to the key. Each node sends the message to a
# MAGIC node of its routing table that shares one digit more with the key, or, near the end, to the
# MAGIC right node of its leaf set.
# MAGIC
# MAGIC **Predict.** How many hops does a message take among 200 nodes, if each hop finds one
# MAGIC hexadecimal digit? By which factor does this take longer than a message that goes directly
# MAGIC to the root?
# MAGIC
# MAGIC In the code, `Traced` is a program on every node. `forward` gets all messages that pass a
# MAGIC node, and sends them on; here it also records them.

# COMMAND ----------


class Traced(Application):
    def forward(self, state, messages):
        return Step(onward=messages, outcomes=messages)


def routes_of(simulation):
    start = below(simulation.node_count, 1, "start", "id").alias("node")
    key = F.xxhash64("id").alias("key_hi"), F.lit(0).cast("bigint").alias("key_lo")
    messages = spark.range(1000).select(F.col("id").alias("message"), start, *key)
    passed = simulation.overlay.route(Traced(), messages).outcomes()
    return passed.toPandas().sort_values(["message", "hops"])


routes = routes_of(simulation)
ends = routes[routes["next"].isna()]  # each message at its root
print(f"log_16 {FEW} = {log(FEW, 16):.2f}")
print(f"hops: {ends['hops'].mean():.2f}")
print(f"delay / direct delay: {ends['delay_us'].sum() / ends['direct_us'].sum():.2f}")
ms = routes.groupby("message")["delay_us"].diff().groupby(routes["hops"]).mean() / 1000
for hop in (1, 2):
    print(f"hop {hop}: {ms[hop]:.0f} ms")

# COMMAND ----------

# MAGIC %md
# MAGIC The number of hops is as expected, but two hops do not take twice the time of one. The first
# MAGIC hop is short: it goes to a node of row 0. The second one has no choice.

# COMMAND ----------

route = routes[routes["message"] == ends.loc[ends["hops"].idxmax(), "message"]]
key, path = int(route["key_hi"].iloc[0]), route["node"].tolist()
displayHTML(ring_picture("route", "The route of a message", nodes, route=path, key=key))

# COMMAND ----------

# MAGIC %md
# MAGIC The first hop jumps over the ring to the first digit of the key; the others are small steps
# MAGIC towards the key.
# MAGIC
# MAGIC **Question.** If nodes filled row 0 with a random suitable node, and not with the nearest,
# MAGIC would the hops or the delay change?
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC The delay: the first hop would take as long as a message to any node, so the factor would be
# MAGIC about the number of hops. The hops would not change, as digits decide them.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 3. Grow a tree
# MAGIC
# MAGIC A *group* has a key, and the root of this key is the root of the group's tree. Each member
# MAGIC sends a JOIN towards the key. The first node on the route makes the sender its *child*. If
# MAGIC this node is not in the tree yet, it sends a JOIN, too. A node in the tree that is no member
# MAGIC is a *forwarder*.
# MAGIC
# MAGIC **Predict.** How deep is the tree of 40 members? How many children has its busiest node?

# COMMAND ----------

members = simulation.members.toPandas()["node"]
root = int(simulation.multicast_groups.first()["root"])
edges = simulation.table("scribe", "tree_edges").toPandas()
tree = pd.DataFrame({"node": [root, *edges["child"]], "parent": [None, *edges["parent"]]})
tree["member"], tree["root"] = tree["node"].isin(members), tree["node"] == root
print(f"busiest node: {tree['parent'].value_counts().max()} children")
displayHTML(tree_picture("tree", "The tree of a group with 40 members", tree))

# COMMAND ----------

# MAGIC %md
# MAGIC The tree is as deep as routes have hops. No node knows the whole tree: each knows its parent
# MAGIC and its children.
# MAGIC
# MAGIC **Question.** The messages of the group are of no use for a forwarder. Why are there
# MAGIC forwarders?
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC They are on the routes of members. Without them, members would have to know other members,
# MAGIC or all join at the root, which would then have 39 children.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 4. Publish a message
# MAGIC
# MAGIC A member publishes: the message goes to the root, then down the tree. There are two other
# MAGIC ways. With *IP multicast*, routers copy the message where the routes to the members part.
# MAGIC With *naive unicast*, the source sends a copy to each member. The *delay* of a member is the
# MAGIC time until it has the message.
# MAGIC
# MAGIC **Predict.** Which of the three has the least mean delay, which the greatest?

# COMMAND ----------

mean, most = (how(F.col("delay_us") / 1000) for how in (F.avg, F.max))
for system in ("ip_multicast", "naive_unicast", "scribe"):
    delays = simulation.table(system, "deliveries").agg(mean, most).first()
    print(f"{system:<14} mean {delays[0]:5.0f} ms, maximum {delays[1]:5.0f} ms")

# COMMAND ----------

# MAGIC %md
# MAGIC Naive unicast is as fast as IP multicast: both use the direct routes from the source. In
# MAGIC Scribe, a message makes one hop to the root, and one or two down the tree. The mean delay of
# MAGIC a group in Scribe, divided by that with IP multicast, is its *RAD* (ratio of average
# MAGIC delays), here about two.
# MAGIC
# MAGIC **Question.** Why not always use naive unicast?
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC The source must know all members, and send 39 copies; in a group of 100,000 members, 99,999.
# MAGIC In the simulation so far, sending takes no time. With `message_size` and `uplink`, copies
# MAGIC wait for each other ([how-to](tutorial_gossipsub.md#3-give-the-message-a-size)).
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 5. Let the root fail
# MAGIC
# MAGIC A *world* simulates the same nodes in rounds of 30 s. In each round, first nodes fail or
# MAGIC arrive, then nodes repair what they have noticed, and last a random member publishes. In
# MAGIC round 2, the root fails without notice. A node notices that its parent has failed when it
# MAGIC has heard nothing for two rounds.
# MAGIC
# MAGIC **Predict.** In which round do all members get the message again? Who is the next root?

# COMMAND ----------


def play(systems, **changes):
    config = WorldConfig(
        nodes=FEW, groups=1, group_size=40, systems=systems, generator="publications",
        gossipsub_joins="at_once", rounds=7, lookups=0, seed=9, **changes,
    )  # fmt: skip
    failure = spark.createDataFrame(
        [(2, root, "fail", None)], "round int, node bigint, event string, group bigint"
    )
    with Simulation(spark, config) as simulation:
        events = world_events(simulation.nodes, config).unionByName(failure)
        world = make_world(simulation, config, events)
        trees, published = [], []
        for _ in range(config.world.rounds):
            world.step()
            trees.append(world.watched_trees)
            published.append(world.publications)
        world.release()
    reached = pd.concat(published).pivot(index="round", columns="system", values="in_time")
    print(reached)
    return pd.concat(trees)


trees = play("scribe")
for figure in scene_figures(scene_of(trees)):
    displayHTML(figure.drawing)

# COMMAND ----------

# MAGIC %md
# MAGIC The table has the number of members, without the old root, that get the message of a round
# MAGIC in this round. The neighbour of the old root on the ring, node 144, is now closest to the
# MAGIC key, so it is the new root at once. But the other children of the old root (the *orphans*)
# MAGIC wait two rounds before they send a new JOIN. Until then, the new root reaches only its own
# MAGIC children.
# MAGIC
# MAGIC **Question.** What changes with `play("scribe", parent_timeout=1)`? What may this cost in a
# MAGIC real network?
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC The tree is repaired one round earlier. But a parent that is only slow now looks dead, and
# MAGIC its children join elsewhere without need.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 6. Compare with a mesh
# MAGIC
# MAGIC In GossipSub, each member has links to some random others, its *mesh*, and aims at six
# MAGIC links. A node sends its first copy of a message on all its links but the one from which the
# MAGIC copy came.
# MAGIC
# MAGIC **Predict.** How many copies are sent to reach 39 members? What happens when the node that
# MAGIC was Scribe's root fails?

# COMMAND ----------

links = simulation.table("gossipsub", "state").where("kind = 'mesh'")
copies = simulation.table("gossipsub", "copies").where("kind = 'payload'").toPandas()
print(f"links: {links.agg(F.sum('entries')).first()[0]}; copies: {len(copies)}")
source = int(simulation.multicast_groups.first()["source"])
group = nodes[nodes["node"].isin(members)]
displayHTML(
    ring_picture("mesh", "A message in the mesh of GossipSub", group, links=copies, source=source)
)
trees = play("scribe,gossipsub")

# COMMAND ----------

# MAGIC %md
# MAGIC Thin lines are *duplicates*: copies for nodes that already have the message. The number of
# MAGIC copies follows from the links: all nodes send on all their links, but 39 of them not on the
# MAGIC one from which their copy came. A node has more than six links in the mean, because it asks
# MAGIC for six, but accepts up to twelve. Duplicates are the price of the last table: no round
# MAGIC loses a message, as nobody depends on a single other node.
# MAGIC
# MAGIC **Question.** How many links must a node have at least, so that a single failure cuts off
# MAGIC nobody? Why does GossipSub take more?
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC Two: a circle survives one failure. But a message makes up to 20 hops on a circle, and a
# MAGIC second failure cuts it in two. With more links, paths are shorter, and more failures are
# MAGIC harmless.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 7. Write a rule
# MAGIC
# MAGIC Which links are worth a copy? Now all 200 nodes are members, and each has links to eight
# MAGIC random nodes, its *peers*. The rule `all_but_sender` floods: a node sends to all peers. Your
# MAGIC rule gets, for many links at once, the first copy of a node (`first`) and the link
# MAGIC (`edges`), and says whether the node sends on this link. Nodes that are at most two hops
# MAGIC from the source send to all peers, as few nodes have the message yet; later ones send to one
# MAGIC peer:

# COMMAND ----------


def early(first, edges):
    one_of_the_first = first["hops"] < 3
    one_peer = edges["rank"] < 1
    return one_of_the_first | one_peer


def spread(nodes, *rules):
    config = RunConfig(nodes=nodes, groups=1, overlay="perfect", source="direct", seed=9)
    with Simulation(spark, config) as simulation:
        links = random_peers(simulation, 8)
        sources = simulation.multicast_groups.select("group", "source")
        where = simulation.overlay.ring, simulation.underlay
        for rule in rules:
            sent = disseminate(*where, links, sources, rule=rule, carried=("delay_us",))
            copies, reached = sent.copies.frame.count(), sent.deliveries.frame.count() + 1
            print(f"{rule.__name__:<14} {copies / nodes:.2f} copies a node", end=", ")
            print(f"{reached / nodes:.2%} of {nodes:,} nodes reached")
            sent.release()


# COMMAND ----------

# MAGIC %md
# MAGIC **Predict.** How many copies does the rule save, and how many nodes does it miss?

# COMMAND ----------

spread(FEW, all_but_sender, early)

# COMMAND ----------

# MAGIC %md
# MAGIC The rule saves more than half of the copies. But it misses the nodes to which nobody sends.
# MAGIC
# MAGIC **Question.** Which number do you change so that fewer nodes are missed? Try it.
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC More peers (`edges["rank"] < 2`), or more hops (`first["hops"] < 4`). The second change
# MAGIC costs more copies, but no node is missed.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## 8. The same with 100,000 nodes
# MAGIC
# MAGIC You change one number. The code takes some minutes.
# MAGIC
# MAGIC **Predict.** How many hops have routes among 100,000 nodes? How many nodes do the two rules
# MAGIC reach, and how many the rule `downhill`, which sends to three peers, and to those that are
# MAGIC nearer than the node from which the message came?

# COMMAND ----------


def downhill(first, edges):
    three_peers = edges["rank"] < 3
    nearer = edges["delay_us"] < first["delay_us"]
    return three_peers | nearer | (first["hops"] == 0)


with Simulation(spark, config.replace(nodes=MANY)) as large:
    routes = routes_of(large)
    print(f"hops: {routes.loc[routes['next'].isna(), 'hops'].mean():.2f}")

spread(FEW, downhill)
spread(MANY, all_but_sender, early, downhill)
simulation.close()

# COMMAND ----------

# MAGIC %md
# MAGIC Routes have only two hops more, although there are 500 times as many nodes. Flooding still
# MAGIC reaches nearly all nodes, but your rule fails. Three hops reach most of 200 nodes; of
# MAGIC 100,000, they reach at most 8 + 64 + 512, and then everybody sends only one copy. The rule
# MAGIC was right for one size of network. The rule `downhill` compares delays, which do not grow
# MAGIC with the number of nodes. This is why one simulates large networks.
# MAGIC
# MAGIC **Question.** Flooding misses a few of the 100,000 nodes. Which?
# MAGIC
# MAGIC <details markdown="1"><summary>Answer</summary>
# MAGIC
# MAGIC Nodes that nobody has chosen as a peer. In the mean, eight nodes choose a node, so none does
# MAGIC with probability e<sup>-8</sup>, or 0.034 %. GossipSub has no such nodes, as its links go
# MAGIC both ways.
# MAGIC
# MAGIC </details>
# MAGIC
# MAGIC ## Where to go next
# MAGIC
# MAGIC - [concepts.md](concepts.md) explains the model and the measures.
# MAGIC - [How to repeat the Scribe paper](tutorial_paper.md) and [how to measure
# MAGIC   GossipSub](tutorial_gossipsub.md) use the command line.
# MAGIC - [extending.md](extending.md) makes a rule a system, with all measures.
