"""Keysets, and their topmost keys."""

from __future__ import annotations

import random

import pytest
from seeds import seeds

from .cases import random_case
from .dht import ASSIGNMENTS, Dht, Keyset, owner_by_definition
from .topmost import topmost_by_definition, topmost_key
from .tree import explicit_tree, reference_tree

SEEDS = seeds(range(100), 30)


def small_dht(seed: int) -> Dht:
    """A DHT of few keys, often with hosts close to one another."""
    rng = random.Random(seed)
    bits, children = rng.randint(4, 8), rng.randint(2, 15)
    space = 2 ** rng.choice([bits, rng.randint(2, bits)])
    base = rng.randrange(2**bits)
    count = rng.choice([1, 2, 3, rng.randint(1, space), rng.randint(1, space)])
    hosts = [(base + place) % 2**bits for place in rng.sample(range(space), min(count, space))]
    return Dht(reference_tree(bits, children), hosts, rng.choice(ASSIGNMENTS))


@pytest.mark.parametrize("seed", SEEDS)
def test_keysets_by_definition(seed: int) -> None:
    """Each key is in the keyset of its owner and in no other."""
    dht = small_dht(seed)
    bits = dht.reference.bits
    for key in range(2**bits):
        owner = owner_by_definition(dht.hosts, key, dht.assignment, bits)
        assert [host for host in dht.hosts if key in dht.keysets[host]] == [owner]
        assert dht.lookup(key).owner == owner


@pytest.mark.parametrize("seed", SEEDS)
def test_three_properties_of_section_3(seed: int) -> None:
    """(1) No gaps, (2) one owner a key, (3) the host can tell its keys: by its ends alone."""
    dht = small_dht(seed)
    ring = 2**dht.reference.bits
    owner = {
        key: owner_by_definition(dht.hosts, key, dht.assignment, dht.reference.bits)
        for key in range(ring)
    }
    assert sum(keyset.size for keyset in dht.keysets.values()) == ring
    for host, keyset in dht.keysets.items():
        assert host in keyset
        own = [key for key in range(ring) if owner[key] == host]
        clockwise = [(keyset.first + offset) % ring for offset in range(keyset.size)]
        assert sorted(clockwise) == own
        changes = sum(owner[key] == host != owner[(key + 1) % ring] for key in range(ring))
        assert changes == (0 if len(dht.hosts) == 1 else 1)


def test_single_hosts() -> None:
    """All keys, from the place that the definitions name."""
    tree = reference_tree(4, 2)
    assert Dht(tree, [5], "chord").keysets[5] == Keyset(6, 5, 4)
    assert Dht(tree, [5], "pastry").keysets[5] == Keyset(14, 13, 4)
    assert Dht(tree, [11], "pastry").keysets[11] == Keyset(4, 3, 4)


def test_halfway_is_the_smaller_ids() -> None:
    """Also where the ring wraps."""
    dht = Dht(reference_tree(4, 2), [2, 6, 12], "pastry")
    assert dht.keysets == {2: Keyset(15, 4, 4), 6: Keyset(5, 9, 4), 12: Keyset(10, 14, 4)}


@pytest.mark.parametrize("bits", [4, 5])
@pytest.mark.parametrize("children", range(2, 16))
def test_topmost_keys_of_all_intervals(bits: int, children: int) -> None:
    """Of every interval of keys, by descent and by definition."""
    tree, explicit = reference_tree(bits, children), explicit_tree(bits, children)
    for first in range(2**bits):
        for last in range(2**bits):
            keyset = Keyset(first, last, bits)
            assert topmost_key(tree, keyset) == topmost_by_definition(explicit, keyset)


@pytest.mark.parametrize("seed", SEEDS)
def test_topmost_keys_by_definition(seed: int) -> None:
    """The first key of the keyset in a breadth first traversal."""
    dht = small_dht(seed)
    explicit = explicit_tree(dht.reference.bits, dht.reference.children)
    for host, keyset in dht.keysets.items():
        assert dht.topmost[host] == topmost_by_definition(explicit, keyset)


@pytest.mark.parametrize("seed", seeds(range(60), 20))
def test_topmost_keys_of_large_key_spaces(seed: int) -> None:
    """No ancestor, no other end and no key in between comes before it."""
    dht = random_case(seed).dht()
    tree, rng = dht.reference, random.Random(seed)
    for host, keyset in dht.keysets.items():
        topmost = dht.topmost[host]
        assert topmost in keyset
        assert not any(key in keyset for key in tree.ancestors(topmost))
        some = [keyset.first, keyset.last, host]
        some += [(keyset.first + rng.randrange(keyset.size)) % 2**tree.bits for _ in range(3)]
        for key in some:
            # The keyset's own ancestors of any key count, too.
            for above in [key, *(one for one in tree.ancestors(key) if one in keyset)]:
                assert (tree.depth(topmost), topmost) <= (tree.depth(above), above)


@pytest.mark.parametrize("seed", seeds(range(60), 20))
def test_topmost_keys_of_binary_trees_by_bits(seed: int) -> None:
    """In a search tree it is the key of the interval that a multiple of the largest power is."""
    case = random_case(seed)
    dht = Dht(reference_tree(case.bits, 2), case.hosts, case.assignment)
    for host, keyset in dht.keysets.items():
        stop = keyset.first + keyset.size
        for power in reversed(range(case.bits)):
            step = 1 << power
            multiples = range(-(-keyset.first // step) * step, stop, step)
            keys = [key % 2**case.bits for key in multiples[:3] if key % 2**case.bits]
            if keys:
                assert dht.topmost[host] == min(keys)
                break
        else:
            assert dht.topmost[host] == 0
