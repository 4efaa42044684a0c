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
        description="How the nodes' tables are filled: arrivals (nodes arrive by the papers' "
        "protocol), perfect (every entry is the nearest node; the default of worlds and of the "
        "reference tree); can (no Pastry: the nodes' zones of a torus); or the name of a "
        "registered overlay",
    )


class OverlayConfig(Section):
    """Pastry's nodes and their tables; the defaults are the paper's."""

    kind: _Kind = _kind("arrivals")
    nodes: int = Field(default=100_000, ge=1, le=MOST_NODES, description="Overlay nodes, N")
    b: Annotated[Literal[1, 2, 4, 8], Whole] = Field(
        default=4, description="Digits of nodeIds are base 2^b"
    )
    leaf_set: int = Field(
        default=16,
        ge=2,
        le=128,
        multiple_of=2,
        description="Nodes of a leaf set, l; an even number",
    )
    node_ids: Literal["uniform", "sha1"] = Field(
        default="uniform", description="NodeIds: uniform, or the SHA-1 of the node's name"
    )
    growth: Annotated[float, _OF_ARRIVALS] = Field(
        default=1.25,
        ge=LEAST_GROWTH,
        le=1000.0,
        description="Arrivals: of n nodes, a wave has floor(n (growth - 1)) more, at least one; "
        "all of a wave see the overlay as it was before",
    )
    contact: Annotated[Literal["nearest", "latest", "random", "discovered"], _OF_ARRIVALS] = Field(
        default="nearest",
        description="Arrivals: whom an arriving node asks first: the nearest node, of equally near "
        "ones that with the smallest nodeId, or the latest to arrive; any node; or the "
        "one that nearby-node search from any node ends with, its probes counted",
    )
    introduce: Annotated[bool, _OF_ARRIVALS] = Field(
        default=True,
        description="Arrivals: a node that has announced itself learns from the nodes on its route "
        "of those of its wave that came earlier, and tells them of itself",
    )
    maintenance: Annotated[int, _OF_ARRIVALS] = Field(
        default=0,
        ge=0,
        le=100,
        description="Arrivals: how often routing tables are maintained after each wave, m",
    )
    dimensions: Annotated[int, Flat("overlay_dimensions"), _OF_CAN] = Field(
        default=6, ge=1, le=MOST_DIMENSIONS, description="CAN as the overlay: dimensions, d"
    )


class SettledOverlayConfig(OverlayConfig):
    """An overlay whose tables have long settled: where worlds begin, and the look-ups of trees."""

    kind: _Kind = _kind("perfect")
