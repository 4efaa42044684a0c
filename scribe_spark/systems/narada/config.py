"""The section ``narada``: the parameters of Narada, with their sources.

Nemo (NWU-CS-04-36) quotes periods, silences and degrees.  "Settled" values are ours.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from scribe_spark.config.section import OF_RUNS, Section, UsedWhen, in_systems, setting, within
from scribe_spark.core.errors import refuse_large_group
from scribe_spark.systems.narada import LIMIT

_Count = Annotated[int, within(1, LIMIT[0])]
_Silence = Annotated[int, within(1, 1000)]


class NaradaConfig(Section):
    """The parameters of Narada's mesh; a period has 10 s (Nemo)."""

    flat_prefix: ClassVar[str] = "narada_"
    all_used_when: ClassVar[UsedWhen | None] = in_systems("narada")
    about: ClassVar[str] = "Narada's mesh of members, in periods of 10 s."

    periods: Annotated[int, within(1, 100_000), OF_RUNS] = setting(
        170, "Periods before the publications (settled)"
    )
    join_periods: Annotated[int, within(1, 10_000)] = setting(
        20, "Periods in which the first members of a group join (Nemo: the first 200 s)"
    )
    contacts: _Count = setting(3, "Members that a newcomer links (settled)")
    degree: _Count = setting(12, "Degree from which on a member adds no link (Nemo)")
    many_links: _Count = setting(
        6, "Degree above which links must carry half the members (settled)"
    )
    threshold: Annotated[float, within(0.0, 1.0)] = setting(
        0.008,
        "Utility of a link for each member and both degrees, below which it is dropped (settled)",
    )
    young_periods: Annotated[int, within(0, 1000)] = setting(
        3, "Periods in which a new link is not dropped (settled)"
    )
    neighbour_periods: _Silence = setting(
        6, "Periods without a vector after which a neighbour is dropped (Nemo: 60 s)"
    )
    silent_periods: _Silence = setting(
        5, "Periods after which a member of whom nothing was heard is probed (Nemo: 50 s)"
    )

    def check_within(self, config: Any) -> None:
        """Refuse drawn groups that are too large."""
        refuse_large_group("narada", 1, config.groups.largest(config.overlay.nodes), *LIMIT)
