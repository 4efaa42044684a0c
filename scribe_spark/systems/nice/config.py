"""The section ``nice``: the parameters of NICE.

The text of the paper could not be had: k = 3 is recalled, all other values are settled here.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from scribe_spark.config.section import OF_RUNS, Section, UsedWhen, in_systems, setting, within
from scribe_spark.core.errors import InputError

#: The most members of all groups: larger overlays do not fit into the memory of a builder.
MOST_MEMBERS = 1_000_000

_Size = Annotated[int, within(2, 100)]
_Percent = Annotated[int, within(0, 100)]
_Many = Annotated[int, within(1, 100_000)]
_OfRuns = Annotated[_Many, OF_RUNS]
_Seconds = Annotated[float, within(0.001, 86_400.0)]
_Ms = Annotated[float, within(0.0, 3_600_000.0)]


class NiceConfig(Section):
    """The parameters of NICE."""

    flat_prefix: ClassVar[str] = "nice_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("nice")
    about: ClassVar[str] = "NICE's hierarchy of clusters."

    k: _Size = setting(3, "Least size of a cluster; the greatest is 3k + 1 (recalled)")
    period_seconds: _Seconds = setting(5.0, "Seconds between two heartbeats of a member")
    join_periods: _OfRuns = setting(40, "Periods in which members begin to join, drawn")
    newcomers: _Many = setting(100, "Newcomers that a leader takes in a period; others ask again")
    settle_periods: _OfRuns = setting(10, "Periods between the last join and publications")
    silence: _Many = setting(3, "Missed heartbeats after which a member is given up")
    stay_percent: _Percent = setting(70, "Share of its distance below which a leader is better")
    mean_percent: _Percent = setting(10, "Share of the mean distance that a better leader saves")
    least_gain_ms: _Ms = setting(5.0, "Distance that a better leader saves at least, in ms")
    guard: bool = setting(True, "Members move only if both clusters keep their bounds")

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more members of all groups than the keys of builders can number."""
        if memberships > MOST_MEMBERS:
            remedy = f"has {memberships:,} members of all groups; at most {MOST_MEMBERS:,} fit into"
            raise InputError("systems", "nice", f"{remedy} memory; give fewer or smaller groups")
