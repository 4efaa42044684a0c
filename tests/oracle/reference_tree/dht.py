"""Which host the DHT assigns a key to: keysets as intervals, and by definition."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .topmost import topmost_key
from .tree import ReferenceTree

ASSIGNMENTS = ("chord", "pastry")


@dataclass(frozen=True)
class Keyset:
    """The keys from ``first`` clockwise to ``last`` on a ring of ``2**bits`` keys.

    It wraps around 0 where ``first > last``. A keyset is never empty, so an interval that ends
    just before it starts is the ring.
    """

    first: int
    last: int
    bits: int

    @functools.cached_property
    def size(self) -> int:
        """The number of keys."""
        return (self.last - self.first) % (1 << self.bits) + 1

    def __contains__(self, key: int) -> bool:
        return (key - self.first) % (1 << self.bits) < self.size

    def covers(self, low: int, high: int) -> bool:
        """Whether all of ``low .. high`` are in it."""
        ring = 1 << self.bits
        return self.size == ring or (low - self.first) % ring + high - low < self.size

    def overlaps(self, low: int, high: int) -> bool:
        """Whether any of ``low .. high`` is in it."""
        return low in self or high in self or low <= self.first <= high


@dataclass(frozen=True)
class Answer:
    """What the DHT says of a key: its owner, the owner's keyset, and so the owner's topmost key."""

    owner: int
    keyset: Keyset
    topmost: int


class Dht:
    """A stable DHT over hosts, which are named by their ids.

    Parameters
    ----------
    hosts : iterable of int
        Ids, each below ``2**reference.bits``.
    assignment : {"chord", "pastry"}
    """

    def __init__(self, reference: ReferenceTree, hosts, assignment: str):
        self.reference, self.assignment = reference, assignment
        self.hosts = sorted(hosts)
        assert len(set(self.hosts)) == len(self.hosts)
        self.keysets = {
            host: keyset(self.hosts, place, assignment, reference.bits)
            for place, host in enumerate(self.hosts)
        }
        self.topmost = {
            host: topmost_key(reference, keyset) for host, keyset in self.keysets.items()
        }

    def lookup(self, key: int) -> Answer:
        """Who owns ``key``."""
        (owner,) = (host for host, keyset in self.keysets.items() if key in keyset)
        return Answer(owner, self.keysets[owner], self.topmost[owner])


def keyset(hosts: list[int], place: int, assignment: str, bits: int) -> Keyset:
    """The keyset of the host at ``place`` among ``hosts``, which are sorted."""
    host, before, after = hosts[place], hosts[place - 1], hosts[(place + 1) % len(hosts)]
    ring = 1 << bits
    if assignment == "chord":
        return Keyset((before + 1) % ring, host, bits)
    if len(hosts) == 1:
        return Keyset((host - ring // 2 + 1) % ring, (host + ring // 2) % ring, bits)
    last_of_before = last_nearer(before, host, ring)
    return Keyset((last_of_before + 1) % ring, last_nearer(host, after, ring), bits)


def last_nearer(host: int, after: int, ring: int) -> int:
    """The last key that is ``host``'s clockwise of it, before ``after``'s keys begin."""
    gap = (after - host) % ring
    ours = gap // 2
    if gap % 2 == 0 and after < host:  # halfway: the smaller id
        ours -= 1
    return (host + ours) % ring


def owner_by_definition(hosts: list[int], key: int, assignment: str, bits: int) -> int:
    """The owner of ``key``, by comparing all hosts."""
    ring = 1 << bits
    if assignment == "chord":  # the first host at or after the key
        return min(hosts, key=lambda host: (host - key) % ring)
    return min(hosts, key=lambda host: (min((host - key) % ring, (key - host) % ring), host))
