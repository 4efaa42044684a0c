"""The nodes: how they get their tables, their classes, and those that forward no copies.

JSAC 2002, Section II.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from scribe_spark.config import section
from scribe_spark.config.toml import read_toml
from scribe_spark.core.errors import InputError, exact, unlike
from scribe_spark.core.units import parse_percentage

# --- classes of nodes: parts of all nodes with their own rates, times and degrees

MOST_CLASSES = 100

#: The form of a name, which appears in tables and messages.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")

#: The sum of the shares may differ from 1 by this much, as decimals are rounded.
_TOLERANCE = 1e-6

_EXAMPLE = '[[classes]] with name = "fast", share = 0.2, up = "1Gbit/s"'


class NodeClass(section.Section):
    """The settings of a class of nodes; if a field is None, the setting for all nodes applies."""

    name: str
    share: float = Field(gt=0.0, le=1.0)
    up: section.Rate | None = None
    down: section.Rate | None = None
    validation: section.Time | None = None
    degree: int | None = Field(default=None, ge=1, le=1_000)
    custody: int | None = Field(default=None, ge=0, le=2**31 - 1)


def _read(value: Any) -> Any:
    """Return the classes of nodes from a list of tables, or from a TOML file with such tables."""
    if isinstance(value, str):
        return _read(_of_file(value))
    if not isinstance(value, list | tuple):
        raise InputError("classes", value, f"must be tables, such as {_EXAMPLE}")
    if len(value) > MOST_CLASSES:
        remedy = f"must be at most {MOST_CLASSES} classes"
        raise InputError("classes", f"{len(value):,} classes", remedy)
    classes = tuple(_class(number, given) for number, given in enumerate(value, 1))
    names = [one.name for one in classes]
    for name in names:
        if names.count(name) > 1:
            raise InputError("classes.name", name, "is the name of two classes; rename one")
    total = math.fsum(one.share for one in classes)
    if classes and abs(total - 1.0) > _TOLERANCE:
        shares = " + ".join(exact(one.share) for one in classes)
        raise InputError("classes.share", shares, f"must sum to 1, but sums to {unlike(total, 1)}")
    return classes


def _of_file(path: str) -> list[Any]:
    found = read_toml(path, "classes").get("classes")
    if not isinstance(found, list):
        raise InputError("classes", path, f"has no classes; needs {_EXAMPLE}")
    return found


def _class(number: int, given: Any) -> NodeClass:
    if isinstance(given, NodeClass):
        return given
    if not isinstance(given, Mapping):
        raise InputError("classes", given, f"must be tables, such as {_EXAMPLE}")
    try:
        found = NodeClass(**given)
    except InputError as error:
        if error.field == "config key":  # classes have no such field
            raise InputError("classes", error.value, error.remedy) from None
        field = f"classes.{error.field} of class {given.get('name', number)}"
        raise InputError(field, error.value, error.remedy) from None
    if not _NAME.fullmatch(found.name):
        remedy = "must be 1 to 40 letters, digits, dots, underscores or hyphens"
        raise InputError("classes.name", found.name, remedy)
    return found


#: The type of a config's field; a text is the path of a TOML file with tables ``[[classes]]``.
Classes = Annotated[tuple[NodeClass, ...], section.TakenAs("file"), BeforeValidator(_read)]

NO_CLASSES: Any = Field(
    default=(),
    description="TOML file with classes of nodes, a table [[classes]] for each: name, share of "
    "the nodes (the sum is 1) and, where a class differs, up and down (rates), validation "
    "(time), degree (GossipSub's D), custody",
)


#: The greatest number of nodes, as a node's number must fit into 31 bits.
MOST_NODES = 2**31 - 1

#: The greatest number of dimensions of a CAN, whose zones are halved at most 40 times: in a further
#: dimension, no zone could be halved.
MOST_DIMENSIONS = 40

#: The least growth: each wave is then one node, even in the largest overlay.
LEAST_GROWTH = 1.0000000001


_OF_ARRIVALS = section.used_when(
    section.nodes_arrive,
    "nodes that arrive: --overlay arrivals, --generator churn or flash-crowd, or --events",
)
_OF_CAN = section.used_when(
    lambda config: config.overlay.kind not in ("perfect", "arrivals"), "--overlay can"
)

#: In worlds, and for lookups of the reference tree, tables are perfect by default.
_SETTLED = section.Differs(("world", "reference-tree"), "perfect")

_Contact = Literal["nearest", "latest", "random", "discovered"]


class OverlayConfig(section.Section):
    """The settings of nodes and their tables; the defaults are the paper's."""

    about: ClassVar[str] = (
        "An overlay routes messages from node to node to the root of a key, the node whose "
        "nodeId is closest to the key. In Pastry, each node has a 128-bit nodeId, a leaf set "
        "(the nodes with the nearest nodeIds) and a routing table (nodes by the first digits of "
        "their nodeIds). With --overlay perfect, flags about arrivals have an effect only on "
        "nodes that arrive in rounds."
    )

    kind: Annotated[section.Text, section.Flat("overlay"), _SETTLED] = section.setting(
        "arrivals",
        "How nodes get their tables: arrivals (nodes join by Pastry's protocol), perfect (each "
        "entry is the nearest fitting node), can (a CAN in place of Pastry), or the name of your "
        "own overlay",
    )
    nodes: Annotated[int, section.within(1, MOST_NODES)] = section.setting(
        100_000, "Number of nodes, N"
    )
    b: Annotated[Literal[1, 2, 4, 8], section.Whole] = section.setting(
        4, "Bits of a digit of nodeIds, b: digits have base 2^b"
    )
    leaf_set: int = Field(
        default=16,
        ge=2,
        le=128,
        multiple_of=2,
        description="Number of nodes in a leaf set, l: half have smaller nodeIds, half larger; "
        "even",
    )
    node_ids: Literal["uniform", "sha1"] = section.setting(
        "uniform", "NodeIds are random (uniform) or SHA-1 hashes of the nodes' names (sha1)"
    )
    growth: Annotated[float, section.within(LEAST_GROWTH, 1000.0), _OF_ARRIVALS] = section.setting(
        1.25,
        "Nodes arrive in waves; each wave multiplies the number of nodes by this factor. Nodes of "
        "one wave arrive at the same time",
    )
    contact: Annotated[_Contact, _OF_ARRIVALS] = section.setting(
        "nearest",
        "Node that an arriving node asks first: the nearest one (of equally near ones, nearest "
        "takes the smallest nodeId, latest the last arrival), a random one, or one that Pastry's "
        "search for a near node finds (discovered)",
    )
    introduce: Annotated[bool, _OF_ARRIVALS] = section.setting(
        True, "Nodes of one wave learn of each other if their join messages meet on the way"
    )
    maintenance: Annotated[int, section.within(0, 100), _OF_ARRIVALS] = section.setting(
        0,
        "Rounds after each wave of arrivals in which nodes exchange rows of their routing tables, "
        "m",
    )
    dimensions: Annotated[
        int, section.within(1, MOST_DIMENSIONS), section.Flat("overlay_dimensions"), _OF_CAN
    ] = section.setting(6, "Dimensions of the space with --overlay can, d")


