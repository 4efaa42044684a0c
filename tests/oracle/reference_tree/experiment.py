"""The paper's experiment (Section 4): `python -m oracle.reference_tree.experiment EVENTS`.

Not a test: it takes minutes. The network has N hosts; a connection and a disconnection follow one
another. Readings of "the subtree interconnecting the endpoints of the links that are removed or
created", besides that of docs/reference_tree.md (`area`): `ends` are the endpoints alone, and
`old`, `new` and `both` take the paths in the tree before, after, and in either.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from .dht import Dht
from .host_tree import Neighbours, tree_from_nothing
from .paths import joining_subtree, links, reconfiguration_area
from .reconfiguration import Event, dht_after
from .tree import reference_tree

SIZES = range(10, 121, 10)


def readings(old: Neighbours, new: Neighbours) -> dict[str, frozenset[int]]:
    """The hosts of the reconfiguration area, by each reading."""
    ends = frozenset(end for link in links(old) ^ links(new) for end in link)
    in_old = frozenset(joining_subtree(old, ends & old.keys()))
    in_new = frozenset(joining_subtree(new, ends & new.keys()))
    area = reconfiguration_area(old, new)
    return {"area": area, "ends": ends, "old": in_old, "new": in_new, "both": in_old | in_new}


def run(
    hosts: int, events: int, *, bits: int = 8, children: int = 2, assignment: str = "chord", seed=1
) -> tuple[Counter, dict[tuple[str, str, str], float]]:
    """Play ``events`` connections and as many disconnections among ``hosts`` hosts.

    Returns
    -------
    How many hosts had which degree, of all times between events; and the mean size of the area by
    (kind of event, reading, "with" or "without" the host that came or went).
    """
    rng = random.Random(f"{seed} {hosts} {bits} {children} {assignment}")
    reference = reference_tree(bits, children)
    dht = Dht(reference, rng.sample(range(2**bits), hosts), assignment)
    tree = tree_from_nothing(dht).neighbours()
    degrees: Counter = Counter()
    sums: Counter = Counter()
    for number in range(2 * events):
        if number % 2 == 0:
            free = sorted(set(range(2**bits)) - set(dht.hosts))
            event = Event("join", rng.choice(free))
        else:
            event = Event("failure", rng.choice(dht.hosts))
        dht = dht_after(dht, [event])
        old, tree = tree, tree_from_nothing(dht).neighbours()
        degrees.update(len(others) for others in tree.values())
        for reading, area in readings(old, tree).items():
            sums[event.kind, reading, "with"] += len(area)
            sums[event.kind, reading, "without"] += len(area - {event.host})
    return degrees, {what: total / events for what, total in sums.items()}


def main() -> None:
    """Print a line for each number of hosts and kind of event."""
    events = int(sys.argv[1])
    for hosts in SIZES:
        degrees, areas = run(hosts, events)
        total = sum(degrees.values())
        shares = " ".join(f"{d}: {100 * n / total:.1f}%" for d, n in sorted(degrees.items()))
        print(f"N = {hosts}  degrees {shares}")
        for kind in ("join", "failure"):
            means = "  ".join(
                f"{reading} {areas[kind, reading, 'with']:.2f}/"
                f"{areas[kind, reading, 'without']:.2f}"
                for reading in ("area", "ends", "old", "new", "both")
            )
            print(f"    {kind:8}{means}")


if __name__ == "__main__":
    main()
