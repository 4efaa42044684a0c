"""The registry of overlays: Pastry with tables filled in several ways, and other overlays.

A new kind is a module with an :class:`OverlayKind`, and one line below; users call
:func:`register_overlay`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scribe_spark.can.overlay import CanOverlay
from scribe_spark.core.errors import named
from scribe_spark.core.progress import Progress
from scribe_spark.core.registry import Registry
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.overlay import PastryOverlay, arrivals
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.underlay.protocol import Underlay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import OverlayConfig


@dataclass(frozen=True)
class OverlayKind:
    """A kind of overlay, which ``--overlay NAME`` selects.

    Attributes
    ----------
    name : str
        The name in ``--overlay NAME``.
    build : callable
        ``build(nodes, underlay, config)`` returns an :class:`Overlay`; `nodes` has the columns
        ``node, id_hi, id_lo, router``.  :meth:`PastryOverlay.of_knowledge` makes a Pastry overlay
        from leaf sets and routing tables.
    drawn : bool
        True if `build` also takes the run's seed and its progress report:
        ``build(nodes, underlay, config, seed, progress)``.
    randomised : bool
        True if `build` returns a :class:`PastryOverlay`, whose nodes can draw the next hop at
        random: the bottleneck remover needs this with ``shed_table = whole``.
    waits : bool
        True if `build` also takes ``in_tasks=True``, and the tables are then filled by the first
        job of tasks that needs them.
    """

    name: str
    build: Callable[..., Overlay]
    randomised: bool = False
    drawn: bool = False
    waits: bool = False


def _perfect(
    nodes: Table, underlay: Underlay, config: OverlayConfig, in_tasks: bool = False
) -> PastryOverlay:
    return PastryOverlay.perfect(nodes, underlay, config.b, config.leaf_set, in_tasks)


def _can(
    nodes: Table, underlay: Underlay, config: OverlayConfig, seed: int, progress: Progress | None
) -> CanOverlay:
    return CanOverlay(nodes, underlay, config.dimensions, seed)


_KINDS: Registry[OverlayKind] = Registry(
    "kind of overlay",
    OverlayKind("perfect", _perfect, randomised=True, waits=True),
    OverlayKind("arrivals", arrivals, randomised=True, drawn=True, waits=True),
    OverlayKind("can", _can, drawn=True),
)

#: Remove a user's kind of overlay by its name.
unregister_overlay = _KINDS.unregister


def register_overlay(kind: OverlayKind) -> OverlayKind:
    """Add a kind of overlay to this process; configs can then name it.

    Raises
    ------
    ValueError
        The package has a kind of that name.
    """
    return _KINDS.register(kind)


def check_overlay(config: OverlayConfig) -> OverlayKind:
    """Return the kind of overlay that a config names; an InputError refuses an unknown one."""
    return named(_KINDS, config.kind, "overlay")


def build_overlay(
    nodes: Table,
    underlay: Underlay,
    config: OverlayConfig,
    seed: int,
    progress: Progress | None = None,
    in_tasks: bool = False,
) -> Overlay:
    """Return the overlay that a config names; free it by its ``release``.

    With `in_tasks`, a job of tasks that keep their buckets may fill the tables of nodes.
    """
    kind = check_overlay(config)
    if not _KINDS.is_built_in(kind.name):
        nodes = Batches.of(nodes).frame
    drawn = [seed, progress] if kind.drawn else []
    waits = {"in_tasks": True} if kind.waits and in_tasks else {}
    return kind.build(nodes, underlay, config, *drawn, **waits)
