# Databricks notebook source
# MAGIC %md
# MAGIC # A tree over the hosts of a DHT
# MAGIC The example of Costa and Frey, "Publish-Subscribe Tree Maintenance over a DHT": hosts 5, 9,
# MAGIC 11, 13 and 15 on a ring of 16 keys. Host 4 joins, then host 13 fails (Figure 2). A host has
# MAGIC the keys after its predecessor's id up to its own id. In a binary tree of all keys, its
# MAGIC *topmost key* is its key with the least depth. Its parent is the owner of the closest key
# MAGIC above it that is the topmost key of its owner.

# COMMAND ----------

import matplotlib.pyplot as plt

from scribe_spark.systems.reference_tree.places import places
from scribe_spark.systems.reference_tree.tree import ReferenceTree

if "dbutils" not in globals():  # not on Databricks
    from scribe_spark.notebook import dbutils, display, spark

dbutils.widgets.text("hosts", "5,9,11,13,15", "Hosts (ids)")
dbutils.widgets.text("joins", "4", "Host that joins")
dbutils.widgets.text("fails", "13", "Host that fails")
dbutils.widgets.text("bits", "4", "Bits of a key")

bits = int(dbutils.widgets.get("bits"))
first = sorted(int(host) for host in dbutils.widgets.get("hosts").split(","))
joins, fails = (int(dbutils.widgets.get(name)) for name in ("joins", "fails"))
after_join = sorted([*first, joins])
after_failure = [host for host in after_join if host != fails]

# COMMAND ----------

# MAGIC %md
# MAGIC ## Positions of the hosts
# MAGIC One row for each host: its topmost key, the depth of this key, its parent, and the number of
# MAGIC look-ups by which it found its parent and its children.

# COMMAND ----------


def tree_of(ids):
    rows = [(i, 0, i) for i in ids]
    hosts = spark.createDataFrame(rows, "node bigint, id_hi bigint, id_lo bigint")
    return places(hosts, ReferenceTree(bits, children=2), "chord")


found = {
    "(a) at first": tree_of(first),
    f"(b) h{joins} has joined": tree_of(after_join),
    f"(c) h{fails} has failed": tree_of(after_failure),
}
shown = ["node", "topmost_lo", "depth", "parent", "parent_lookups", "child_lookups"]
for title, tree in found.items():
    print(title)
    display(tree.select(shown).orderBy("node"))
trees = {title: tree.toPandas().set_index("node") for title, tree in found.items()}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Changes
# MAGIC The links that each event removed or created, and the hosts at their ends.

# COMMAND ----------


def links(tree):
    above = tree["parent"].dropna().astype(int)
    return {frozenset(link) for link in above.items()}


changes = {}
before = None
for title, tree in trees.items():
    if before is not None:
        gone, new = links(before) - links(tree), links(tree) - links(before)
        changes[title] = {
            "removed": sorted(sorted(link) for link in gone),
            "created": sorted(sorted(link) for link in new),
            "hosts": sorted({host for link in gone | new for host in link}),
        }
        print(title, changes[title])
    before = tree

# COMMAND ----------

# MAGIC %md
# MAGIC ## Figure 2
# MAGIC Grey: the tree of keys. Circles: the hosts, at their topmost keys. Red: new links.

# COMMAND ----------

figure, panels = plt.subplots(1, 3, figsize=(13, 3.6), sharey=True)
before = None
for axes, (title, tree) in zip(panels, trees.items(), strict=True):
    for key in range(2**bits):  # the parent of a key is one bit shorter; key 0 is a child of key 1
        bit = key & -key
        up = (key & ~(3 * bit)) | 2 * bit if key else 1
        depth = bits - bit.bit_length() if key else bits
        if key != 2 ** (bits - 1):
            axes.plot([key, up], [-depth, 1 - depth], color="#dddddd", zorder=1)
        axes.text(key, -depth, str(key), color="#aaaaaa", ha="center", va="center", fontsize=7)
    place = {host: (row.topmost_lo, -row.depth) for host, row in tree.iterrows()}
    old = links(tree if before is None else before)
    for one, other in map(tuple, links(tree)):
        is_new = frozenset((one, other)) not in old
        (xs, ys) = zip(place[one], place[other], strict=True)
        axes.plot(xs, ys, color="#d55e00" if is_new else "#222222", linewidth=1.8, zorder=2)
    for host, (x, y) in place.items():
        axes.scatter(x, y, s=420, color="white", edgecolors="#222222", zorder=3)
        axes.text(x, y, f"h{host}", ha="center", va="center", fontsize=8, zorder=4)
    axes.set_title(title)
    axes.axis("off")
    before = tree
display(figure)
