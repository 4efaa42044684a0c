"""The number of links of a network, by the paper's count and by the existing links."""

from __future__ import annotations

from dataclasses import dataclass

_SLOTS_PER_ROUTER = 200  # the paper's LAN slots: 100 per router, two directions


@dataclass(frozen=True)
class Size:
    """The numbers of nodes N, routers R and directed core links of a network."""

    nodes: int
    routers: int
    core_links: int

    @property
    def existing_links(self) -> int:
        """The number of existing directed links: core links and each node's two LAN links."""
        return self.core_links + 2 * self.nodes

    @property
    def paper_slots(self) -> int:
        """The paper's number of links: core links, and 100 LAN slots a router each way."""
        return self.core_links + _SLOTS_PER_ROUTER * self.routers

    @property
    def has_slot_for_each_link(self) -> bool:
        """True if there is a slot for each LAN link; otherwise a mean per slot has no meaning."""
        return self.existing_links <= self.paper_slots