# --- the section ``forwarding``: the nodes that forward no copies of publications

_OF_WITHHOLD = section.used_when(
    lambda config: config.forwarding.withhold is not None, "--withhold"
)


class ForwardingConfig(section.Section):
    """The settings of the nodes that forward no copies; rule N6 of docs/rules.md."""

    about: ClassVar[str] = (
        "Nodes that take part in trees and meshes, but forward no copies of other nodes' "
        "publications."
    )

    withhold: Annotated[section.Location | None, section.OF_GROUPS] = section.unset(
        "Nodes that forward no copies: a share of all nodes (20%), the name of a class of nodes, "
        "or a CSV or Parquet table (column node) [default: none]"
    )
    withhold_kind: Annotated[Literal["payload", "all"], _OF_WITHHOLD] = section.setting(
        "payload",
        "These nodes withhold copies (payload), or also GossipSub's IHAVE and IDONTWANT, and "
        "Plumtree's ihave (all)",
    )

    @field_validator("withhold")
    @classmethod
    def _is_possible(cls, value: str | None) -> str | None:
        share = parse_percentage(value or "")
        if share is not None and not 0 < share < 1:
            remedy = "must be above 0% and below 100%: some node must forward, such as 20%"
            raise InputError("withhold", value, remedy)
        return value

    @property
    def announcements(self) -> bool:
        """True if these nodes withhold announcements, too."""
        return self.withhold_kind == "all"

    @property
    def share(self) -> float | None:
        """The share of the nodes that forward nothing; None: a class or a table says which."""
        share = parse_percentage(self.withhold or "")
        return None if share is None else float(share)

    def table(self, names: Collection[str]) -> str | None:
        """Return the path of the table of nodes that forward nothing; None without a table."""
        return self.withhold if self.share is None and self.withhold not in names else None

    def of_class(self, names: Collection[str]) -> str | None:
        """Return the name of the class whose nodes forward nothing; None without one."""
        return self.withhold if self.withhold in names else None
