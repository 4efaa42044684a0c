"""The configs of runs and worlds, and of the experiments of Section IV of the paper.

Runs and worlds have one class, whose fields and defaults depend on the command.  A config says
*what* is simulated and contains no Spark object.  `Execution` says where it runs and where it
writes; as this never changes a result, it does not count when two results are compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import field_validator, model_validator

from scribe_spark.config.bandwidth import MOST_PUBLICATIONS, BandwidthConfig
from scribe_spark.config.coverage import CoverageConfig
from scribe_spark.config.groups import (
    MOST_MEMBERSHIPS,
    MOST_WORLD_GROUPS,
    MOST_WORLD_MEMBERSHIPS,
    GroupsConfig,
    TreesConfig,
    refuse_missing_roots,
)
from scribe_spark.config.overlay import NO_CLASSES, Classes, ForwardingConfig, OverlayConfig
from scribe_spark.config.rounds import RoundsConfig
from scribe_spark.config.scribe import ScribeConfig
from scribe_spark.config.section import (
    VARIANTS,
    Fault,
    Location,
    Names,
    Section,
    may_play_pastry,
    refuse_first,
    setting,
    unset,
    used_when,
    within,
)
from scribe_spark.config.sectioned import Sectioned, with_systems
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.core.errors import InputError, check_names, listed
from scribe_spark.core.key_limits import refuse_groups, refuse_groups_of_world
from scribe_spark.core.registry import SYSTEMS

_NO_GROUPS = "has no effect without groups; give groups or members"
_LONE_CUSTODY = "has no effect without custody, which holds for all other classes; add custody"
_NO_SCRIBE = "has no effect without Scribe; add scribe to systems"
#: The reasons why worlds do not have other variants than `VARIANTS`.
_NOT_IN_WORLDS = {
    "reference_tree": "applies to runs only; give --reference-tree, a tree over the live nodes"
}

_OF_TABLES = used_when(
    lambda config: not config.is_world or may_play_pastry(config),
    "a system that needs Pastry, such as --systems scribe",
)


class NetworkConfig(Sectioned):
    """The settings of every config that simulates an overlay: seed, network and nodes."""

    about: ClassVar[str] = "Settings of the whole simulation."

    seed: Annotated[int, within(-(2**63), 2**63 - 1)] = setting(
        1, "Seed of all random numbers; the same seed and settings give the same results"
    )
    topology: TopologyConfig = TopologyConfig()
    overlay: OverlayConfig = OverlayConfig()

    @property
    def network_key(self) -> Hashable:
        """The settings that determine routers, links and routes; equal keys give equal networks."""
        nodes = self.overlay.nodes if self.topology.is_pairs else None
        return self.topology, self.seed, nodes


class ExperimentConfig(NetworkConfig):
    """The settings of a run or a world; systems declare further sections.

    Each setting is an argument by its own name (``nodes=9``) or in its section
    (``overlay={"nodes": 9}``).  `docs/configuration.md` lists all settings.

    Raises
    ------
    InputError
        A setting is unknown, or its value is impossible, alone or together with another one.
    """

    groups: GroupsConfig = GroupsConfig()
    bandwidth: BandwidthConfig = BandwidthConfig()
    coverage: CoverageConfig = CoverageConfig()
    trees: TreesConfig = TreesConfig()
    world: RoundsConfig = RoundsConfig()
    scribe: ScribeConfig = ScribeConfig()
    forwarding: ForwardingConfig = ForwardingConfig()
    classes: Classes = NO_CLASSES
    write_routing_table: Annotated[bool, _OF_TABLES] = setting(
        False, "Also write the nodes' routing tables, as the large table routing_table"
    )
    write_knowledge: Annotated[bool, _OF_TABLES] = setting(
        False, "Also write leaf sets and routing tables, for a later --knowledge"
    )
    knowledge: Annotated[Location | None, _OF_TABLES] = unset(
        "Folder of a run or world with write_knowledge: take its leaf sets and routing tables. "
        "Overlay, topology and seed must be equal"
    )

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        count = self.groups.count
        memberships = self.groups.memberships(self.overlay.nodes, self.classes)
        if count is not None:
            self.refuse_groups(count, memberships)
            self.refuse_publications(count, memberships)
        for section in self._systems():
            section.check_within(self)

    def _systems(self) -> Iterator[Section]:
        """Return the sections of those systems that the config names, in order."""
        for system in SYSTEMS.values():
            if system.config_section is not None and self.has_system(system.name):
                yield getattr(self, system.config_section)

    def has_system(self, name: str) -> bool:
        """Return True if `systems` or `variants` contains the name of a system."""
        return name in {*self.trees.systems, *self.trees.variants}

    @property
    def has_rounds(self) -> bool:
        """True if rounds are played: in a world, and in a run that publishes after rounds."""
        events, scribe = self.world, self.scribe
        asked = events.events, events.generator, events.initial, scribe.access
        return self.is_world or any(one is not None for one in asked) or scribe.reliable

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        refuse_first(self._faults())
        if self.groups.count and "root-failure" in self.world.generators:
            refuse_missing_roots(self.world.roots, self.groups.count)
        if self.bandwidth.on:
            self.bandwidth.refuse_slow(self.classes)
        return self

    def _faults(self) -> Iterator[Fault]:
        """Yield each possible fault: whether the config has it, the field, its value, a remedy."""
        nodes, most = self.overlay.nodes, self.overlay.leaf_set // 2
        groups, count, replicas = self.groups, self.groups.count or 0, self.scribe.replicas
        initial, jitter = self.world.initial or 1, self.topology.message_jitter
        reliable = jitter is not None and self.scribe.reliable
        yield reliable, "message_jitter", jitter, "applies to best-effort delivery only"
        yield initial > nodes, "initial", initial, f"must be at most the {nodes} nodes"
        if self.has_rounds and groups.has_groups:
            half = f"must be at most {most}, half of leaf_set: a node knows no farther neighbours"
            yield replicas > most, "replicas", replicas, half
            fewer = f"must be at most {MOST_WORLD_GROUPS:,}"
            yield count > MOST_WORLD_GROUPS, "groups", count, fewer
        if groups.has_groups or not self.is_world:
            for one in self.classes:
                lone = one.custody is not None and groups.custody is None
                yield lone, f"classes.custody of class {one.name}", one.custody, _LONE_CUSTODY
            larger = f"a group cannot have more members than the {nodes} nodes"
            yield (groups.size or 0) > nodes, "group_size", groups.size, larger
            memberships = groups.memberships(nodes, self.classes)
            allowed = MOST_WORLD_MEMBERSHIPS if self.has_rounds else MOST_MEMBERSHIPS
            made = f"makes {memberships:,} members over all groups of {nodes:,} nodes"
            remedy = f"{made}; must be at most {allowed:,}"
            yield memberships > allowed, "groups", groups.count, remedy

    def refuse_publications(self, groups: int, memberships: int) -> None:
        """Refuse more publications than a run can simulate, by its groups and memberships."""
        given = self.bandwidth
        each, sent = given.publications, given.parts_sent
        if each is None and sent == 1:
            return
        of = memberships if given.published_by == "everyone" else groups
        total = (each or 1) * of * sent
        if total > MOST_PUBLICATIONS:
            field, value = ("publications", each) if sent == 1 else ("parts", given.parts)
            what = "publications" if sent == 1 else "parts"
            remedy = f"makes {total:,} {what}; must be at most {MOST_PUBLICATIONS:,}"
            raise InputError(field, value, f"{remedy}; give fewer, or fewer groups")

    def refuse_groups(self, groups: int, memberships: int, members: str | None = None) -> None:
        """Refuse more groups than the 64-bit keys of the systems can number."""
        nodes = self.overlay.nodes
        refuse_groups(groups, nodes, members)
        if self.has_rounds:
            deadline, rounds = self.scribe.deadline, self.world.rounds
            refuse_groups_of_world(groups, nodes, deadline, rounds, members)
        for section in self._systems():
            section.check_groups(self, groups, memberships, members)

    def refuse_jitter(self) -> None:
        """Refuse jitter of copies for users' applications, which send messages of their own."""
        if (jitter := self.topology.message_jitter) is not None:
            remedy = "applies to Scribe without an application; leave it out"
            raise InputError("message_jitter", jitter, remedy)

    def refuse_network(self, source: str, routers: int, has_rates: bool) -> None:
        """Refuse settings of systems that do not fit to the network."""
        for section in self._systems():
            section.check_network(source, routers, has_rates)


