"""The section ``overlay``: Pastry's nodes and their tables (JSAC 2002, Section II)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from scribe_spark.config.can import MOST_DIMENSIONS
from scribe_spark.config.section import Flat, Section, Text, Whole
from scribe_spark.config.used_when import nodes_arrive, used_when

#: A node's number has to fit into 31 bits.
MOST_NODES = 2**31 - 1

#: With so little growth a wave is one node, in the largest overlay too.
LEAST_GROWTH = 1.0000000001


_OF_ARRIVALS = used_when(
    nodes_arrive,
    "nodes that arrive: --overlay arrivals, --generator churn or flash-crowd, or --events",
)
_OF_CAN = used_when(
    lambda config: config.overlay.kind not in ("perfect", "arrivals"), "--overlay can"
)

#: The name of a kind of overlay.
_Kind = Annotated[Text, Flat("overlay")]


def _kind(default: str) -> Any:
    return Field(
        default=default,
        description="Source of the nodes' tables: arrivals (nodes join by the papers' protocol), "
        "perfect (every entry is the nearest node), can (zones of a torus, no Pastry), or an "
        "overlay of your own",
    )


class OverlayConfig(Section):
    """Pastry's nodes and their tables; the defaults are the paper's."""

    kind: _Kind = _kind("arrivals")
    nodes: int = Field(default=100_000, ge=1, le=MOST_NODES, description="Overlay nodes, N")
    b: Annotated[Literal[1, 2, 4, 8], Whole] = Field(
        default=4, description="Digits of nodeIds have base 2^b"
    )
    leaf_set: int = Field(
        default=16,
        ge=2,
        le=128,
        multiple_of=2,
        description="Nodes of a leaf set, l; an even number",
    )
    node_ids: Literal["uniform", "sha1"] = Field(
        default="uniform", description="NodeIds: uniform, or SHA-1 of the node's name"
    )
    growth: Annotated[float, _OF_ARRIVALS] = Field(
        default=1.25,
        ge=LEAST_GROWTH,
        le=1000.0,
        description="Arrivals: a wave adds floor(n (growth - 1)) nodes to n, at least one; its "
        "nodes see the overlay before the wave",
    )
    contact: Annotated[Literal["nearest", "latest", "random", "discovered"], _OF_ARRIVALS] = Field(
        default="nearest",
        description="Arrivals: node that a newcomer asks first: the nearest (ties by nodeId),"
        " latest (ties by arrival), a random one, or the result of a search for a"
        " near node (discovered)",
    )
    introduce: Annotated[bool, _OF_ARRIVALS] = Field(
        default=True,
        description="Arrivals: nodes of a wave whose join messages take the same route learn "
        "of each other",
    )
    maintenance: Annotated[int, _OF_ARRIVALS] = Field(
        default=0,
        ge=0,
        le=100,
        description="Arrivals: rounds of routing table maintenance after each wave, m",
    )
    dimensions: Annotated[int, Flat("overlay_dimensions"), _OF_CAN] = Field(
        default=6, ge=1, le=MOST_DIMENSIONS, description="CAN as the overlay: dimensions, d"
    )


class SettledOverlayConfig(OverlayConfig):
    """An overlay whose tables have long settled: where worlds begin, and the look-ups of trees."""

    kind: _Kind = _kind("perfect")
