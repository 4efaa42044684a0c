"""The section ``overlay``: Pastry's nodes and their tables (JSAC 2002, Section II)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scribe_spark.config.section import Flat, Section, Text, Whole

__all__ = ["MOST_NODES", "OverlayConfig"]

#: A node's number has to fit into 31 bits.
MOST_NODES = 2**31 - 1


class OverlayConfig(Section):
    """Pastry's nodes and their tables; the defaults are the paper's."""

    kind: Annotated[Text, Flat("overlay")] = Field(
        default="perfect",
        description="How the nodes' tables are filled: perfect (every entry is the nearest node), "
        "or the name of a registered overlay",
    )
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
