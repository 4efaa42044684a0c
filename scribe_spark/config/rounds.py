"""The section ``world``: rounds, their events, and the maintenance of the overlay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval
from pydantic import model_validator

from scribe_spark.config.overlay import MOST_NODES
from scribe_spark.config.section import (
    Fault,
    Location,
    OnlyInWorlds,
    Section,
    Text,
    generated_by,
    has_events,
    may_play_pastry,
    nodes_fail,
    setting,
    unset,
    used_when,
    within,
)
from scribe_spark.core.errors import InputError

#: The least and the greatest length of a round in seconds.
_LENGTHS = 0.001, 86_400.0

#: The longest time of a setting in seconds: a thousand years.
_MOST_TIME = 3.2e10

#: The greatest number of rounds; with a few Spark jobs per round, more rounds take days.
MOST_ROUNDS = 100_000

#: The least number of a group; the number below it means "no group" (`arrays.NO_GROUP`).
LEAST_GROUP = -(2**63) + 1

#: The greatest number of lookups; each is a row of a message table in each hop.
MOST_LOOKUPS = 100_000_000

#: The least and the greatest number of publications of a group in a round; the least number is
#: one publication in the longest world.
LEAST_PUBLISHED, MOST_PUBLISHED = 1 / MOST_ROUNDS, 1_000

#: The least share of nodes; a smaller one is less than one node of the largest overlay.
LEAST_SHARE = 1e-10


#: A setting in rounds -> the setting with the same meaning in seconds.
_TIMES = {
    "event_round": "event_seconds",
    "lifetime": "lifetime_seconds",
    "membership": "membership_seconds",
    "publish_rate": "publish_seconds",
}


_OF_EVENTS = used_when(
    lambda config: config.is_world or has_events(config), "events: --generator or --events"
)
_OF_FAILURES = used_when(
    nodes_fail,
    "nodes that fail: --events, or --generator mass-failure, adjacent-failure, root-failure, churn",
)
_OF_PASTRY = used_when(may_play_pastry, "a system that needs Pastry, such as --systems scribe")
_AT_ONCE = generated_by(
    *("mass-failure", "adjacent-failure", "root-failure", "flash-crowd", "group-crowd")
)
_OF_CHURN, _OF_GROUP_CHURN = generated_by("churn"), generated_by("group-churn")
_OF_ROOTS, _OF_CROWD = generated_by("root-failure"), generated_by("group-crowd")
_OF_PUBLICATIONS = generated_by("publications")
_OF_WEIBULL = used_when(
    lambda config: config.world.lifetime_distribution == "weibull",
    "--lifetime-distribution weibull",
)


#: Mark of a setting of what a world measures in each round.
IN_WORLDS = OnlyInWorlds("a run measures its last round; leave it out")

_Seconds = Annotated[float | None, within(_LENGTHS[0], _MOST_TIME)]


class RoundsConfig(Section):
    """The settings of rounds and their events; a round is one maintenance period of the overlay.

    Events are in a user's table (`events`) or come from one or several generators, joined by plus
    signs (`generator`); with neither, the nodes stay as they are.  The fields from `event_round` to
    `publishers` are parameters of generators.
    """

    about: ClassVar[str] = (
        "A world is divided into rounds. In each round, events happen: nodes arrive, leave, "
        "fail or recover, and members join or quit. Then Pastry and Scribe repair themselves. "
        "Events are in your own table (--events), or --generator makes them. A flag whose text "
        "begins with the name of a generator has an effect with that generator only."
    )

    rounds: Annotated[int, within(1, MOST_ROUNDS), _OF_EVENTS] = setting(
        20,
        "Number of rounds; the first is round 0. A run with events plays all rounds before it "
        "publishes",
    )
    round_seconds: Annotated[float | None, within(*_LENGTHS), _OF_EVENTS] = unset(
        "Length of a round in seconds: the period in which Pastry and Scribe repair themselves. "
        "Systems with shorter periods act several times in a round [default: 30; with gossipsub "
        "alone, its heartbeat]"
    )
    events: Location | None = unset(
        "CSV or Parquet table with your own events (columns round, node, event). Events are "
        "arrive, leave, fail, recover; with a column group, also create, join, quit, publish"
    )
    generator: Text | None = unset(
        "Generators of events, joined by + (churn+publications): mass-failure, adjacent-failure "
        "(neighbours on the ring), churn (nodes fail, others arrive), flash-crowd (many "
        "arrivals); with groups also root-failure, group-crowd (many joins), group-churn (joins "
        "and quits), publications; or your own"
    )
    initial: Annotated[int | None, within(1, MOST_NODES)] = unset(
        "Number of live nodes at the start; events may bring the others [default: all; churn: "
        "nine tenths; flash-crowd: all but the crowd]"
    )
    event_round: Annotated[int, within(0, MOST_ROUNDS - 1), _AT_ONCE] = setting(
        1,
        "Round in which mass-failure, adjacent-failure, root-failure, flash-crowd or group-crowd "
        "happens",
    )
    event_seconds: Annotated[float | None, within(0.0, _MOST_TIME), _AT_ONCE] = unset(
        "Time at which it happens, in seconds from the start, in place of event_round"
    )
    share: Annotated[
        float, Interval(ge=LEAST_SHARE, lt=1.0), generated_by("mass-failure", "flash-crowd")
    ] = setting(
        0.1,
        "mass-failure: share of the live nodes that fail. flash-crowd: share of all nodes that "
        "arrive",
    )
    adjacent: Annotated[int | None, within(1, MOST_NODES), generated_by("adjacent-failure")] = (
        unset("adjacent-failure: number of nodes that fail [default: half of leaf_set]")
    )
    lifetime: Annotated[float, within(1.0, 1e9), _OF_CHURN] = setting(
        100.0,
        "churn: mean lifetime of a node in rounds; with 100, about 1 % of the nodes fail in a "
        "round",
    )
    lifetime_seconds: Annotated[_Seconds, _OF_CHURN] = unset(
        "churn: mean lifetime of a node in seconds, in place of lifetime; at least one round"
    )
    lifetime_distribution: Annotated[Literal["exponential", "weibull"], _OF_CHURN] = setting(
        "exponential", "churn: distribution of the lifetimes"
    )
    weibull_shape: Annotated[float, within(0.1, 10.0), _OF_CHURN, _OF_WEIBULL] = setting(
        0.5,
        "churn: shape of the Weibull distribution; below 1, old nodes are likely to live longer",
    )
    replacement: Annotated[Literal["arrive", "recover"], _OF_CHURN] = setting(
        "arrive",
        "churn: a failed node returns with empty tables (arrive), or with its last leaf set "
        "(recover)",
    )
    roots: Annotated[int, within(1, MOST_NODES), _OF_ROOTS] = setting(
        1, "root-failure: number of groups, the largest ones, whose roots fail"
    )
    holders: Annotated[int, within(1, MOST_NODES), _OF_ROOTS] = setting(
        1, "root-failure: number of live nodes closest to each groupId that fail; 1: only the root"
    )
    crowd: Annotated[int | None, within(1, MOST_NODES), _OF_CROWD] = unset(
        "group-crowd: number of nodes that join at once [default: all live non-members]"
    )
    crowd_group: Annotated[int | None, within(LEAST_GROUP, 2**63 - 1), _OF_CROWD] = unset(
        "group-crowd: number of the group that they join [default: the group with the fewest "
        "members]"
    )
    membership: Annotated[float, within(1.0, 1e9), _OF_GROUP_CHURN] = setting(
        50.0, "group-churn: mean number of rounds after which a member quits"
    )
    membership_seconds: Annotated[_Seconds, _OF_GROUP_CHURN] = unset(
        "group-churn: mean number of seconds after which a member quits, in place of membership; "
        "at least one round"
    )
    detection: Annotated[int, within(0, MOST_ROUNDS), _OF_FAILURES] = setting(
        1, "Rounds between a node's failure and the time when other nodes notice it"
    )
    repair: Annotated[Literal["lazy", "none", "eager"], _OF_FAILURES] = setting(
        "lazy",
        "Dead entries of routing tables are replaced when a message meets them (lazy), never "
        "(none), or also one round after detection (eager)",
    )
    maintenance_period: Annotated[int, within(0, MOST_ROUNDS), _OF_EVENTS] = setting(
        0, "Rounds between two exchanges of routing table rows among nodes; 0: never"
    )
    publish_rate: Annotated[float, within(LEAST_PUBLISHED, MOST_PUBLISHED), _OF_PUBLICATIONS] = (
        setting(
            1.0,
            "publications: number of publications of a group in a round; 0.1: one in ten rounds",
        )
    )
    publish_seconds: Annotated[_Seconds, _OF_PUBLICATIONS] = unset(
        "publications: mean time between two publications of a group in seconds, in place of "
        "publish_rate"
    )
    publish_source: Annotated[Literal["member", "root", "any"], _OF_PUBLICATIONS] = setting(
        "member",
        "publications: nodes that publish: members of the group, its root, or any live nodes",
    )
    publishers: Annotated[int, within(0, MOST_NODES), _OF_PUBLICATIONS] = setting(
        0,
        "publications: number of publishers of a group; another node replaces a dead one. 0: a "
        "random node for each publication",
    )
    lookups: Annotated[int, within(0, MOST_LOOKUPS), _OF_PASTRY, IN_WORLDS] = setting(
        1_000,
        "Number of lookups in each round: test messages from random live nodes to random keys",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_or_generated(cls, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("events") is not None and given.get("generator") is not None:
            remedy = "cannot be combined with a table of events; leave out one of them"
            raise InputError("generator", given["generator"], remedy)
        return given

    @model_validator(mode="before")
    @classmethod
    def _time_said_once(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse a time in rounds together with the same time in seconds."""
        for name, seconds in _TIMES.items():
            if given.get(seconds) is None:
                continue
            default = cls.model_fields[name].default
            if given.get(name, default) != default:
                remedy = f"means the same as {seconds}; leave out one of them"
                raise InputError(name, given[name], remedy)
        return given

    @property
    def generators(self) -> tuple[str, ...]:
        """The names of the generators; empty without a generator."""
        return () if self.generator is None else tuple(map(str.strip, self.generator.split("+")))

    @property
    def sources(self) -> int:
        """The number of nodes of a group that may publish in a round; 0 means all nodes."""
        return 1 if self.publish_source == "root" else self.publishers

    def _faults(self) -> Iterator[Fault]:
        sources, rate = self.sources, self.publish_rate
        fewer = (
            f"is more than one publication per round of each of a group's {sources} sources; "
            "give less, or more publishers"
        )
        yield bool(sources) and rate > sources, "publish_rate", rate, fewer
        several = self.publish_source == "root" and self.publishers > 1
        one = "must be 0 or 1: a group has one root"
        yield several, "publishers", self.publishers, one
