"""The section ``overcast``: the parameters of Overcast."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from scribe_spark.config.section import OF_RUNS, Section, UsedWhen, in_systems, setting, within
from scribe_spark.core.errors import InputError, refuse_large_group
from scribe_spark.systems.overcast import LIMIT, SHARED

_Rounds = Annotated[int, within(4, 10_000)]


class OvercastConfig(Section):
    """The parameters of Overcast."""

    flat_prefix: ClassVar[str] = "overcast_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("overcast")
    about: ClassVar[str] = "Overcast's trees by bandwidth."

    decide: Literal["shared", "bottleneck"] = setting(
        SHARED,
        "Bandwidth by which members choose parents: a link's rate divided by the copies on it "
        "(shared), or the rate alone (bottleneck)",
    )
    tolerance: Annotated[float, within(0.01, 1.0)] = setting(
        0.9, "Share of a bandwidth that counts as equal to it (recalled: within 10 %)"
    )
    round_seconds: Annotated[float, within(0.001, 86_400.0)] = setting(
        1.0, "Length of a round of the protocol in seconds (recalled: 1 or 2)"
    )
    evaluation: _Rounds = setting(10, "Rounds between two evaluations of a position (recalled)")
    lease: _Rounds = setting(
        10, "Rounds of silence after which a child counts as dead (recalled); it checks in earlier"
    )
    linear: Annotated[int, within(0, 100)] = setting(
        0, "Number of nodes in a line below the root, which replace it when it fails"
    )
    rounds: Annotated[int, within(0, 100_000), OF_RUNS] = setting(
        200, "Rounds of a run before its publications; all members join in the first one"
    )

    def check_within(self, config: Any) -> None:
        """Refuse groups too large for nodes that know the whole tree below them."""
        refuse_large_group("overcast", 1, config.groups.largest(config.overlay.nodes), *LIMIT)

    def check_network(self, source: str, routers: int, has_rates: bool) -> None:
        """Refuse a network whose links have no rates."""
        if not has_rates:
            remedy = (
                "has no rates of links on kept routes, which overcast needs; give a transit-stub "
                "network, or one of at most 10,000 routers with a rate for each link (column rate, "
                "or GML's bandwidth)"
            )
            raise InputError("topology", source, remedy)
