"""The configurations whose results are recorded, and the input files that some of them read.

Flags have the flat names of the command line.  ``{inputs}`` in a value is the folder of the files
that :func:`write_inputs` makes, ``{data}`` the project's ``data``.
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: What rows begin with: about 117 routers; a transit router and a stub router; a configuration that
#: sheds, on a small network, because refused JOINs take many rounds each.
NETWORK: dict[str, Any] = {
    **{"transit_domains": 3, "transit_size": 3, "stubs_per_transit": 3, "stub_size": 4}
}
_BEGINS = {"NETWORK": NETWORK, "LEAST_NETWORK": dict.fromkeys(NETWORK, 1)}
_BEGINS["SHED"] = NETWORK | {"nodes": 150, "groups": 10, "variants": "bottleneck", "limit": 10}


def rows_of(text: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each row, ``name: BEGIN setting=value ...``, by its name.

    A line with four blanks goes on with the row.  Values are JSON, or words as they stand.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, row in re.findall(r"^(\w+): (.*(?:\n {4}.*)*)", text, re.M):
        found[name] = {}
        for word in row.split():
            setting, is_given, value = word.partition("=")
            found[name] |= {setting: _value(value)} if is_given else _BEGINS[setting]
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


_CONFIGURATIONS = rows_of("""
# sizes
one_node: LEAST_NETWORK nodes=1 groups=3 variants=bottleneck,collapse,lazy
    write_routing_table=true
two_nodes: LEAST_NETWORK nodes=2 groups=3 variants=bottleneck,collapse,lazy
    write_routing_table=true
# the leaf set is the entire ring
17_nodes: NETWORK nodes=17 groups=6 variants=bottleneck,collapse,lazy limit=2 shed_table=whole
    write_routing_table=true
40_nodes: NETWORK nodes=40 groups=4 b=8 leaf_set=128 node_ids=sha1 source=direct group_size=40
    write_routing_table=true
no_groups: NETWORK nodes=100 groups=0 variants=bottleneck,collapse,lazy
# Pastry
b1_leaf2: NETWORK nodes=500 groups=25 b=1 leaf_set=2 tie=seeded lan_delay_ms=0.001
    variants=bottleneck,collapse,lazy limit=8 write_routing_table=true
b2_routed: NETWORK nodes=700 groups=30 b=2 source=routed node_ids=sha1
    variants=bottleneck,collapse,lazy limit=16 write_routing_table=true
b4_leaf2_direct: NETWORK nodes=1000 groups=40 leaf_set=2 source=direct variants=lazy limit=8
    write_routing_table=true
b8_creator: NETWORK nodes=1200 groups=40 b=8 group_ids=creator variants=collapse
    write_routing_table=true
# what an overloaded node drops; with `whole`, JOINs are refused and sent again
shed_largest_farthest_whole: SHED shed_table=whole
shed_largest_nearest: SHED shed_child=nearest
shed_largest_random_whole: SHED shed_child=random shed_table=whole
shed_random_farthest: SHED shed_group=random source=routed
shed_random_nearest_whole: SHED shed_group=random shed_child=nearest shed_table=whole
shed_random_random: SHED shed_group=random shed_child=random
# users' tables
members_csv: NETWORK nodes=300 members={inputs}/members.csv capacities={inputs}/capacities.csv
    variants=bottleneck,collapse,lazy
members_parquet: NETWORK nodes=300 members={inputs}/members.parquet
    capacities={inputs}/capacities.parquet variants=bottleneck,lazy shed_table=whole
    group_ids=creator source=direct
# topologies
power_law_matrices: topology=power-law power_law_routers=400 power_law_links=700 nodes=600
    groups=30 tie=seeded variants=bottleneck,collapse,lazy limit=16
power_law_searched: topology=power-law power_law_routers=10050 power_law_links=14000 nodes=300
    groups=15 variants=collapse write_routing_table=true
topohub: topology=topohub:sndlib/germany50 nodes=500 groups=25
tiny: topology={data}/tiny_topology.csv members={data}/tiny_members.csv nodes=20
    variants=bottleneck,collapse,lazy limit=3 write_routing_table=true
edge_list_weights: topology={inputs}/edges.csv nodes=300 groups=20 tie=seeded seed=9
    source=routed
edge_list_parquet: topology={inputs}/edges.parquet nodes=300 groups=20
extra_links: NETWORK nodes=400 groups=20 extra_transit_stub=8 extra_stub_stub=8 p_top=0.7
    p_transit=0.9 p_stub=0.3 gtitm_quirk=false tie=seeded
# groups and seeds
groups_of_11: NETWORK nodes=1000 groups=500 group_size=11 variants=collapse,lazy
groups_of_all: NETWORK nodes=150 groups=6 zipf_exponent=0.0 lan_delay_ms=3.5
    seed=-9223372036854775808
small_zipf: NETWORK nodes=300 groups=60 zipf_exponent=3.0 seed=9223372036854775807 source=direct
# the paper's network
preset_routed: nodes=1500 groups=40 source=routed seed=3
preset_10000: nodes=10000 groups=150 variants=bottleneck,collapse,lazy
""")


#: Name -> flags.  Each has a seed of its own, which depends on nothing but its name.
CONFIGURATIONS = {
    name: {"seed": zlib.crc32(name.encode()) % 10_000, "overlay": "perfect"} | flags
    for name, flags in _CONFIGURATIONS.items()
}


#: Nodes of the configurations with input files.
FILE_NODES = CONFIGURATIONS["members_csv"]["nodes"]


def write_inputs(folder: Path) -> None:
    """Write the input files: the same numbers at every call, without any random generator."""
    for name, frame in (("members", _members()), ("capacities", _capacities())):
        frame.to_csv(folder / f"{name}.csv", index=False)
        # rows in another order: results must not depend on it
        frame.iloc[::-1].to_parquet(folder / f"{name}.parquet", index=False)
    edges = _edges()
    edges.to_csv(folder / "edges.csv", index=False)
    edges.drop(columns="weight").to_parquet(folder / "edges.parquet", index=False)


def _members() -> pd.DataFrame:
    """Groups whose ids are no ranks, of 1 to 200 members: ``group, node``."""
    sizes = {1000: 200, 2: 90, 30: 90, 4: 31, 5_000_000_000: 7, 17: 2, 3: 1}
    rows = [
        (group, (7 * place + 13 * number) % FILE_NODES)  # 7 and FILE_NODES share no factor
        for number, (group, size) in enumerate(sizes.items())
        for place in range(size)
    ]
    return pd.DataFrame(rows, columns=["group", "node"])


def _capacities() -> pd.DataFrame:
    """A limit of 1 to 9 for each node: ``node, limit``."""
    node = np.arange(FILE_NODES)
    return pd.DataFrame({"node": node, "limit": 1 + node * node % 9})


def _edges() -> pd.DataFrame:
    """A ring of 60 routers with chords, weights with many ties: ``src, dst, delay_ms, weight``."""
    at = np.arange(60)
    src, dst = np.tile(at, 3), np.concatenate([(at + step) % 60 for step in (1, 7, 22)])
    number = np.arange(len(src))
    columns = {
        "src": 10 * src + 3,
        "dst": 10 * dst + 3,
        "delay_ms": 0.5 + number * 37 % 101 / 8,
        "weight": 1.0 + number % 4,
    }
    return pd.DataFrame(columns)
