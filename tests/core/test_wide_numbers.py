"""128-bit numbers and the arithmetic of the ring, against Python's integers."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from identifiers import parts
from oracle.ring import RING, digits, shared_digits

from scribe_spark.core import u128
from scribe_spark.systems.reference_tree.hash_table import (
    ASSIGNMENTS,
    HashTable,
    contains,
    last_keys,
)
from scribe_spark.systems.reference_tree.tree import ReferenceTree

BS = (1, 2, 4, 8)
EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 2**127 - 1, 2**127, RING - 1]


def pairs(count: int) -> list[tuple[int, int]]:
    """Draw pairs of ids: any, equal, near one another, or with a long common prefix."""
    rng = Random(1)

    def any_id() -> int:
        return rng.choice([rng.randrange(RING), rng.choice(EDGES), 1 << rng.randrange(128)])

    def beside(a: int) -> int:
        low = rng.randrange(128)
        kin = a ^ (1 << low | any_id() % (1 << low))
        return rng.choice([any_id(), (a + rng.randint(-3, 3)) % RING, kin])

    return [(a, beside(a)) for a in (any_id() for _ in range(count))]


PAIRS = [*((a, b) for a in EDGES for b in EDGES), *pairs(500)]
A, B = ([pair[side] for pair in PAIRS] for side in (0, 1))


# --- numpy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("b", BS)
def test_digits_in_numpy(b):
    hi, lo = parts(A)
    expected = np.array([digits(a, b) for a in A])
    for position in range(128 // b):
        assert np.array_equal(u128.digit_np(hi, lo, position, b), expected[:, position])
    position = np.arange(len(A)) % (128 // b)
    found = u128.digit_at_np(hi, lo, position, b)
    assert np.array_equal(found, expected[np.arange(len(A)), position])


@pytest.mark.parametrize("b", BS)
def test_shared_prefix_in_numpy(b):
    found = u128.shared_digits_np(*parts(A), *parts(B), b)
    assert found.tolist() == [shared_digits(a, c, b) for a, c in PAIRS]


# --- sums, divisions, parts of the tree -----------------------------------------------------------


NEAR_POWERS = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**96, 2**127 - 1, 2**127, RING - 1]
number = (
    st.integers(0, RING - 1)
    | st.sampled_from(NEAR_POWERS)
    | st.integers(0, 127).map(lambda n: 1 << n)
)
quick = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def made(*values: int, bits: int = 128):
    """Numbers of these values."""
    hi, lo = (
        np.array(half, np.uint64) for half in zip(*[divmod(v, 2**64) for v in values], strict=True)
    )
    return u128.from_halves(hi, lo, bits)


def values(numbers) -> list[int]:
    hi, lo = u128.halves_of(numbers)
    return [int(high) << 64 | int(low) for high, low in zip(hi, lo, strict=True)]


@quick
@given(number, number)
def test_sums_differences_and_comparisons(a, b):
    x, y = made(a, b), made(b, a)
    assert values(x + y) == [(a + b) % RING] * 2
    assert values(x - y) == [(a - b) % RING, (b - a) % RING]
    assert values(x & y) == [a & b] * 2
    for found, expected in (
        (x < y, [a < b, b < a]),
        (x <= y, [a <= b, b <= a]),
        (x > y, [a > b, b > a]),
        (x >= y, [a >= b, b >= a]),
        (x == y, [a == b] * 2),
        (x != y, [a != b] * 2),
    ):
        assert found.tolist() == expected
    assert values(u128.minimum(x, y)) == [min(a, b)] * 2
    assert values(u128.maximum(x, y)) == [max(a, b)] * 2


@quick
@given(
    number,
    st.integers(1, 2**32 - 1) | st.integers(0, 31).map(lambda n: 1 << n),
    st.integers(0, 127),
)
def test_divisions_products_and_shifts(a, by, shift):
    x = made(a)
    for divisor in (by, np.array([by])):
        quotient, rest = u128.divide(x, divisor)
        assert (values(quotient), rest.tolist()) == ([a // by], [a % by])
    assert values(u128.times(x, np.array([by]))) == [a * by % RING]
    assert values(x >> shift) == [a >> shift]
    assert u128.to_float(x)[0] == pytest.approx(float(a), rel=1e-15)


@quick
@given(number, st.integers(0, RING), st.integers(2, 40), st.data())
def test_the_subtree_of_a_key_in_a_part(first, size, children, data):
    """A part of any size: its subtrees follow one another, and differ by one key at most."""
    tree = ReferenceTree(128, children)
    last = min(first + size, RING - 1)
    if last - first < 1:
        return
    kind = data.draw(st.sampled_from([0, 1]))
    subtree = tree.entire(1)
    subtree.first[:], subtree.last[:], subtree.kind[:] = made(first), made(last), kind
    (node,) = values(tree.node(subtree))
    away = -(-(last - first) // children)
    assert node == (first + away if kind == 0 else last - away)
    key = data.draw(st.integers(first, last).filter(lambda key: key != node))
    below = key < node
    part = tree.part(subtree, made(node), np.array([below]))
    index = part.index(made(key))
    found = part.subtree(index)
    assert values(found.first)[0] <= key <= values(found.last)[0]
    keys = node - first if below else last - node
    shares = 1 if below == (kind == 0) else children - 1
    assert values(found.last)[0] - values(found.first)[0] + 1 == keys // shares + (
        int(index[0]) < keys % shares
    )
    at_end = part.subtree(part.last_index())
    assert values(at_end.last)[0] == (node - 1 if below else last)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
@pytest.mark.parametrize("bits", [4, 63, 64, 65, 128])
def test_each_key_has_one_owner_and_each_host_its_id(bits, assignment):
    size, rng = 2**bits, np.random.default_rng(bits)
    for hosts in (1, 2, 3, 9):
        ids = sorted({int(one) * size // 2**32 for one in rng.integers(0, 2**32, hosts)})
        tree = ReferenceTree(bits)
        numbers, n = made(*ids, bits=bits), len(ids)
        rings = HashTable.of(tree, assignment, numbers, np.zeros(n, int), np.arange(n), 1)
        first, last = values(rings.first), values(rings.last)
        lengths = [(b - a) % size + 1 for a, b in zip(first, last, strict=True)]
        assert sum(lengths) == size  # with the next line: a partition of the ring
        assert first == [(last[place - 1] + 1) % size for place in range(n)]
        owner = rings.owner(np.zeros(n, int), numbers)
        assert rings.node[owner].tolist() == list(range(n))
        assert contains(rings.first[owner], rings.last[owner], numbers).all()


def test_a_single_host_has_all_keys():
    tree, one = ReferenceTree(8), made(3, bits=8)
    assert values(last_keys(tree, "chord", one, one)) == [3]
    assert values(last_keys(tree, "pastry", one, one)) == [131]
