"""The section ``reference_tree`` of a world: the tree of Costa and Frey over its live nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from scribe_spark.config.section import Flat, Section
from scribe_spark.config.trees import MOST_REFERENCE_CHILDREN
from scribe_spark.errors import InputError


class LiveTreeConfig(Section):
    """The settings of a world's reference tree, if it has one."""

    kept: Annotated[bool, Flat("reference_tree")] = Field(
        default=False,
        description="Also maintain the reference tree over the live nodes, and count its messages "
        "in each round",
    )
    children: Annotated[int, Flat("reference_children")] = Field(
        default=2,
        ge=2,
        le=MOST_REFERENCE_CHILDREN,
        description="Reference tree: greatest number of children of a key in the tree of all keys",
    )
    assignment: Annotated[Literal["pastry", "chord"], Flat("reference_assignment")] = Field(
        default="pastry",
        description="Reference tree: a node holds the keys nearest to its nodeId (pastry), or the "
        "keys after its predecessor's nodeId up to its own (chord)",
    )

    @model_validator(mode="after")
    def _is_kept(self) -> LiveTreeConfig:
        if self.kept:
            return self
        for name, flat in self.flat_names().items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                raise InputError(
                    flat, value, "applies to the reference tree only; add --reference-tree"
                )
        return self