def _sections(names: str) -> Mapping[str, type[Section]]:
    """Return the sections of an experiment in the order of flags and docs."""
    fields = ExperimentConfig.model_fields
    return with_systems({name: type(fields[name].default) for name in names.split()})


class RunConfig(ExperimentConfig):
    """The settings of a run; the defaults are the experiment of JSAC 2002, Section IV.A to IV.D.

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

    sections: ClassVar[Mapping[str, type[Section]]] = _sections(
        "overlay groups topology bandwidth forwarding coverage trees world scribe"
    )

    # tells type checkers that flat names are arguments, too
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    def _faults(self) -> Iterator[Fault]:
        """Yield the faults of any experiment, and settings that runs cannot have."""
        yield from super()._faults()
        groups = self.groups
        yield groups.size == 0, "group_size", 0, "must be at least 1"

    @property
    def estimated_work(self) -> int:
        """A rough cost of the run, to choose the number of partitions: nodes times systems."""
        return self.overlay.nodes * (1 + len(self.trees.variants) + len(self.trees.systems))


class WorldConfig(ExperimentConfig):
    """The settings of a world, an overlay whose nodes arrive, leave, fail and recover in rounds.

    Examples
    --------
    >>> config = WorldConfig(nodes=5_000, generator="mass-failure", rounds=5)
    >>> config == WorldConfig(
    ...     overlay={"nodes": 5_000}, world={"generator": "mass-failure", "rounds": 5}
    ... )
    True
    >>> config.world.share, config.flat()["detection"], config.replace(rounds=9).world.rounds
    (0.1, 1, 9)
    """

    command: ClassVar[str] = "world"
    sections: ClassVar[Mapping[str, type[Section]]] = _sections(
        "world scribe groups trees overlay topology bandwidth forwarding coverage"
    )

    # tells type checkers that flat names are arguments, too
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    @classmethod
    def of_run(cls, config: RunConfig, variant: str | None = None) -> WorldConfig:
        """Return the config of the world that plays a run's rounds, with a variant's trees."""
        sections = {
            name: getattr(config, name) for name in ("topology", "overlay", "groups", "world")
        }
        chosen = {"variants": () if variant is None else (variant,), "systems": ("scribe",)}
        measured = (
            {"measures": "delay", "link_stress_period": 0} if config.groups.has_groups else {}
        )
        same = {name: getattr(config, name) for name in ("seed", "classes", "knowledge")}
        return cls.of(
            {**sections, **same, "lookups": 0},
            {"trees": config.trees.given() | chosen, "scribe": config.scribe.given() | measured},
        )

    def _faults(self) -> Iterator[Fault]:
        """Yield the faults of any experiment, and settings that worlds cannot have."""
        yield from super()._faults()
        no_groups, no_scribe = not self.groups.has_groups, not self.plays_scribe
        no_links = self.topology.is_pairs and "link_stress" in self.scribe.measures
        yield no_links, "measures", "link_stress", "has no meaning with topology pairs: no links"
        size, scribe = self.bandwidth.message_size, self.scribe
        yield no_groups and size is not None, "message_size", size, _NO_GROUPS
        for name in ("deadline", "quorum"):
            asked = getattr(self.coverage, name)
            yield no_groups and bool(asked), name, asked, _NO_GROUPS
        for name in ("schedule", "publications") if self.bandwidth.several else ():
            given, who = getattr(self.bandwidth, name), "says who publishes, as generator does"
            yield no_groups and given is not None, name, given, _NO_GROUPS
            twice = given is not None and "publications" in self.world.generators
            yield twice, name, given, f"{who} with publications; leave out one of them"
        yield no_groups and scribe.access is not None, "access", scribe.access, _NO_GROUPS
        measures = ",".join(scribe.measures)
        yield no_groups and measures != "", "measures", measures, _NO_GROUPS
        for name in self.trees.variants:
            unknown = f"is not a variant of worlds; give one of {listed(VARIANTS)}"
            remedy = _NOT_IN_WORLDS.get(name, unknown)
            yield name not in VARIANTS, "variants", name, remedy
            yield no_groups, "variants", name, _NO_GROUPS
            yield no_scribe, "variants", name, _NO_SCRIBE
        lost = scribe.reliable and no_scribe and not no_groups
        yield lost, "delivery", scribe.delivery, _NO_SCRIBE

    @property
    def plays_scribe(self) -> bool:
        """True if the world has groups and plays Scribe."""
        return self.groups.has_groups and "scribe" in self.trees.systems

    @property
    def estimated_work(self) -> int:
        """A rough cost, to choose the number of partitions: (nodes + lookups) * rounds."""
        return self.world.rounds * (self.overlay.nodes + self.world.lookups)


# --- the paper's experiments


@dataclass(frozen=True)
class PaperExperiment:
    """An experiment of Section IV: its settings without a seed, and its number of seeds."""

    settings: Mapping[str, Any]
    seeds: int | None = None

    @cached_property
    def config(self) -> RunConfig:
        """The config of the experiment with seed 1."""
        return RunConfig(**self.settings)


#: The experiments of Section IV, in the order in which they run for each seed.
EXPERIMENTS: dict[str, PaperExperiment] = {
    "main": PaperExperiment({"overlay": "perfect", "variants": "bottleneck,collapse,lazy"}),
    "small_groups": PaperExperiment(
        {
            **{"overlay": "perfect", "variants": "collapse,lazy"},
            **{"nodes": 50_000, "groups": 30_000, "group_size": 11},
        }
    ),
    "internet": PaperExperiment({"overlay": "perfect", "topology": "power-law"}, seeds=1),
    "arrivals": PaperExperiment({"overlay": "arrivals", "variants": "bottleneck"}),
}


class Paper(Section):
    """The settings of the command ``paper``: experiments, seeds and topologies."""

    about: ClassVar[str] = "The experiments of Section IV of the Scribe paper (JSAC 2002)."

    seeds: Annotated[int, within(1, 10_000)] = setting(
        10, "Number of seeds: 1, 2, ...; each seed gives its own topology, nodeIds and members"
    )
    experiments: Names = setting(
        tuple(EXPERIMENTS),
        "Experiments, separated by commas: main (Sections IV.A to IV.E), small_groups (Section "
        "IV.F), internet (a power-law topology in place of the second one of IV.A; only one "
        "seed), arrivals (Sections IV.A to IV.E with nodes that arrive by Pastry's protocol)",
    )
    scale: Annotated[float, within(1e-6, 100.0)] = setting(
        1.0,
        "Factor for the numbers of nodes, groups and power-law routers of every experiment; below "
        "1 for a trial",
    )

    @field_validator("experiments")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return each experiment once, and refuse unknown names."""
        check_names(names, EXPERIMENTS, "experiments")
        return tuple(dict.fromkeys(names))

    @model_validator(mode="after")
    def _can_be_run(self) -> Paper:
        for name in self.experiments:
            try:
                self._run(EXPERIMENTS[name].config, 1)
            except InputError as error:
                remedy = f"is not possible for {name}: {error}"
                raise InputError("scale", self.scale, remedy) from None
        return self

    def runs(self) -> dict[int, dict[str, RunConfig]]:
        """Return the config of each run: seed -> experiment -> config."""
        return {
            seed: {
                name: self._run(EXPERIMENTS[name].config, seed)
                for name in self.experiments
                if seed <= (EXPERIMENTS[name].seeds or seed)
            }
            for seed in range(1, self.seeds + 1)
        }

    def _run(self, config: RunConfig, seed: int) -> RunConfig:
        changes: dict[str, Any] = {
            "seed": seed,
            "nodes": max(round(config.overlay.nodes * self.scale), config.groups.size or 1),
            "groups": max(round((config.groups.count or 0) * self.scale), 1),
        }
        if config.topology.kind == "power-law":
            network = config.topology
            changes["power_law_routers"] = max(round(network.power_law_routers * self.scale), 100)
            changes["power_law_links"] = max(round(network.power_law_links * self.scale), 139)
        return config.replace(**changes)
