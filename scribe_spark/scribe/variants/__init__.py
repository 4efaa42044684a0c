"""Ways to build a group's tree: strategies behind one interface.

Each takes a :class:`VariantContext`, Scribe's own trees and what they were built from, and gives a
:class:`Variant`: other edges over the same groups and members.

References
----------
JSAC 2002, Section IV.E (bottleneck remover), IV.F (collapse; trees grown less eagerly).
"""

from __future__ import annotations

from collections.abc import Callable

from scribe_spark.scribe.variants.bottleneck import remove_bottlenecks
from scribe_spark.scribe.variants.collapse import collapse
from scribe_spark.scribe.variants.context import Variant, VariantContext
from scribe_spark.scribe.variants.lazy import grow_lazily

__all__ = ["STRATEGIES"]

#: By the name in `RunConfig.variants`; ``plain`` is the context as it stands.
STRATEGIES: dict[str, Callable[[VariantContext], Variant]] = {
    "bottleneck": remove_bottlenecks,
    "collapse": collapse,
    "lazy": grow_lazily,
}
