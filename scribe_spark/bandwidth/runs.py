"""The clock: its parameters from the config, where it runs on Spark, and floods along edges.

Rules: docs/rules.md, W1 to W6, W11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import (
    ROOMS,
    Discipline,
    Nodes,
    Parts,
    Rule,
    TimedPublications,
    mesh_links,
    routed_us,
)
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES, LINKS, MANY_LINKS, play_in_few_tasks
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.core.node_classes import NodeClasses, NodeRates
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.engine.facts import KnowsRing, Ring
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.on_spark import Layout
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.program import Inbox, Outbox, Tables
from scribe_spark.topology.graph import Hosts
from scribe_spark.underlay.protocol import Kernel, narrowest, node_delays

#: ``read(tables, inbox)`` returns the links of a bucket (`TimedLinks`, with further columns for a
#: rule).
Read = Callable[[Tables, Inbox], Columns]

#: ``write(tables)`` converts `windows.ARRIVALS` and `windows.COPIES` to other tables of a bucket.
Write = Callable[[Tables], None]

#: The ways to run the clock.
IN_TASKS, IN_ONE_TASK = "tasks", "one task"


# --- the clock of a config


@dataclass(frozen=True, kw_only=True)
class RoundLinks:
    """The sizes, rates and times of a run's or world's config; tasks read them without pydantic."""

    #: Sizes in bytes: of a world's publications, of control messages whose size the protocol does
    #: not define, and the least one of publications that GossipSub nodes announce by IDONTWANT.
    size: int
    control: int
    idontwant: int
    #: Bits per second, and a time in microseconds, for nodes whose class does not set them.
    up: int
    down: int
    validation_us: int
    uplink: str
    shared: bool
    seed: int
    lan_us: int
    classes: NodeClasses
    hosts: Hosts  # the rates of the network's file
    routes: Kernel | None = None  # the network, if links between routers have rates
    parts: Parts = field(default_factory=Parts)

    @classmethod
    def of(cls, config: Any, hosts: Hosts, lan_us: int, network: Kernel | None = None) -> Self:
        """Return the sizes, rates and times of a config."""
        given = config.bandwidth
        return cls(
            size=given.size,
            control=given.control_bytes,
            idontwant=given.idontwant_bytes,
            up=given.up,
            down=given.down,
            validation_us=given.validation_us,
            uplink=given.uplink_order,
            shared=given.links == "shared",
            seed=config.seed,
            lan_us=lan_us,
            classes=NodeClasses.of(config),
            hosts=hosts,
            routes=network if given.link_rates else None,
            parts=Parts.of(given),
        )

    def rates(self, number: np.ndarray, router: np.ndarray, validation_us: int = 0) -> NodeRates:
        """Return the rates of nodes (numbers) at routers (indices)."""
        usual = {"up": self.up, "down": self.down, "validation_us": validation_us}
        return self.hosts.rates(self.classes, number, router, **usual)

    def narrowest(self, ring: Ring, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the rate (bit/s) of the narrowest link between positions; 0: no limit."""
        if self.routes is None:
            return np.zeros(len(a), dtype=np.int64)
        rate = narrowest(self.routes, ring.router[a], ring.router[b])
        return np.where(np.isfinite(rate), rate, 0).astype(np.int64)

    def routed_us(
        self,
        ring: Ring,
        source: np.ndarray,
        node: np.ndarray,
        delay_us: np.ndarray,
        size: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the delays of copies that routers duplicate: rule W11; int64."""
        up, down = (self.rates(ring.node[at], ring.router[at]) for at in (source, node))
        rates = up.up, down.down, self.narrowest(ring, source, node)
        return routed_us(delay_us, self.size if size is None else size, *rates)

    def clock(
        self,
        facts: KnowsRing,
        bounds: np.ndarray,
        kernel: Kernel,
        processing_us: int = 0,
        **discipline: Any,
    ) -> Clock:
        """Return a clock with these rates; `discipline` has fields of the system's `Discipline`.

        The clock uses `processing_us` if the validation time is 0.
        """
        rules: dict[str, Any] = {"uplink": self.uplink, "shared": self.shared, "seed": self.seed}
        validation_us = self.validation_us or processing_us
        return Clock(facts, bounds, kernel, self, validation_us, Discipline(**rules | discipline))


@dataclass(frozen=True)
class Clock:
    """The clock with bandwidth of an overlay: delays, rates and rules of sending; picklable."""

    facts: KnowsRing
    bounds: np.ndarray  # (B + 1,)
    kernel: Kernel
    links: RoundLinks
    validation_us: int
    discipline: Discipline

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the delays between nodes (positions `a`, `b`) in us, at least 1: int64."""
        router = self.facts.ring.router
        return np.maximum(node_delays(self.kernel, self.links.lan_us, router[a], router[b]), 1)

    def narrowest(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the rates of the narrowest links between nodes; see `RoundLinks.narrowest`."""
        return self.links.narrowest(self.facts.ring, a, b)

    def nodes(self) -> Nodes:
        """Return the rates and times of validation of all nodes."""
        ring = self.facts.ring
        return Nodes(ring.node, *self.links.rates(ring.node, ring.router, self.validation_us))


def links_of(stages: Any) -> RoundLinks:
    """Return the sizes, rates and times of a run, of which `stages` is the `Simulation`."""
    underlay = stages.underlay
    return RoundLinks.of(stages.config, stages.graph.hosts, underlay.lan_us, underlay.kernel)


# --- where the clock is played


def player_of(layout: Layout) -> dict[str, str]:
    """Return where windows of the clock are played, and the reason: ``name, why``.

    A window is never a job: there are hundreds of windows with milliseconds of work each.
    """
    reason = why_no_tasks(layout.spark, layout.buckets)
    if reason is not None:
        return {"name": IN_ONE_TASK, "why": reason}
    if layout.buckets == 1:
        return {"name": IN_ONE_TASK, "why": "all nodes are in one bucket"}
    why = f"{layout.buckets} tasks can stay; the first plays fewer than {MANY_LINKS:,} links alone"
    return {"name": IN_TASKS, "why": why}


@dataclass(frozen=True)
class Change:
    """A program that calls ``change(tables, inbox)`` in each bucket and sends no message."""

    bounds: np.ndarray
    change: Callable[[Tables, Inbox], None]
    silent: ClassVar[bool] = True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        self.change(tables, inbox)
        return {}


def play_clock(
    clock: Clock,
    publications: TimedPublications,
    read: Read,
    write: Write,
    player: PlaysPrograms,
    *,
    rule: Rule | None = None,
    carried: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    lost: Lost | None = None,
    late: Late | None = None,
) -> None:
    """Play publications by the clock (`ClockSetting`), on a player that keeps its buckets."""

    def read_links(tables: Tables, inbox: Inbox) -> None:
        tables[LINKS] = read(tables, inbox)

    def write_tables(tables: Tables, inbox: Inbox) -> None:
        if ARRIVALS in tables:  # a bucket without nodes has no such table
            write(tables)

    player.play(Change(clock.bounds, read_links))
    narrowest = None if clock.links.routes is None else clock.narrowest
    parts = clock.links.parts
    useful = partial(parts.useful, clock.links.seed) if parts.recoded else None
    options = rule, carried, kept, lost, narrowest, late, parts, useful
    given = ClockSetting(clock.nodes(), publications, clock.discipline, *options)
    play_in_few_tasks(player, clock.bounds, given)
    player.play(Change(clock.bounds, write_tables))


# --- floods along edges, instead of `dissemination.Dissemination`

#: The columns of first copies, and the columns of all copies, in addition to the carried ones.
_FIRST = ("publication", "room", "node", "at_us", "hops", "sender")
_COPY = (*_FIRST, "first", "sent_us")


def flood_along(
    clock: Clock,
    published: TimedPublications,
    names: tuple[str, str, str],
    rule: Rule,
    carried: tuple[str, ...],
    lost: Lost | None = None,
    late: Late | None = None,
) -> Callable[[PlaysPrograms], None]:
    """Return a function of a player that plays publications along edges by the clock.

    `names` are those of the tables of edges (``group, node, peer`` and the carried columns; each
    group is a topic) and of the results of `Dissemination`: first copies, and all copies.
    """
    edges, arrivals, copies = names
    read = partial(_read_edges, clock, edges, carried)
    write = partial(_write_flood, published.at_us, arrivals, copies, carried)
    kept = (*_COPY, *carried)
    played = partial(play_clock, clock, published, read, write, kept=kept, lost=lost, late=late)
    return partial(played, rule=rule, carried=carried)


def _read_edges(
    clock: Clock, name: str, carried: tuple[str, ...], tables: Tables, inbox: Inbox
) -> Columns:
    names = ("group", "node", "peer", *carried)
    edges = tables[name] if name in tables else dict.fromkeys(names, whole_numbers())
    of = {name: edges[name].astype(np.int64) for name in names}
    node, peer, room = of["node"], of["peer"], of.pop("group") * ROOMS
    links = mesh_links(room, node, room, peer, clock.delay(node, peer), peer)
    return {**of, **links}


def _write_flood(
    published_us: np.ndarray, arrivals: str, copies: str, carried: tuple[str, ...], tables: Tables
) -> None:
    """Write the tables of first copies and of all copies, with times since their publications."""
    for ours, theirs, names in ((ARRIVALS, arrivals, _FIRST), (COPIES, copies, _COPY)):
        came = tables.pop(ours)
        times = [time for time in ("at_us", "sent_us") if time in came]
        times_us = {time: came[time] - published_us[came["publication"]] for time in times}
        came = {**came, "group": came["room"] // ROOMS, **times_us}
        kept = ("group", *names, *carried, *(("lost",) if "lost" in came else ()))
        tables[theirs] = {name: came[name] for name in kept if name != "room"}
