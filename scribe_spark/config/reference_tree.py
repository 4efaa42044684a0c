"""The config of the command ``reference-tree``: experiments on the tree of Costa and Frey."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, model_validator

from scribe_spark.config import section
from scribe_spark.config.experiment import NetworkConfig
from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.core.errors import InputError

#: The greatest number of children of a key; with more, the tree is a star of few levels.
MOST_REFERENCE_CHILDREN = 2**20

#: The greatest number of hosts; more do not fit into the memory of Python workers.
MOST_HOSTS = 10_000_000

#: The greatest number of connections for each number of hosts.
MOST_CONNECTIONS = 1_000_000


def _whole_numbers(value: Any) -> Any:
    """Return the numbers in a list, or in a text that separates them by commas."""
    if isinstance(value, str):
        value = value.split(",") if value.strip() else []
    elif not isinstance(value, list | tuple):
        value = [value]
    try:
        numbers = [section.whole_number(part) if isinstance(part, str) else part for part in value]
    except ValueError:
        numbers = [None]
    if not all(type(number) is int for number in numbers):
        raise ValueError("must be whole numbers, in a list or separated by commas")
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise ValueError(f"has {twice} twice; leave one of them out")
    return tuple(numbers)


#: Different whole numbers in a list, or in a text that separates them by commas.
WholeNumbers = Annotated[tuple[int, ...], BeforeValidator(_whole_numbers)]


@dataclass(frozen=True)
class TreePoint:
    """One measurement: a small tree through events (``events``), or a large tree (``scaling``)."""

    kind: str
    hosts: int
    bits: int
    children: int
    assignment: str

    @property
    def name(self) -> str:
        kind = "hosts" if self.kind == "events" else "scaling"
        return f"{kind}-{self.hosts}-children-{self.children}"


_OF_HOSTS = section.used_when(lambda config: bool(config.reference_tree.hosts), "--hosts")


class ReferenceTreeSection(section.Section):
    """The settings of the reference tree: the paper's experiment, more children, large trees."""

    about: ClassVar[str] = (
        "The reference tree of Costa and Frey is one tree over all nodes (hosts) of a DHT: each "
        "node computes its position from the keys that it holds."
    )

    hosts: WholeNumbers = section.setting(
        tuple(range(10, 121, 10)),
        "Numbers of hosts in the paper's experiment (Section 4), separated by commas",
    )
    connections: Annotated[int, section.within(1, MOST_CONNECTIONS)] = section.setting(
        2_000, "Number of hosts that connect, and that disconnect, for each number of hosts"
    )
    bits: Annotated[int, section.within(4, 128), _OF_HOSTS] = section.setting(
        8, "Bits of a key in the paper's experiment; 8 bits give 256 keys"
    )
    children: WholeNumbers = section.setting(
        (2,),
        "Greatest numbers of children of a key, separated by commas: 2 is the paper's tree; "
        "3,4,7,15 give node degrees 4, 5, 8 and 16",
    )
    assignment: Literal["chord", "pastry"] = section.setting(
        "chord",
        "A host holds the keys after its predecessor's id up to its own (chord), or the keys "
        "nearest to its id (pastry)",
    )
    scaling: WholeNumbers = section.setting(
        (), "Numbers of hosts of further, large networks with 128-bit keys, such as 1000,100000"
    )
    dht: Literal["abstract", "routed"] = section.setting(
        "abstract",
        "Lookups in large networks: one message each (abstract), or Pastry's routes with hops and "
        "delays (routed; needs --assignment pastry)",
    )

    def _faults(self) -> Iterator[section.Fault]:
        hosts, scaling, routed = self.hosts, self.scaling, self.dht == "routed"
        needs = "must have at least one number if scaling has none"
        yield not hosts and not scaling, "hosts", "", needs
        yield not self.children, "children", "", "must have at least one number"
        for name, numbers, least, most in (
            ("children", self.children, 2, MOST_REFERENCE_CHILDREN),
            ("hosts", hosts, 1, MOST_HOSTS),
            ("scaling", scaling, 1, MOST_HOSTS),
        ):
            for number in numbers:
                outside = not least <= number <= most
                yield outside, name, number, f"must be from {least} to {most:,}"
        # a new host needs a free key
        keys, many = 2**self.bits, max(hosts, default=0)
        less = f"must be less than the number of keys, {keys} with {self.bits} bits"
        yield many >= keys, "hosts", many, less
        needs = "applies to the networks of scaling only; add scaling"
        yield routed and not scaling, "dht", self.dht, needs
        needs = "does not assign keys as Pastry does; with dht = routed, give pastry"
        yield routed and self.assignment != "pastry", "assignment", self.assignment, needs


class ReferenceTreeConfig(NetworkConfig):
    """The config of ``scribe-spark reference-tree``; the network is for ``dht = routed`` only."""

    command: ClassVar[str] = "reference-tree"
    sections: ClassVar[dict[str, type[section.Section]]] = {
        "reference_tree": ReferenceTreeSection,
        "overlay": OverlayConfig,
        "topology": TopologyConfig,
    }

    reference_tree: ReferenceTreeSection = ReferenceTreeSection()

    # tells type checkers that flat names are arguments, too
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    @model_validator(mode="after")
    def _network_is_used(self) -> ReferenceTreeConfig:
        usual = OverlayConfig().with_defaults_of(self.command).flat() | TopologyConfig().flat()
        flat = self.overlay.flat() | self.topology.flat()
        given = {name: value for name, value in flat.items() if value != usual[name]}
        if given and self.reference_tree.dht != "routed":
            name = next(iter(given))
            raise InputError(name, given[name], "applies with --dht routed only; leave it out")
        for name, remedy in (
            ("nodes", "follows from scaling; leave it out"),
            ("node_ids", "must be uniform, as with dht = abstract; leave it out"),
        ):
            if name in given:
                raise InputError(name, given[name], remedy)
        return self

    def points(self) -> list[TreePoint]:
        """Return all measurements, in order."""
        tree = self.reference_tree
        small = [
            TreePoint("events", hosts, tree.bits, children, tree.assignment)
            for hosts in tree.hosts
            for children in tree.children
        ]
        large = [
            TreePoint("scaling", hosts, 128, children, tree.assignment)
            for hosts in tree.scaling
            for children in tree.children
        ]
        return small + large

    @property
    def estimated_work(self) -> int:
        """A rough cost of all measurements: the number of times that a host is placed."""
        of_large = 50 if self.reference_tree.dht == "routed" else 10
        return sum(
            point.hosts * (self.reference_tree.connections if point.kind == "events" else of_large)
            for point in self.points()
        )
