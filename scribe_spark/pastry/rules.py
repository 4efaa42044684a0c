"""The rules of a world, as kernels need them."""

from __future__ import annotations

from dataclasses import dataclass

from scribe_spark.pastry.arrivals.rules import ArrivalRules

__all__ = ["WorldRules"]


@dataclass(frozen=True)
class WorldRules(ArrivalRules):
    """How nodes arrive, and what happens when they are gone.

    Attributes
    ----------
    detection : int
        Rounds after which the members of its leaf set learn of a node's failure.
    repair : str
        ``none``: a dead entry that a message met is dropped; ``lazy``: its cell is also repaired;
        ``eager``: as ``lazy``, and every dead entry is found in the round after detection.
    maintenance_period : int
        Routing tables are maintained every so many rounds; 0 for never.
    """

    detection: int = 1
    repair: str = "lazy"
    maintenance_period: int = 0
