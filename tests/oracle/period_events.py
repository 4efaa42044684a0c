"""What happens to members before a period, in cases of systems that play in periods."""

from dataclasses import dataclass

Pair = tuple[int, int]  # group, node


@dataclass(frozen=True)
class Events:
    """What happens before a period; nodes that died may live again at once."""

    joins: tuple[Pair, ...] = ()
    quits: tuple[Pair, ...] = ()
    died: tuple[int, ...] = ()
    alive: tuple[bool, ...] = ()
