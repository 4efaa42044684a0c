"""Limits of loops that play supersteps: messages in a circle end a run with one line.

A superstep moves a message to another node, and a step of a protocol sends a message through a node
a few times at most.  So a step whose supersteps are many times as many as the nodes never ends, for
example because delays are negative, or because nodes answer each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from scribe_spark.core.errors import RunError

#: Supersteps of a step in an overlay of few nodes: those of the longest steps, many times over.
_LEAST = 1_000

#: Further supersteps for each node: a message may wait, be refused and be sent again.
_OF_A_NODE = 4

#: Supersteps in the largest overlay.  Routes and trees are a few dozen hops deep, and jobs for more
#: supersteps than these take hours.
_MOST = 10_000


def most_supersteps(nodes: int) -> int:
    """Return the greatest number of supersteps of a step, or of plays of a repeated step."""
    return min(_LEAST + _OF_A_NODE * nodes, _MOST)


def counted(step: str, most: int, what: str = "supersteps") -> Iterator[int]:
    """Yield 0, 1, ..., `most` - 1, then raise a `RunError` that names the system and its `step`.

    Examples
    --------
    >>> for superstep in counted("GossipSub PUBLISH", 1_240):
    ...     pass
    Traceback (most recent call last):
    scribe_spark.core.errors.RunError: GossipSub PUBLISH: has not ended after 1,240 supersteps; ...
    """
    yield from range(most)
    why = "its messages run in a circle; look at the delays, rules and applications that it uses"
    raise RunError(f"{step}: has not ended after {most:,} {what}; {why}")
