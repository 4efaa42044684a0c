"""The section ``bandwidth``: how large publications are, and what links and nodes take for them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from scribe_spark.config.quantities import Rate, Size, Time
from scribe_spark.config.section import Section
from scribe_spark.config.used_when import UsedWhen, used_when
from scribe_spark.core import units
from scribe_spark.errors import InputError

#: A link that takes longer for one copy is refused: so many copies in a row fit into 64 bits.
MOST_TRANSMISSION_US = 10**10

_OF_SIZES: UsedWhen = used_when(lambda config: config.bandwidth.on, "--message-size")
_OF_GOSSIPSUB: UsedWhen = used_when(
    lambda config: config.has_system("gossipsub"), "gossipsub in --systems"
)


class BandwidthConfig(Section):
    """Sizes, rates and times; rules W1 to W8 of docs/rules.md."""

    message_size: Size | None = Field(
        default=None,
        description="How large publications are, such as 128KB: links then take time to carry "
        "them, and latencies are those of the clock with bandwidth [default: they have no size]",
    )
    uplink: Annotated[Rate | None, _OF_SIZES] = Field(
        default=None,
        description="The rate at which a node sends, such as 50Mbit/s [default: no limit]",
    )
    downlink: Annotated[Rate | None, _OF_SIZES] = Field(
        default=None,
        description="The rate at which a node receives, such as 50Mbit/s [default: no limit]",
    )
    validation: Annotated[Time, _OF_SIZES] = Field(
        default="0us",
        description="The time between a node's first copy and the copies that it sends, such as "
        "5ms",
    )
    links: Annotated[Literal["shared", "independent"], _OF_SIZES] = Field(
        default="shared",
        description="Whether a node has one uplink and one downlink for all its groups, or one of "
        "each for each group (independent)",
    )
    uplink_order: Annotated[Literal["interleaved", "serial"], _OF_SIZES] = Field(
        default="interleaved",
        description="Whether the copies of a publication share a node's uplink, as streams to all "
        "peers do, or leave one after the other (serial)",
    )
    idontwant_size: Annotated[Size, _OF_SIZES, _OF_GOSSIPSUB] = Field(
        default="1B",
        description="GossipSub: the least size of publications of which nodes tell their mesh by "
        "IDONTWANT",
    )

    control_size: Annotated[Size, _OF_SIZES] = Field(
        default="64B",
        description="How large a control message is whose size no protocol states, such as "
        "Scribe's JOIN: an assumption",
    )

    @property
    def on(self) -> bool:
        """True if publications have a size."""
        return self.message_size is not None

    @property
    def size(self) -> int:
        """The size of a publication in bytes; 0 where there is none."""
        return 0 if self.message_size is None else units.parse_size(self.message_size)

    @property
    def up(self) -> int:
        """Bits per second that a node sends; 0 has no limit."""
        return 0 if self.uplink is None else units.parse_rate(self.uplink)

    @property
    def down(self) -> int:
        """Bits per second that a node receives; 0 has no limit."""
        return 0 if self.downlink is None else units.parse_rate(self.downlink)

    @property
    def validation_us(self) -> int:
        """The validation in microseconds."""
        return units.parse_time(self.validation)

    @property
    def idontwant_bytes(self) -> int:
        """The least size of publications that nodes announce by IDONTWANT."""
        return units.parse_size(self.idontwant_size)

    @property
    def control_bytes(self) -> int:
        """The size of a control message whose size no protocol states, in bytes."""
        return units.parse_size(self.control_size)

    def in_words(self) -> str:
        """Return how links are shared, in words for people who read latencies."""
        return sizes_in_words(self.message_size, self.uplink_order, self.links)

    def refuse_slow(self, rate: int, given: Any) -> None:
        """Refuse a rate at which one copy takes too long.

        Parameters
        ----------
        rate : int
            Bits per second; 0 has no limit.
        given : object
            The rate as the user has written it.

        Raises
        ------
        InputError
        """
        if rate and -(-8_000_000 * self.size // rate) > MOST_TRANSMISSION_US:
            most = MOST_TRANSMISSION_US // 10**6
            remedy = f"takes more than {most:,} s at {given}; give a smaller size or a higher rate"
            raise InputError("message_size", self.message_size, remedy)

    @model_validator(mode="after")
    def _links_are_fast_enough(self) -> BandwidthConfig:
        self.refuse_slow(self.up, self.uplink)
        self.refuse_slow(self.down, self.downlink)
        return self


def sizes_in_words(message_size: object, uplink_order: object, links: object) -> str:
    """Return how links carry messages of a size, from the values of the config's fields."""
    return f"{message_size}, {uplink_order} uplinks, {links} links"
