"""The section ``overlay``: the nodes and how they get their tables (JSAC 2002, Section II)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from scribe_spark.config.section import Differs, Flat, Section, Text, Whole, setting, within
from scribe_spark.config.used_when import nodes_arrive, used_when

#: The greatest number of nodes, as a node's number must fit into 31 bits.
MOST_NODES = 2**31 - 1

#: The greatest number of dimensions of a CAN, whose zones are halved at most 40 times: in a further
#: dimension, no zone could be halved.
MOST_DIMENSIONS = 40

#: The least growth: each wave is then one node, even in the largest overlay.
LEAST_GROWTH = 1.0000000001


_OF_ARRIVALS = used_when(
    nodes_arrive,
    "nodes that arrive: --overlay arrivals, --generator churn or flash-crowd, or --events",
)
_OF_CAN = used_when(
    lambda config: config.overlay.kind not in ("perfect", "arrivals"), "--overlay can"
)

#: In worlds, and for lookups of the reference tree, tables are perfect by default.
_SETTLED = Differs(("world", "reference-tree"), "perfect")

_Contact = Literal["nearest", "latest", "random", "discovered"]


class OverlayConfig(Section):
    """The nodes and their tables; the defaults are the paper's."""

    about: ClassVar[str] = (
        "An overlay routes messages from node to node to the root of a key, the node whose "
        "nodeId is closest to the key. In Pastry, each node has a 128-bit nodeId, a leaf set "
        "(the nodes with the nearest nodeIds) and a routing table (nodes by the first digits of "
        "their nodeIds). With --overlay perfect, flags about arrivals have an effect only on "
        "nodes that arrive in rounds."
    )

    kind: Annotated[Text, Flat("overlay"), _SETTLED] = setting(
        "arrivals",
        "How nodes get their tables: arrivals (nodes join by Pastry's protocol), perfect (each "
        "entry is the nearest fitting node), can (a CAN in place of Pastry), or the name of your "
        "own overlay",
    )
    nodes: Annotated[int, within(1, MOST_NODES)] = setting(100_000, "Number of nodes, N")
    b: Annotated[Literal[1, 2, 4, 8], Whole] = setting(
        4, "Bits of a digit of nodeIds, b: digits have base 2^b"
    )
    leaf_set: int = Field(
        default=16,
        ge=2,
        le=128,
        multiple_of=2,
        description="Number of nodes in a leaf set, l: half have smaller nodeIds, half larger; "
        "even",
    )
    node_ids: Literal["uniform", "sha1"] = setting(
        "uniform", "NodeIds are random (uniform) or SHA-1 hashes of the nodes' names (sha1)"
    )
    growth: Annotated[float, within(LEAST_GROWTH, 1000.0), _OF_ARRIVALS] = setting(
        1.25,
        "Nodes arrive in waves; each wave multiplies the number of nodes by this factor. Nodes of "
        "one wave arrive at the same time",
    )
    contact: Annotated[_Contact, _OF_ARRIVALS] = setting(
        "nearest",
        "Node that an arriving node asks first: the nearest one (of equally near ones, nearest "
        "takes the smallest nodeId, latest the last arrival), a random one, or one that Pastry's "
        "search for a near node finds (discovered)",
    )
    introduce: Annotated[bool, _OF_ARRIVALS] = setting(
        True, "Nodes of one wave learn of each other if their join messages meet on the way"
    )
    maintenance: Annotated[int, within(0, 100), _OF_ARRIVALS] = setting(
        0,
        "Rounds after each wave of arrivals in which nodes exchange rows of their routing tables, "
        "m",
    )
    dimensions: Annotated[int, within(1, MOST_DIMENSIONS), Flat("overlay_dimensions"), _OF_CAN] = (
        setting(6, "Dimensions of the space with --overlay can, d")
    )
