"""The section ``bandwidth``: publications, their sizes, and the rates and times of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from scribe_spark.config.overlay import NodeClass
from scribe_spark.config.section import (
    Fault,
    Location,
    Rate,
    Section,
    Size,
    TakenAs,
    Time,
    UsedWhen,
    setting,
    unset,
    used_when,
    within,
)
from scribe_spark.core import units
from scribe_spark.core.errors import InputError

#: The longest transmission of one copy; the sum of many transmissions then fits into 64 bits.
MOST_TRANSMISSION_US = 10**10

#: The sizes of a schedule's publications, in words.
_OF_SCHEDULE = "sizes of a schedule"

#: The greatest number of publications of a run.
MOST_PUBLICATIONS = 10**7

_OF_SIZES: UsedWhen = used_when(lambda config: config.bandwidth.has_sizes, "--message-size")
_OF_CLOCK: UsedWhen = used_when(
    lambda config: config.bandwidth.on, "--message-size, --publications or --schedule"
)
_OF_NUMBERS: UsedWhen = used_when(
    lambda config: config.bandwidth.publications is not None, "--publications"
)
OF_PARTS: UsedWhen = used_when(lambda config: config.bandwidth.parts is not None, "--parts")
_OF_GOSSIPSUB: UsedWhen = used_when(
    lambda config: "gossipsub" in config.trees.systems, "gossipsub in --systems"
)

#: The greatest number of parts of a publication, also of coded ones.
MOST_PARTS = 2**16

#: The code with a fixed number of parts, and that of nodes that recode.
_REED_SOLOMON, _RLNC = "reed-solomon", "rlnc"


def _code(value: Any) -> Any:
    """Return the code in one spelling, ``reed-solomon:32`` or ``rlnc``."""
    if value is None or value == _RLNC:
        return value
    name, _, sent = str(value).strip().partition(":")
    if name != _REED_SOLOMON or not (sent.isascii() and sent.isdigit()):
        remedy = f"must be {_RLNC}, or {_REED_SOLOMON}:N with N parts that sources send, such as"
        raise InputError("code", value, f"{remedy} {_REED_SOLOMON}:32")
    if not 1 <= int(sent) <= MOST_PARTS:
        raise InputError("code", value, f"must have from 1 to {MOST_PARTS:,} parts")
    return f"{name}:{int(sent)}"


#: A code: ``reed-solomon:32``, ``rlnc``.
Code = Annotated[str, TakenAs("code"), BeforeValidator(_code)]


def _parsed(name: str, parse: Callable[[object], int]) -> Any:
    """Return a property with the value of the setting `name` in base units; 0 if it is None."""
    return property(lambda section: parse(value) if (value := getattr(section, name)) else 0)


class BandwidthConfig(Section):
    """The settings of publications: sizes, rates and times; rules W1 to W11 of docs/rules.md."""

    about: ClassVar[str] = (
        "Sizes, times and rates of publications; nodes forward copies of a publication. Without "
        "these flags, publications have no size, copies take the delay of their routes, a group of "
        "a run has one publication, and the events of a world say who publishes. Rates, links and "
        "--control-size have an effect only on publications with a size."
    )

    message_size: Size | None = unset(
        "Size of each publication; a node's links then need time to carry copies [default: no size]"
    )
    uplink: Annotated[Rate | None, _OF_SIZES] = unset(
        "Rate at which a node sends [default: no limit]"
    )
    downlink: Annotated[Rate | None, _OF_SIZES] = unset(
        "Rate at which a node receives [default: no limit]"
    )
    validation: Annotated[Time, _OF_CLOCK] = setting(
        "0us", "Time that a node needs to check a publication before it forwards copies"
    )
    link_rates: Annotated[bool, _OF_SIZES] = setting(
        False,
        "A copy also takes its size over the rate of the narrowest link of its route; copies do "
        "not wait for each other in routers",
    )
    links: Annotated[Literal["shared", "independent"], _OF_SIZES] = setting(
        "shared",
        "A node has one uplink and one downlink for all groups (shared), or a separate pair for "
        "each group (independent)",
    )
    uplink_order: Annotated[Literal["interleaved", "serial"], _OF_SIZES] = setting(
        "interleaved",
        "A node sends the copies of a publication at the same time and shares its uplink among "
        "them (interleaved), or one after another (serial)",
    )
    idontwant_size: Annotated[Size, _OF_SIZES, _OF_GOSSIPSUB] = setting(
        "1B", "GossipSub sends IDONTWANT only for publications of at least this size"
    )
    control_size: Annotated[Size, _OF_SIZES] = setting(
        "64B",
        "Assumed size of a control message whose protocol defines none, such as Scribe's JOIN",
    )
    schedule: Location | None = unset(
        "CSV or Parquet table with your own publications (columns time, group, node[, size]), "
        "such as 250ms,1,17,128KB; plain numbers are ms and bytes. A world's time begins with "
        "round 0"
    )
    publications: Annotated[int | None, within(1, MOST_PUBLICATIONS)] = unset(
        "Number of publications of each group, or of each member with --published-by everyone; a "
        "world has as many in each round [default: one per group of a run]"
    )
    interval: Annotated[Time, _OF_NUMBERS] = setting(
        "0us", "Time between two of --publications of a group; 0us: all at once"
    )
    published_by: Annotated[Literal["source", "members", "everyone"], _OF_NUMBERS] = setting(
        "source",
        "Publisher: the group's source, a random member for each publication (members), or "
        "every member (everyone)",
    )

    parts: Annotated[int | None, within(1, MOST_PARTS), _OF_SIZES] = unset(
        "Number of parts of each publication. A part is a message with its share of the size, and "
        "a node has the publication when it has all parts [default: publications are sent whole]"
    )
    code: Annotated[Code | None, OF_PARTS] = unset(
        "Code of the parts: with reed-solomon:N, sources send N coded parts, and any --parts of "
        "them are enough; with rlnc, nodes recode what they send [default: all "
        "parts are needed]"
    )

    @property
    def on(self) -> bool:
        """True if publications follow rules W1 to W11: with sizes, or several of a group."""
        return self.has_sizes or self.several

    @property
    def has_sizes(self) -> bool:
        """True if publications have sizes."""
        return self.message_size is not None or self.schedule is not None

    @property
    def cause_of_several(self) -> str | None:
        """The setting because of which a group may have several messages; None if it has one."""
        names = "schedule", "publications", "parts"
        return next((name for name in names if getattr(self, name) is not None), None)

    @property
    def several(self) -> bool:
        """True if a group may have several messages: publications, or parts of one."""
        return self.cause_of_several is not None

    @property
    def parts_sent(self) -> int:
        """The number of parts that a source sends for each publication; 1 if it sends it whole."""
        sent = "" if self.code is None else self.code.partition(":")[2]
        return int(sent) if sent else self.parts or 1

    @property
    def recoded(self) -> bool:
        """True if nodes recode the parts that they send."""
        return self.code == _RLNC

    @property
    def cause(self) -> tuple[str, Any]:
        """The name and value of the setting because of which `on` is True."""
        names = "message_size", "schedule", "publications"
        given = ((name, getattr(self, name)) for name in names)
        return next((one for one in given if one[1]), (names[0], None))

    # in bytes, bits per second and microseconds; 0 without the setting
    size = _parsed("message_size", units.parse_size)
    up = _parsed("uplink", units.parse_rate)
    down = _parsed("downlink", units.parse_rate)
    validation_us = _parsed("validation", units.parse_time)
    control_bytes = _parsed("control_size", units.parse_size)
    interval_us = _parsed("interval", units.parse_time)

    @property
    def idontwant_bytes(self) -> int:
        """The least size of publications that nodes announce by IDONTWANT; 0 without sizes."""
        return units.parse_size(self.idontwant_size) if self.has_sizes else 0

    def in_words(self, alone: bool = False) -> str:
        """Return a description of sizes and links; publications that are `alone` share no links."""
        if not self.has_sizes:
            return "messages without a size"
        if alone:
            return f"{self.message_size or _OF_SCHEDULE}, each publication alone"
        return sizes_in_words(self.message_size, self.uplink_order, self.links)

    def refuse_slow(
        self,
        classes: Sequence[NodeClass],
        rates: Iterable[int] = (),
        table: tuple[str, Any, int] | None = None,
    ) -> None:
        """Refuse rates at which a copy takes too long.

        Rates are those of this section, of `classes` of nodes, and further `rates` (bit/s).
        `table` has a field, its value (a table of publications), and the largest size in bytes.
        """
        own = [rate for rate in (self.up, self.down) if rate]
        given = {rate: units.canonical("rate", rate) for rate in (*own, *rates)}
        for one in classes:
            for rate in (one.up, one.down):
                if rate is not None:
                    given[units.parse_rate(rate)] = f"{rate} (class {one.name})"
        sizes = [("message_size", self.message_size, self.size), *([table] if table else [])]
        for field, value, size in sizes:
            for bits, words in given.items():
                if -(-8_000_000 * size // bits) > MOST_TRANSMISSION_US:
                    takes = f"takes more than {MOST_TRANSMISSION_US // 10**6:,} s at {words}"
                    if field != "message_size":
                        takes = f"has a size of {units.canonical('size', size)}, which {takes}"
                    remedy = f"{takes}; give a smaller size or a higher rate"
                    raise InputError(field, value, remedy)

    def _faults(self) -> Iterator[Fault]:
        parts, code, several = self.parts, self.code, self.publications
        needs = "divides the size of publications; give message_size, such as 128KB"
        yield parts is not None and not self.has_sizes, "parts", parts, needs
        needs = "needs parts; give the number that is enough"
        yield code is not None and parts is None, "code", code, needs
        fewer = f"sends fewer parts than the {parts} that are needed; give more"
        yield self.parts_sent < (parts or 0), "code", code, fewer
        twice = "cannot be combined with schedule, which lists all publications; leave one out"
        yield self.schedule is not None and several is not None, "publications", several, twice
        last_us = ((several or 1) - 1) * self.interval_us
        most = units.canonical("time", units.MOST_MICROSECONDS)
        late = f"puts the last publication after {most}; give fewer, or a shorter interval"
        yield last_us > units.MOST_MICROSECONDS, "publications", several, late


def sizes_in_words(message_size: object, uplink_order: object, links: object) -> str:
    """Return a description of sizes and shared links from the values of settings."""
    return f"{message_size or _OF_SCHEDULE}, {uplink_order} uplinks, {links} links"


def refuse_two_clocks(config: Any, prefix: str, clock: str, processing_ms: float) -> None:
    """Refuse a system's clock of hops, and its processing times, beside rates of publications."""
    if not config.bandwidth.on:
        return
    if clock != "time":
        cause, given = config.bandwidth.cause
        remedy = f"cannot be combined with {cause} = {given}; give time"
        raise InputError(f"{prefix}clock", clock, remedy)
    if config.bandwidth.validation_us and processing_ms:
        remedy = "is the same time as validation; leave out one of them"
        raise InputError(f"{prefix}processing_ms", processing_ms, remedy)
