"""What a run is: sections of fields, each of which has a flat name too.

A config says *what* is simulated and holds no Spark object.  Where it runs and where it writes is
`Execution`: that never changes a result, so it is not part of what two runs are compared by.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from pydantic import Field, model_validator

from scribe_spark.config.flatten import flatten
from scribe_spark.config.groups import MOST_MEMBERSHIPS, GroupsConfig
from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.section import Section
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.config.trees import TreesConfig
from scribe_spark.errors import InputError

__all__ = ["SECTIONS", "RunConfig", "flat_values"]

#: The sections of a run, in order.
SECTIONS: dict[str, type[Section]] = {
    "overlay": OverlayConfig,
    "groups": GroupsConfig,
    "topology": TopologyConfig,
    "trees": TreesConfig,
}


class RunConfig(Section):
    """One experiment; the defaults are those of JSAC 2002, Section IV.A to IV.D.

    Fields are given by their flat names, by section, or both.

    Examples
    --------
    >>> config = RunConfig(nodes=2_000, groups=50, variants="collapse,lazy")
    >>> config == RunConfig(
    ...     overlay={"nodes": 2_000}, groups={"count": 50}, trees={"variants": ["collapse", "lazy"]}
    ... )
    True
    >>> config.overlay.nodes, config.flat()["group_ids"], config.replace(nodes=9).overlay.nodes
    (2000, 'hash', 9)
    """

    seed: int = Field(default=1, ge=-(2**63), le=2**63 - 1, description="Key of every draw")
    topology: TopologyConfig = TopologyConfig()
    overlay: OverlayConfig = OverlayConfig()
    groups: GroupsConfig = GroupsConfig()
    trees: TreesConfig = TreesConfig()
    write_routing_table: bool = Field(
        default=False, description="Also write the table routing_table, which is large"
    )

    def __init__(self, **given: Any) -> None:
        flat = flat_values(given)  # field name = flat name for what is in no section
        made = {
            section: model(**{n: flat.pop(f) for n, f in model.flat_names().items() if f in flat})
            for section, model in SECTIONS.items()
        }
        super().__init__(**flat, **made)

    @classmethod
    def of(cls, *sources: Mapping[str, Any]) -> RunConfig:
        """A config from mappings of fields, later ones winning (a TOML file, then flags).

        Raises
        ------
        InputError
            Unknown field (with the nearest right one) or bad value.
        """
        merged: dict[str, Any] = {}
        for source in sources:
            merged |= flat_values(source)
        return cls(**merged)

    @model_validator(mode="after")
    def _groups_fit(self) -> RunConfig:
        nodes, size = self.overlay.nodes, self.groups.size
        if size is not None and size > nodes:
            remedy = f"a group cannot have more members than the {nodes} nodes"
            raise InputError("group_size", size, remedy)
        memberships = self.groups.memberships(nodes)
        if memberships > MOST_MEMBERSHIPS:
            remedy = (
                f"makes {memberships:,} members over all groups of {nodes:,} nodes; must be at "
                f"most {MOST_MEMBERSHIPS:,}"
            )
            raise InputError("groups", self.groups.count, remedy)
        return self

    def flat(self) -> dict[str, Any]:
        """Flat name -> value of every field, in order; lists are lists."""
        return {
            name: value
            for own, field in super().flat().items()
            for name, value in (
                field.flat() if isinstance(field, Section) else {own: field}
            ).items()
        }

    def given(self) -> dict[str, Any]:
        """Flat name -> value of the fields that were given when this was made."""
        own = {name: value for name, value in super().given().items() if name not in SECTIONS}
        return own | {
            flat[name]: value
            for section in SECTIONS
            for flat in [SECTIONS[section].flat_names()]
            for name, value in getattr(self, section).given().items()
        }

    def replace(self, **changes: Any) -> RunConfig:
        """The same with other values, given flat or by section, checked again."""
        return RunConfig.of(self.given(), changes)

    @property
    def estimated_work(self) -> int:
        """What a run costs, roughly: nodes times the ways to build trees."""
        return self.overlay.nodes * (1 + len(self.trees.variants))

    @property
    def network_key(self) -> Hashable:
        """What the routers, the links and the routes between them depend on, and nothing else."""
        return self.topology, self.seed


def flat_values(given: Mapping[str, Any], what: str = "config key") -> dict[str, Any]:
    """Fields of a run by their flat names, however they were given.

    Raises
    ------
    InputError
        For an unknown name (`what` says what the names are), or a field that is given twice.
    """
    own = [name for name in RunConfig.model_fields if name not in SECTIONS]
    return flatten(given, SECTIONS, own, what)
