"""The section ``forwarding``: the nodes that forward no copies of publications."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal

from pydantic import field_validator

from scribe_spark.config.section import Location, Section, setting, unset
from scribe_spark.config.used_when import used_when
from scribe_spark.core.errors import InputError
from scribe_spark.core.units import parse_percentage

_OF_GROUPS = used_when(lambda config: config.groups.has_groups or not config.is_world, "--groups")
_OF_WITHHOLD = used_when(lambda config: config.forwarding.withhold is not None, "--withhold")


class ForwardingConfig(Section):
    """The nodes that forward no copies; rule N6 of docs/rules.md."""

    about: ClassVar[str] = (
        "Nodes that take part in trees and meshes, but forward no copies of other nodes' "
        "publications."
    )

    withhold: Annotated[Location | None, _OF_GROUPS] = unset(
        "Nodes that forward no copies: a share of all nodes (20%), the name of a class of nodes, "
        "or a CSV or Parquet table (column node) [default: none]"
    )
    withhold_kind: Annotated[Literal["payload", "all"], _OF_WITHHOLD] = setting(
        "payload",
        "These nodes withhold copies (payload), or also GossipSub's IHAVE and IDONTWANT, and "
        "Plumtree's ihave (all)",
    )

    @field_validator("withhold")
    @classmethod
    def _is_possible(cls, value: str | None) -> str | None:
        share = parse_percentage(value or "")
        if share is not None and not 0 < share < 1:
            remedy = "must be above 0% and below 100%: some node must forward, such as 20%"
            raise InputError("withhold", value, remedy)
        return value

    @property
    def announcements(self) -> bool:
        """True if these nodes withhold announcements, too."""
        return self.withhold_kind == "all"

    @property
    def share(self) -> float | None:
        """The share of the nodes that forward nothing; None: a class or a table says which."""
        share = parse_percentage(self.withhold or "")
        return None if share is None else float(share)

    def table(self, names: Collection[str]) -> str | None:
        """Return the path of the table of nodes, if there is one; `names` are those of classes."""
        return self.withhold if self.share is None and self.withhold not in names else None

    def of_class(self, names: Collection[str]) -> str | None:
        """Return the class whose nodes forward nothing, if it is one of `names`."""
        return self.withhold if self.withhold in names else None
