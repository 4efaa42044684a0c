"""Delay and node stress of multicasts, one after the other: of any system, or of a run.

The definitions are S26 and S27 of docs/rules.md.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from statistics import mean, median

from . import latency

#: (a, b) -> delay between two nodes
Delay = Callable[[int, int], int]


def delay_measures(
    starts: Mapping[int, int],
    members: Mapping[int, Collection[int]],
    reached: Mapping[int, Mapping[int, tuple[int, int]]],
    delay: Delay,
) -> dict[str, float]:
    """Measure -> value, without the name of the system.

    `starts` are by group, and `reached` has hops and delay from the start of each reached member.
    """
    found = latencies(starts, members, reached, "time")
    reached = {group: came for group, came in reached.items() if came}
    others = sum(len(set(members.get(g, ())) - {start}) for g, start in starts.items())
    found["multicasts"] = len(starts)
    if others:
        found["multicasts.reached"] = sum(map(len, reached.values())) / others
    if not reached:
        return found
    rad, rmd, rdp = {}, {}, {}
    for group, came in reached.items():
        ours = [spent for _, spent in came.values()]
        direct = [delay(starts[group], node) for node in came]
        rad[group] = mean(ours) / mean(direct)
        rmd[group] = max(ours) / max(direct)
        rdp[group] = [a / b for a, b in zip(ours, direct, strict=True)]
    largest = min(members, key=lambda group: (-len(members[group]), group))
    for name, ratios in {"rad": rad, "rmd": rmd}.items():
        found |= {f"{name}.median": median(ratios.values()), f"{name}.max": max(ratios.values())}
        if largest in ratios:
            found[f"{name}.largest"] = ratios[largest]
    hops = [hop for came in reached.values() for hop, _ in came.values()]
    found |= {"depth.mean": mean(hops), "depth.max": max(hops)}
    if mine := rdp.get(largest):
        found |= {"rdp.mean": mean(mine), "rdp.median": median(mine)}
        for name, bound in {"below_1": 1, "below_2_25": 2.25, "below_4": 4}.items():
            found[f"rdp.{name}"] = mean(ratio < bound for ratio in mine)
    return found


def latencies(
    starts: Mapping[int, int],
    members: Mapping[int, Collection[int]],
    reached: Mapping[int, Mapping[int, tuple[int, int]]],
    clock: str,
) -> dict[str, float]:
    """Return percentiles of latencies, and times to shares, in ms or hops; as `delay_measures`."""
    column, to, over = (1, 1000, "time_to") if clock == "time" else (0, 1, "hops_to")
    came = {group: [way[column] for way in reached.get(group, {}).values()] for group in starts}
    expected = {
        group: len(set(members.get(group, ())) - {start}) for group, start in starts.items()
    }
    every = [value for values in came.values() for value in values]
    name = "latency" if clock == "time" else "latency_hops"
    numbers = latency.latencies(every)
    if numbers["mean"] is not None and clock == "hops":
        numbers["mean"] = latency.latencies([1000 * value for value in every])["mean"] / 1000
    found = {f"{name}.{q}": value / to for q, value in numbers.items() if value is not None}
    for x in latency.COVERAGES:
        times = [
            latency.coverage(came[group], count)[f"t{x}"]
            for group, count in expected.items()
            if count
        ]
        for q, value in latency.over_publications(times).items():
            if value is not None:
                found[f"{over}_{x}.{q}"] = value / to
    return found


def duplicates(
    copies: Iterable[tuple[int, int]], starts: Mapping[int, int], live: Collection[int]
) -> dict[str, float]:
    """Return the numbers of the duplicates of live nodes that get a copy (group, receiver).

    All copies at the node where a group's copies start are duplicates.  The mean is over the first
    copies, of which starts have none; the others are over the nodes that have a first copy.
    """
    came = Counter(copies)
    came = Counter({place: n for place, n in came.items() if place[1] in live})
    again = [n - 1 for (group, node), n in came.items() if node != starts[group]]
    if not again:
        return {}
    return {
        "duplicates.mean": (came.total() - len(again)) / len(again),
        "duplicates.p95": latency.percentile(again, 95),
        "duplicates.max": max(again),
    }


def node_stress(entries: Iterable[tuple[int, int]], live: Collection[int]) -> dict[str, float]:
    """Measure -> value, of the children tables of live nodes; an entry is a (group, node)."""
    rows = Counter(entries)
    tables, total = Counter(node for _, node in rows), Counter()
    for (_, node), count in rows.items():
        total[node] += count
    found = {}
    for name, counts in {"children_tables": tables, "children_entries": total}.items():
        values = [counts[node] for node in live]
        ends = {"mean": mean(values), "median": median(values), "max": max(values)}
        found |= {f"{name}.{end}": value for end, value in ends.items()}
    return found
