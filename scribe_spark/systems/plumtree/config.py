"""The section ``plumtree``: the parameters of HyParView and Plumtree, with their sources.

References
----------
J. Leitao et al.: HyParView, DSN 2007; Epidemic broadcast trees, SRDS 2007.  Their texts could not
be had; iroh-gossip (``src/proto``) quotes the parameters, and Babel (``HyParView.java``,
``PlumTree.java``) the lines.  Partisan; Corrosion (superfly/corrosion).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from scribe_spark.config import section
from scribe_spark.systems.plumtree import AT_ONCE, CORROSION, FULL, IROH, PAPER, WAVES

_GROWS = section.used_when(lambda of: of.plumtree.grows, "--plumtree-views waves or at_once")
_SIZED = section.used_when(lambda of: of.plumtree.views != FULL, "--plumtree-views other than full")
_WAVES = section.used_when(lambda of: of.plumtree.views == WAVES, "--plumtree-views waves")
_IROH = section.used_when(lambda of: of.plumtree.membership == IROH, "--plumtree-membership iroh")
_CORROSION = section.used_when(
    lambda of: of.plumtree.rules == CORROSION, "--plumtree-rules corrosion"
)

_Wait = Annotated[float | None, section.within(0.001, 3_600_000.0)]
_Length = Annotated[int, section.within(0, 100)]


class PlumtreeConfig(section.Section):
    """The parameters of Plumtree, and of HyParView, which keeps the views that Plumtree uses."""

    flat_prefix: ClassVar[str] = "plumtree_"
    all_used_when: ClassVar[section.UsedWhen | None] = section.in_systems("plumtree")
    about: ClassVar[str] = "Plumtree's trees in the active views of HyParView."

    rules: Literal["paper", "iroh", "corrosion"] = section.setting(
        PAPER, "Rules of Plumtree: those of the paper, iroh or Corrosion"
    )
    membership: Annotated[Literal["paper", "iroh"], _GROWS] = section.setting(
        PAPER, "Rules of HyParView: those of the paper or iroh"
    )
    views: Literal["waves", "at_once", "static", "full"] = section.setting(
        WAVES,
        "Newcomers join in growing waves, or all after the first (at_once); static, full: views "
        "are drawn (full: near and far, as in Corrosion) and change only by deaths",
    )
    growth: Annotated[float, section.within(1.1, 1000.0), _WAVES] = section.setting(
        1.5, "Factor by which a wave of newcomers increases a group"
    )
    active: Annotated[int, section.within(2, 100), _SIZED] = section.setting(
        5, "Size of active views (the paper, iroh; Babel: 4, Partisan: 6)"
    )
    passive: Annotated[int, section.within(1, 1000), _GROWS] = section.setting(
        30, "Size of passive views (the paper, iroh; Babel: 7)"
    )
    walk: Annotated[_Length, _GROWS] = section.setting(
        6, "Length of a newcomer's walk, ARWL (the paper, iroh; Babel: 4)"
    )
    passive_walk: Annotated[_Length, _GROWS] = section.setting(
        3, "Steps before the end at which a walk enters a passive view, PRWL (the paper, iroh)"
    )
    shuffle_walk: Annotated[_Length, _GROWS] = section.setting(
        6, "Length of a shuffle's walk (iroh; Babel: 4)"
    )
    shuffle_seconds: Annotated[float, section.within(0.0, 86_400.0), _GROWS, section.OF_WORLDS] = (
        section.setting(
            60.0, "Seconds between two shuffles of a node (iroh; Partisan: 10, Babel: 2); 0: never"
        )
    )
    request_ms: Annotated[float, section.within(0.001, 3_600_000.0), _GROWS, _IROH] = (
        section.setting(500.0, "Time until a request to a passive node is given up, in ms (iroh)")
    )
    notice: Literal["breaks", "sending"] = section.setting(
        "breaks",
        "Neighbours notice a failure by the broken connection, as with TCP, or when they send",
    )
    repair: Annotated[bool, _GROWS] = section.setting(True, "Passive nodes replace lost neighbours")
    first_wait_ms: _Wait = section.unset(
        "Time from an announcement to the first GRAFT, in ms [default: 80 (iroh); corrosion: 1000]"
    )
    next_wait_ms: _Wait = section.unset(
        "Time from a GRAFT to the next one, in ms [default: 40 (iroh); corrosion: 500]"
    )
    batch_ms: Annotated[float, section.within(0.0, 3_600_000.0)] = section.setting(
        5.0, "Time for which a node collects announcements, in ms (iroh)"
    )
    threshold: Annotated[int, section.within(0, 1000)] = section.setting(
        7, "Hops that another way must save to replace a link (iroh, Corrosion); 0: never"
    )
    duplicates: Annotated[int, section.within(0, 1000), _CORROSION] = section.setting(
        5, "Number of copies in vain that a link may bring (Corrosion)"
    )
    keep_seconds: Annotated[float, section.within(0.0, 86_400.0)] = section.setting(
        30.0, "Seconds for which a node can send a publication again (iroh)"
    )

    @property
    def grows(self) -> bool:
        """True if views grow by HyParView's messages."""
        return self.views in (WAVES, AT_ONCE)

    @property
    def us(self) -> dict[str, int]:
        """All times in microseconds, by the name of the setting without the unit."""
        first, then = (1000.0, 500.0) if self.rules == CORROSION else (80.0, 40.0)
        ms = {
            "first_wait": first if self.first_wait_ms is None else self.first_wait_ms,
            "next_wait": then if self.next_wait_ms is None else self.next_wait_ms,
            **{"request": self.request_ms, "batch": self.batch_ms},
            **{"keep": self.keep_seconds * 1000, "shuffle": self.shuffle_seconds * 1000},
        }
        return {name: round(time * 1000) for name, time in ms.items()}
