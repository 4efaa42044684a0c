"""The section ``scribe``: the maintenance of Scribe's trees in rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import field_validator

from scribe_spark.config.rounds import IN_WORLDS, MOST_ROUNDS
from scribe_spark.config.section import (
    OF_GROUPS,
    Fault,
    Flat,
    Location,
    Names,
    Section,
    UsedWhen,
    has_publications,
    nodes_come_back,
    plays_scribe,
    setting,
    unset,
    used_when,
    within,
)
from scribe_spark.core.errors import InputError, listed

#: The measures of a round's publications.
ROUND_MEASURES = ("delay", "link_stress", "node_stress")


_OF_ROUNDS = used_when(
    lambda config: config.has_rounds,
    "rounds: --generator, --events, --access or --delivery reliable",
)
_OF_SCRIBE = used_when(plays_scribe, "--systems scribe")
_OF_RETURNS = used_when(
    nodes_come_back, "nodes that a generator brings back: churn or flash-crowd, without group-churn"
)
_OF_PUBLICATIONS = used_when(has_publications, "--generator publications, or --events")
_OF_RELIABLE = used_when(lambda config: config.scribe.delivery == "reliable", "--delivery reliable")


_OF_LINKS = UsedWhen(
    lambda config: not config.topology.is_pairs,
    "has no meaning with topology pairs, which has no links; leave it out",
)

#: A number of rounds of Scribe's maintenance.
_Rounds = Annotated[int, within(1, MOST_ROUNDS), _OF_ROUNDS, OF_GROUPS, _OF_SCRIBE]


class ScribeConfig(Section):
    """The settings of Scribe: maintenance of trees in rounds, rights of nodes, and measures."""

    about: ClassVar[str] = (
        "A node joins a group's tree by a JOIN message to the groupId; its parent adds it to a "
        "children table. Scribe repairs the trees in rounds: a child that no longer hears of "
        "its parent joins again."
    )

    rejoin: Annotated[bool, _OF_RETURNS, OF_GROUPS] = setting(
        True,
        "A node that a generator brings back joins its former groups again; no effect with "
        "group-churn",
    )
    access: Location | None = unset(
        "CSV or Parquet table of rights (columns group, node, right): nodes that may create, join "
        "or multicast; a right that no row names belongs to all nodes"
    )
    replicas: Annotated[int, within(1, 64), _OF_ROUNDS, OF_GROUPS, _OF_SCRIBE] = setting(
        5,
        "Number of nodes that store a group's state, k: the root and the k - 1 nodes next closest "
        "to the groupId; at most half of leaf_set",
    )
    parent_timeout: _Rounds = setting(
        2, "Rounds without a message from the parent after which a child joins again"
    )
    refresh: _Rounds = setting(
        2,
        "Rounds between two messages by which a child keeps its entry in the parent's children "
        "table",
    )
    child_timeout: _Rounds = setting(
        4,
        "Rounds after which a parent drops a child that did not refresh its entry; more than "
        "refresh",
    )
    delivery: Annotated[Literal["best-effort", "reliable"], OF_GROUPS, _OF_SCRIBE] = setting(
        "best-effort",
        "Send each publication once (best-effort), or number publications, buffer them and send "
        "lost ones again, so that they arrive in order (reliable)",
    )
    buffer: Annotated[int, within(1, 4_096), _OF_RELIABLE, OF_GROUPS, _OF_SCRIBE] = setting(
        64,
        "Number of latest publications of a group that a node buffers with --delivery reliable, B",
    )
    deadline: Annotated[
        int, within(0, MOST_ROUNDS), Flat("lost_after"), OF_GROUPS, _OF_PUBLICATIONS
    ] = setting(5, "Rounds after which an undelivered publication counts as lost")
    link_stress_period: Annotated[int, within(0, MOST_ROUNDS), OF_GROUPS, _OF_LINKS, IN_WORLDS] = (
        setting(10, "Rounds between two measurements of link stress (packets per link); 0: never")
    )
    measures: Annotated[Names, IN_WORLDS] = setting(
        (),
        "Measures of each round's publications, computed as in a run: delay (RAD, RMD, RDP: "
        "delays relative to IP multicast), node_stress (children per node), link_stress (packets "
        "per link)",
    )

    @field_validator("measures")
    @classmethod
    def _known_measures(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return each measure once in alphabetical order, and refuse unknown names."""
        for name in names:
            if name not in ROUND_MEASURES:
                remedy = f"is not a measure of a round; give some of {listed(ROUND_MEASURES)}"
                raise InputError("measures", name, remedy)
        return tuple(sorted(set(names)))

    @property
    def reliable(self) -> bool:
        """True if lost publications are sent again, and members get all of them in order."""
        return self.delivery == "reliable"

    def _faults(self) -> Iterator[Fault]:
        remedy = f"must be more than refresh, which is {self.refresh}"
        yield self.child_timeout <= self.refresh, "child_timeout", self.child_timeout, remedy
