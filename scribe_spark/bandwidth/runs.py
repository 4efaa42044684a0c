"""The clock of a run: its parameters from the config, and where it runs on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import Discipline, Nodes, Rule, TimedPublications
from scribe_spark.bandwidth.together import MANY_LINKS, play_in_few_tasks
from scribe_spark.bandwidth.windows import ARRIVALS, LINKS
from scribe_spark.engine.barrier import why_no_tasks
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.on_spark import BucketTables, Layout
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.program import Inbox, Outbox, Tables
from scribe_spark.node_classes import NodeClasses
from scribe_spark.topology.hosts import Hosts
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.bandwidth.schedule import Schedule

#: ``read(tables, inbox)`` returns the links of a bucket (`TimedLinks`, with further columns for a
#: rule).
Read = Callable[[Tables, Inbox], Columns]

#: ``write(tables)`` converts `windows.ARRIVALS` and `windows.COPIES` to other tables of a bucket.
Write = Callable[[Tables], None]


#: The ways to run the clock.
IN_TASKS, IN_ONE_TASK = "tasks", "one task"


def player_of(layout: Layout) -> dict[str, str]:
    """Return where the clock runs, and the reason: ``name, why``.

    There are hundreds of windows with milliseconds of work each, so a window is never a job,
    whatever the engine of the run.
    """
    reason = why_no_tasks(layout.spark, layout.buckets)
    if reason is not None:
        return {"name": IN_ONE_TASK, "why": reason}
    if layout.buckets == 1:
        return {"name": IN_ONE_TASK, "why": "all nodes are in one bucket"}
    why = f"{layout.buckets} tasks can stay; the first plays fewer than {MANY_LINKS:,} links alone"
    return {"name": IN_TASKS, "why": why}


@dataclass(frozen=True)
class _ReadLinks:
    """A program that stores the links of a bucket; no message is sent."""

    bounds: np.ndarray
    read: Read

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        tables[LINKS] = self.read(tables, inbox)
        return {}


@dataclass(frozen=True)
class _WriteTables:
    """A program that converts the results of the clock; no message is sent."""

    bounds: np.ndarray
    write: Write

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if ARRIVALS in tables:  # a bucket without nodes has no such table
            self.write(tables)
        return {}


@dataclass(frozen=True)
class Clock:
    """The parameters of the clock with bandwidth; picklable."""

    facts: KnowsRing
    bounds: np.ndarray  # (B + 1,)
    kernel: Kernel
    lan_us: int
    #: Bits per second, and a time in microseconds, for nodes whose class does not set them.
    up: int
    down: int
    validation_us: int
    classes: NodeClasses
    hosts: Hosts  # the rates of the network's file
    discipline: Discipline

    def delay(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return D between nodes in microseconds, at least 1: int64."""
        router = self.facts.ring.router
        return np.maximum(self.kernel.delays(router[a], router[b]) + 2 * self.lan_us, 1)

    def nodes(self) -> Nodes:
        """Return the rates of all nodes."""
        ring = self.facts.ring
        usual = {"up": self.up, "down": self.down, "validation_us": self.validation_us}
        return Nodes(ring.node, *self.hosts.rates(self.classes, ring.node, ring.router, **usual))

    def publications(
        self,
        schedule: Schedule,
        source: np.ndarray,
        topic: np.ndarray,
        relayed: np.ndarray | bool = False,
        flood: bool = False,
    ) -> TimedPublications:
        """Return the publications of a schedule, in order; flags: see `TimedPublications`."""
        flags = (np.broadcast_to(np.asarray(one), topic.shape) for one in (relayed, flood))
        return TimedPublications(schedule.at_us, topic, source, schedule.size, *flags)

    def play(
        self,
        tables: BucketTables,
        publications: TimedPublications,
        read: Read,
        write: Write,
        called: str,
        first: DataFrame | None = None,
        rule: Rule | None = None,
        carried: tuple[str, ...] = (),
        kept: tuple[str, ...] = (),
    ) -> None:
        """Play publications in tasks that keep their buckets, or all buckets in one task.

        `called` names the job; `rule`, `carried` and `kept`: see `ClockSetting`.
        """
        played = partial(play_clock, self, publications, read, write, rule, carried, kept)
        if player_of(tables.layout)["name"] == IN_TASKS:
            tables.play_in_tasks(lambda player, _: played(player), called, first)
        else:
            tables.play_in_one_task(played, called, first)


def play_clock(
    clock: Clock,
    publications: TimedPublications,
    read: Read,
    write: Write,
    rule: Rule | None,
    carried: tuple[str, ...],
    kept: tuple[str, ...],
    player: PlaysPrograms,
) -> None:
    """Play publications on a player that keeps its buckets; parameters: :meth:`Clock.play`."""
    player.play(_ReadLinks(clock.bounds, read))
    given = ClockSetting(clock.nodes(), publications, clock.discipline, rule, carried, kept)
    play_in_few_tasks(player, clock.bounds, given)
    player.play(_WriteTables(clock.bounds, write))


@dataclass(frozen=True, kw_only=True)
class ClockRules:
    """The rates, times and rules of a config, from which clocks are made; without pydantic."""

    #: See :class:`Clock`.
    up: int
    down: int
    validation_us: int
    #: See `Discipline`.
    uplink: str
    shared: bool
    lan_us: int
    seed: int
    classes: NodeClasses
    hosts: Hosts

    @classmethod
    def of(cls, config: Any, hosts: Hosts, lan_us: int, **more: Any) -> Self:
        """Return the rules of a run's or world's config; `more` are fields of a subclass."""
        given = config.bandwidth
        return cls(
            up=given.up,
            down=given.down,
            validation_us=given.validation_us,
            uplink=given.uplink_order,
            shared=given.links == "shared",
            lan_us=lan_us,
            seed=config.seed,
            classes=NodeClasses.of(config),
            hosts=hosts,
            **more,
        )

    def clock(
        self, facts: KnowsRing, bounds: np.ndarray, kernel: Kernel, **discipline: Any
    ) -> Clock:
        """Return a clock; `discipline` contains the system's `Discipline` fields."""
        rules: dict[str, Any] = {"uplink": self.uplink, "shared": self.shared, "seed": self.seed}
        return Clock(
            *(facts, bounds, kernel, self.lan_us, self.up, self.down, self.validation_us),
            *(self.classes, self.hosts, Discipline(**rules | discipline)),
        )


def clock_of(stages: Any, **discipline: Any) -> Clock:
    """Return the clock of a run, and record in the run where it is played.

    `discipline` has the system's values of `Discipline` fields, for example `held_back`.
    """
    ring, underlay = stages.overlay.ring, stages.overlay.underlay
    stages.note_clock(player_of(ring.layout))
    rules = ClockRules.of(stages.config, stages.graph.hosts, underlay.lan_us)
    return rules.clock(ring.facts, ring.bounds, underlay.kernel, **discipline)
