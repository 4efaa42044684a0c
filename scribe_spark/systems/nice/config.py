"""The section ``nice``: the parameters of NICE, with their sources.

The text of the paper could not be had: k = 3 is recalled, the other values are settled here.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from scribe_spark.config.section import Section, setting, within
from scribe_spark.config.used_when import UsedWhen, used_by, used_when
from scribe_spark.core.errors import InputError

#: The most members of all groups: larger overlays do not fit into the memory of a builder.
MOST_MEMBERS = 1_000_000

_OF_RUNS = UsedWhen(lambda of: not of.is_world, "has no effect in worlds; leave it out")

_Percent = Annotated[int, within(0, 100)]
_Periods = Annotated[int, within(1, 100_000)]


class NiceConfig(Section):
    """The parameters of NICE."""

    flat_prefix: ClassVar[str] = "nice_"
    all_used_when: ClassVar[UsedWhen | None] = used_when(used_by("nice"), "nice in --systems")
    about: ClassVar[str] = "NICE's hierarchy of clusters."

    k: Annotated[int, within(2, 100)] = setting(
        3, "Least size of a cluster; the largest is 3k + 1 (recalled)"
    )
    period_seconds: Annotated[float, within(0.001, 86_400.0)] = setting(
        5.0, "Seconds between two heartbeats of a member (settled)"
    )
    join_periods: Annotated[_Periods, _OF_RUNS] = setting(
        40, "Periods of a run in which members begin to join, drawn (settled)"
    )
    newcomers: Annotated[int, within(1, 1_000_000)] = setting(
        100, "Most newcomers that a leader takes in a period; the others ask again (settled)"
    )
    settle_periods: Annotated[_Periods, _OF_RUNS] = setting(
        10, "Periods between the last join of a run and its publications (settled)"
    )
    silence: _Periods = setting(3, "Missed heartbeats after which a member is given up (settled)")
    stay_percent: _Percent = setting(
        70, "Share of a leader's distance, or radius, below which a better one may be (settled)"
    )
    mean_percent: _Percent = setting(
        10, "Share of the mean distance that a better leader must save (settled)"
    )
    least_gain_ms: Annotated[float, within(0.0, 3_600_000.0)] = setting(
        5.0, "Distance that a better leader must save at least, in ms (settled)"
    )
    guard: bool = setting(
        True, "A member moves only if both clusters keep their bounds (settled); else at will"
    )

    @property
    def most(self) -> int:
        """The largest size of a cluster."""
        return 3 * self.k + 1

    @property
    def least_gain_us(self) -> int:
        """The least gain of a better leader in microseconds."""
        return round(self.least_gain_ms * 1000)

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more members of all groups than builders can hold."""
        if memberships > MOST_MEMBERS:
            remedy = (
                f"with {memberships:,} members of all groups needs too much memory; at most "
                f"{MOST_MEMBERS:,}; give fewer or smaller groups"
            )
            raise InputError("systems", "nice", remedy)
