"""What a run is: one frozen, flat, validated record, and how it is read from flags and TOML.

A config says *what* is simulated and holds no Spark object.  Where it runs and where it writes
(master, partitions, OUT) is :class:`Execution`: it never changes a result, so it is not part of
what two runs are compared by.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scribe_spark.errors import InputError

__all__ = [
    "EXPERIMENTS",
    "VARIANTS",
    "Execution",
    "Experiment",
    "Paper",
    "RunConfig",
    "TransitStub",
    "check_names",
    "read_toml",
]

#: How a tree may be built: Scribe's own, and those of Sections IV.E and IV.F.
VARIANTS = ("plain", "bottleneck", "collapse", "lazy")


@dataclass(frozen=True)
class TransitStub:
    """Parameters of the transit-stub model; the defaults are the paper's preset.

    Attributes
    ----------
    transit_domains, transit_size, stubs_per_transit, stub_size : int
        T, N_T, K, N_S: domains; mean routers per domain; mean stubs per transit router; mean
        routers per stub.
    p_top, p_transit, p_stub : float
        Edge probabilities of the pure random method.
    extra_transit_stub, extra_stub_stub : int
        Extra links.
    gtitm_quirk : bool
        Only transit domain 0 is drawn with the transit scale and probability (as GT-ITM does).
    """

    transit_domains: int = 10
    transit_size: int = 5
    stubs_per_transit: int = 10
    stub_size: int = 10
    p_top: float = 1.0
    p_transit: float = 0.6
    p_stub: float = 0.5
    extra_transit_stub: int = 0
    extra_stub_stub: int = 0
    gtitm_quirk: bool = True

    def __post_init__(self) -> None:
        for name in ("transit_domains", "transit_size", "stubs_per_transit", "stub_size"):
            _whole(self, name, least=1)
        for name in ("extra_transit_stub", "extra_stub_stub"):
            _whole(self, name, least=0)
        for name in ("p_top", "p_transit", "p_stub"):
            _real(self, name, above=0.0, most=1.0)
        _boolean(self, "gtitm_quirk")

    @property
    def routers(self) -> int:
        """R = T N_T (1 + K N_S)."""
        per_transit = 1 + self.stubs_per_transit * self.stub_size
        return self.transit_domains * self.transit_size * per_transit


@dataclass(frozen=True)
class RunConfig(TransitStub):
    """One experiment of JSAC Section IV A-D; the defaults are the paper's.

    Attributes
    ----------
    nodes, groups : int
        N overlay nodes; G groups.
    seed : int
        Key of every draw.
    topology : str
        ``transit-stub`` (the parameters above), ``power-law`` (an internet-like graph, distances in
        hops), ``topohub:NAME`` (a real network by the topohub package), or the path of an edge list
        (CSV or Parquet: src, dst, delay_ms[, weight]).
    power_law_routers, power_law_links : int
        Routers of the power-law graph; its undirected links.
    tie : str
        How equal policy weights are broken: ``delay`` (least delay) or ``seeded`` (a draw).
    lan_delay_ms : float
        Delay of a node's LAN link, each way.
    b, leaf_set : int
        Pastry's digits are base 2**b; the leaf set has this many nodes (l).
    node_ids : str
        ``uniform`` or ``sha1`` (of the node's name).
    group_ids : str
        ``hash`` (of name and creator) or ``creator`` (the creator is the root).
    zipf_exponent : float
        gsize(r) = floor(N r**-zipf_exponent + 0.5).
    group_size : int or None
        Every group this large, instead of the Zipf-like sizes.
    members : str or None
        A CSV or Parquet table (group, node) of the user's, instead of drawn members.
    source : str
        Who multicasts: ``root``, ``routed`` (a random member, the message routed to the root) or
        ``direct`` (a random member that knows the root's address).
    variants : str
        Trees built beside Scribe's own, separated by commas: ``bottleneck`` (Section IV.E),
        ``collapse``, ``lazy`` (Section IV.F); ``plain`` for none.
    limit : int
        A node with more children than this, over all groups, is overloaded.
    capacities : str or None
        A CSV or Parquet table (node, limit) with every node's own limit.
    shed_group, shed_child : str
        What an overloaded node drops from: its ``largest`` table or a ``random`` one; which child
        it drops: the ``farthest``, the ``nearest`` or a ``random`` one.
    shed_table : str
        What a dropped child is sent: the children that ``remaining``, or the ``whole`` table of the
        round's start (then two may choose each other, and the loop rule refuses one).
    write_routing_table : bool
        Also write the ``routing_table`` table (large).

    Raises
    ------
    InputError
        For a value outside its range, or groups larger than N.
    """

    nodes: int = 100_000
    groups: int = 1_500
    seed: int = 1
    topology: str = "transit-stub"
    power_law_routers: int = 102_639
    power_law_links: int = 142_303
    tie: str = "delay"
    lan_delay_ms: float = 1.0
    b: int = 4
    leaf_set: int = 16
    node_ids: str = "uniform"
    group_ids: str = "hash"
    zipf_exponent: float = 1.25
    group_size: int | None = None
    members: str | None = None
    source: str = "root"
    variants: str = "plain"
    limit: int = 64
    capacities: str | None = None
    shed_group: str = "largest"
    shed_child: str = "farthest"
    shed_table: str = "remaining"
    write_routing_table: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole(self, "nodes", least=1, most=2**31 - 1)
        _whole(self, "groups", least=0)
        _whole(self, "seed", least=-(2**63), most=2**63 - 1)
        _text(self, "topology")
        _whole(self, "power_law_routers", least=1, most=10_000_000)
        _whole(self, "power_law_links", least=self.power_law_routers - 1, most=1_000_000_000)
        _choice(self, "tie", ("delay", "seeded"))
        _real(self, "lan_delay_ms", least=0.001, most=1e6)
        _choice(self, "b", (1, 2, 4, 8))
        _whole(self, "leaf_set", least=2, most=128)
        if self.leaf_set % 2:
            raise InputError("leaf_set", self.leaf_set, "must be even, for example 16")
        _choice(self, "node_ids", ("uniform", "sha1"))
        _choice(self, "group_ids", ("hash", "creator"))
        _choice(self, "source", ("root", "routed", "direct"))
        _text(self, "variants")
        check_names(dict.fromkeys(self.trees), list(VARIANTS), "variants")
        _whole(self, "limit", least=1)
        if self.capacities is not None:
            _text(self, "capacities")
        _choice(self, "shed_group", ("largest", "random"))
        _choice(self, "shed_child", ("farthest", "nearest", "random"))
        _choice(self, "shed_table", ("remaining", "whole"))
        _boolean(self, "write_routing_table")
        _real(self, "zipf_exponent", least=0.0, most=100.0)
        if self.group_size is not None:
            _whole(self, "group_size", least=1)
            if self.group_size > self.nodes:
                remedy = f"a group cannot have more members than the {self.nodes} nodes"
                raise InputError("group_size", self.group_size, remedy)
        if self.members is not None:
            _text(self, "members")

    @property
    def trees(self) -> tuple[str, ...]:
        """The names in `variants`."""
        return tuple(name.strip() for name in self.variants.split(","))

    @property
    def effort(self) -> int:
        """What a run costs, roughly: nodes times the ways to build trees."""
        return self.nodes * len({"plain", *self.trees})

    @property
    def network(self) -> tuple[Any, ...]:
        """What the routers, the links and the routes between them depend on, and nothing else."""
        names = [field.name for field in dataclasses.fields(TransitStub)]
        names += ["seed", "topology", "tie", "lan_delay_ms", "power_law_routers", "power_law_links"]
        return tuple(getattr(self, name) for name in names)

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
            check_names(source, [f.name for f in dataclasses.fields(cls)], "config key")
            merged.update(source)
        return cls(**merged)

    def as_dict(self) -> dict[str, Any]:
        """Every field and its value, in order."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Execution:
    """Where a run happens; nothing here changes a number.

    Attributes
    ----------
    out : str
        Folder or URL that Spark can write.
    master : str
        Spark master.
    partitions : int or None
        Partitions of the node-level tables; None picks from cores and size.
    resume, overwrite : bool
        What to do with an existing OUT.
    """

    out: str
    master: str = "local[*]"
    partitions: int | None = None
    resume: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        _text(self, "out")
        _text(self, "master")
        if self.partitions is not None:
            _whole(self, "partitions", least=1, most=100_000)
        if self.resume and self.overwrite:
            raise InputError("overwrite", True, "use either --resume or --overwrite, not both")


def read_toml(path: str | Path) -> dict[str, Any]:
    """The keys of a TOML config file.

    Raises
    ------
    InputError
        Missing or malformed file.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InputError("config", str(path), f"cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("config", str(path), f"is not TOML: {error}") from None


def check_names(given: Mapping[str, Any], known: list[str], what: str) -> None:
    """Refuse the first unknown name, with the nearest known one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise InputError(what, name, f"is unknown; did you mean {near[0]!r}?")


def _whole(record: Any, name: str, least: int, most: int | None = None) -> None:
    value = getattr(record, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, value, "must be a whole number")
    if value < least:
        raise InputError(name, value, f"must be at least {least}")
    if most is not None and value > most:
        raise InputError(name, value, f"must be at most {most}")


def _real(record: Any, name: str, *, least=None, above=None, most=None) -> None:
    value = getattr(record, name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(name, value, "must be a number")
    if least is not None and value < least:
        raise InputError(name, value, f"must be at least {least}")
    if above is not None and value <= above:
        raise InputError(name, value, f"must be above {above}")
    if most is not None and value > most:
        raise InputError(name, value, f"must be at most {most}")


def _choice(record: Any, name: str, choices: tuple) -> None:
    value = getattr(record, name)
    if isinstance(value, bool) or value not in choices:
        raise InputError(name, value, "must be one of " + ", ".join(map(str, choices)))


def _boolean(record: Any, name: str) -> None:
    if not isinstance(getattr(record, name), bool):
        raise InputError(name, getattr(record, name), "must be true or false")


def _text(record: Any, name: str) -> None:
    value = getattr(record, name)
    if not isinstance(value, str) or not value.strip():
        raise InputError(name, value, "must be a non-empty text")


# --- the whole paper


@dataclass(frozen=True)
class Experiment:
    """One experiment of Section IV: its config but for the seed, and how many seeds it is run for.

    Attributes
    ----------
    config : RunConfig
    seeds : int or None
        At most so many; None for all that are asked for.
    """

    config: RunConfig
    seeds: int | None = None


#: The experiments of Section IV, in the order in which a seed's are run.
EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(RunConfig(variants="bottleneck,collapse,lazy")),
    "small_groups": Experiment(
        RunConfig(nodes=50_000, groups=30_000, group_size=11, variants="collapse,lazy")
    ),
    "internet": Experiment(RunConfig(topology="power-law"), seeds=1),
}


@dataclass(frozen=True)
class Paper:
    """Section IV as a whole: its experiments, each over a number of topologies.

    Attributes
    ----------
    seeds : int
        Topologies: seeds 1, 2, ..., each with its own graph, placement, nodeIds and members.
    experiments : str
        Which, separated by commas: ``main`` (Sections IV.A to IV.E), ``small_groups``
        (Section IV.F), ``internet`` (IV.A's second topology in spirit; one seed).
    scale : float
        Nodes and groups of every experiment times this, and the routers and links of an
        internet-like topology; below 1 for a trial.

    Raises
    ------
    InputError
        For a value outside its range, or an unknown experiment.
    """

    seeds: int = 10
    experiments: str = ",".join(EXPERIMENTS)
    scale: float = 1.0

    def __post_init__(self) -> None:
        _whole(self, "seeds", least=1, most=10_000)
        _text(self, "experiments")
        check_names(dict.fromkeys(self.names), list(EXPERIMENTS), "experiments")
        _real(self, "scale", above=0.0, most=100.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The names in `experiments`, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.experiments.split(",")))

    def runs(self) -> dict[int, dict[str, RunConfig]]:
        """Seed -> experiment -> the config of that run."""
        return {
            seed: {
                name: self._run(EXPERIMENTS[name].config, seed)
                for name in self.names
                if seed <= (EXPERIMENTS[name].seeds or seed)
            }
            for seed in range(1, self.seeds + 1)
        }

    def _run(self, config: RunConfig, seed: int) -> RunConfig:
        nodes = max(round(config.nodes * self.scale), config.group_size or 1)
        groups = max(round(config.groups * self.scale), 1)
        smaller = dataclasses.replace(config, seed=seed, nodes=nodes, groups=groups)
        if config.topology != "power-law":
            return smaller
        return dataclasses.replace(
            smaller,
            power_law_routers=max(round(config.power_law_routers * self.scale), 100),
            power_law_links=max(round(config.power_law_links * self.scale), 139),
        )

    def as_dict(self) -> dict[str, Any]:
        """Every field and its value, in order."""
        return dataclasses.asdict(self)
