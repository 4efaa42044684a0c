"""The section ``can``: CAN and CAN multicast, a system beside Scribe (JSAC 2002, Section V)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import model_validator

from scribe_spark.config.bandwidth import refuse_two_clocks
from scribe_spark.config.groups import refuse_places
from scribe_spark.config.overlay import MOST_DIMENSIONS
from scribe_spark.config.section import Section, UsedWhen, in_systems, setting, unset, within
from scribe_spark.core.errors import InputError
from scribe_spark.core.key_limits import MOST_KEYS

#: The greatest number of bits of a point; a group's index and a point are one number of 63 bits.
MOST_BITS = MOST_DIMENSIONS

#: The limit for one dimension, as squares of distances must fit into 64 bits.
_MOST_BITS_A_DIMENSION = 30

#: The greatest number of landmarks; more give more orders than most CANs have nodes.
MOST_LANDMARKS = 8


def most_bits(dimensions: int) -> int:
    """Return how often a zone can be halved at most, so that points have that many bits."""
    return min(MOST_BITS, _MOST_BITS_A_DIMENSION * dimensions)


class CanConfig(Section):
    """The settings of CAN multicast; rules C1 to C18 and O9 of docs/rules.md."""

    flat_prefix: ClassVar[str] = "can_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("can")
    about: ClassVar[str] = (
        "In a CAN (content-addressable network), each node has a zone of a space with d "
        "dimensions and forwards messages to the nodes of neighbouring zones. Each group has its "
        "own CAN. These flags have an effect with can in --systems."
    )

    dimensions: Annotated[int, within(1, MOST_DIMENSIONS)] = setting(
        6, "Dimensions of the space, d"
    )
    bits: Annotated[int | None, within(1, MOST_BITS)] = unset(
        "Greatest number of times that a zone can be halved [default: 40; 30 with one dimension]"
    )
    flooding: Literal["directed", "corner", "optimal"] = setting(
        "directed",
        "Rules 1 to 4 of the CAN multicast paper (directed), also its rule 5, which avoids "
        "duplicates (corner), or exactly one copy per node (optimal)",
    )
    clock: Literal["time", "hops"] = setting(
        "time",
        "A node's first copy is the one with the least delay (time) or the fewest hops (hops)",
    )
    processing_ms: Annotated[float, within(0.0, 1e6)] = setting(
        0.0, "CAN: time between a node's first copy and the copies that it sends, in ms"
    )

    landmarks: Annotated[int, within(0, MOST_LANDMARKS)] = setting(
        0,
        "Number of landmark routers; nodes with the same order of delays to them get near zones "
        "(distributed binning). 0: random zones",
    )

    @model_validator(mode="after")
    def _bits_fit(self) -> Self:
        most = most_bits(self.dimensions)
        if self.bits is not None and self.bits > most:
            remedy = f"must be at most {most} with can_dimensions = {self.dimensions}"
            raise InputError("can_bits", self.bits, remedy)
        return self

    @property
    def halvings(self) -> int:
        """The number of times that a zone can be halved."""
        return most_bits(self.dimensions) if self.bits is None else self.bits

    def refuse_nodes(self, nodes: int) -> None:
        """Refuse more nodes than a CAN of all nodes can have zones."""
        if nodes > 2**self.halvings:
            remedy = f"gives 2^{self.halvings} zones at most for {nodes:,} nodes; give more"
            raise InputError("can_bits", self.halvings, remedy)

    def check_within(self, config: Any) -> None:
        """Refuse a CAN with too few zones for the nodes, and a clock of hops beside rates."""
        if not config.is_world:
            self.refuse_nodes(config.overlay.nodes)
        refuse_two_clocks(config, self.flat_prefix, self.clock, self.processing_ms)

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more groups than the keys (a group's CAN, and a point) can number."""
        most = (MOST_KEYS // (groups + 1)).bit_length() - 1
        if self.halvings > most:
            remedy = f"must be at most {most} with {groups:,} groups"
            raise InputError("can_bits", self.halvings, remedy)
        refuse_places("can", groups, memberships, config.overlay.nodes)

    def check_network(self, source: str, routers: int, has_rates: bool) -> None:
        """Refuse more landmarks than the network has routers."""
        if self.landmarks > routers:
            remedy = f"must be at most the {routers} routers of the network"
            raise InputError("can_landmarks", self.landmarks, remedy)
