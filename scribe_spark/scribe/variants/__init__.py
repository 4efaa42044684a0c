"""Alternative trees for groups, behind one interface.

A variant takes a :class:`VariantContext` (Scribe's own trees and their inputs) and returns a
:class:`Variant`: other edges for the same groups and members.

References
----------
JSAC 2002, Section IV.E (bottleneck remover), IV.F (collapse; trees grown less eagerly).
"""

from __future__ import annotations

from scribe_spark.scribe.variants.context import Variant, VariantContext, timed_edges
from scribe_spark.scribe.variants.played import collapse, grow_lazily, remove_bottlenecks

__all__ = [
    "Variant",
    "VariantContext",
    "collapse",
    "grow_lazily",
    "remove_bottlenecks",
    "timed_edges",
]
