"""Coverage within deadlines, quorums and answers: one event after the other.

The definitions are X1 to X6 of docs/rules.md.
"""

import heapq
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from .latency import percentile

#: Events: a node gets the publication; its answer arrives at the source's downlink.
_GOT, _ARRIVED = 0, 1

#: What never happens comes after everything else.
NEVER = math.inf


@dataclass(frozen=True)
class Questions:
    """Deadlines in microseconds by name, the quorum, weights, and the way of answers.

    `back` is the time from a receipt at a node to the answer's arrival at the source's downlink,
    which needs the time `takes` for each answer.
    """

    deadlines: Mapping[str, int]
    quorum: Fraction
    weight: Mapping[int, Fraction]
    back: Callable[[int, int], int]
    takes: Callable[[int], int]
    weighted: bool = True
    replies: bool = True


def quorum_time(came: list[tuple[int, int]], needed: Fraction, weight: Mapping[int, Fraction]):
    """Return when the nodes that came, (time, node), have the needed weight; NEVER or None."""
    if not needed:
        return None
    total = Fraction(0)
    for at, node in sorted(came):
        total += weight.get(node, 0)
        if total >= needed:
            return at
    return NEVER


def answers(got: Mapping[int, int], source: int, asked: Questions) -> list[tuple[int, int]]:
    """Return (time, node) of the answers that the source has, by an event queue."""
    queue = [(at, _GOT, node) for node, at in got.items()]
    heapq.heapify(queue)
    free, done = 0, []
    while queue:
        at, what, node = heapq.heappop(queue)
        if what == _GOT:
            heapq.heappush(queue, (at + asked.back(node, source), _ARRIVED, node))
        else:  # the downlink takes one answer after another
            free = max(free, at) + asked.takes(source)
            done.append((free, node))
    return done


def coverage_measures(
    starts: Mapping[int, int],
    members: Mapping[int, Collection[int]],
    reached: Mapping[int, Mapping[int, tuple[int, int]]],
    asked: Questions,
) -> dict[str, float]:
    """Measure -> value, without the system; parameters as `multicast_measures.delay_measures`."""
    expected = {g: {*members.get(g, ())} - {start} for g, start in starts.items()}
    expected = {group: nodes for group, nodes in expected.items() if nodes}
    got = {g: {node: at for node, (_, at) in reached.get(g, {}).items()} for g in expected}
    found: dict[str, float] = {}
    one = dict.fromkeys({n for nodes in expected.values() for n in nodes}, Fraction(1))
    kinds = {"": one} | ({".weight": asked.weight} if asked.weighted else {})
    for name, deadline in asked.deadlines.items():
        for end, weight in kinds.items():
            whole = {g: sum(weight.get(n, 0) for n in nodes) for g, nodes in expected.items()}
            within = {
                g: sum(weight.get(n, 0) for n, at in got[g].items() if at <= deadline) for g in got
            }
            if total := sum(whole.values()):
                shares = [float(within[g] / whole[g]) for g in whole if whole[g]]
                found[f"within_{name}{end}"] = float(sum(within.values()) / total)
                found[f"within_{name}{end}.median"] = percentile(shares, 50)
                found[f"within_{name}{end}.min"] = min(shares)
    weight = asked.weight if asked.weighted else one
    times: dict[str, list] = {name: [] for name in ("quorum", "replies")[: 1 + asked.replies]}
    for group, nodes in expected.items():
        needed = asked.quorum * sum(weight.get(node, 0) for node in nodes)
        came = [(at, node) for node, at in got[group].items()]
        times["quorum"].append(quorum_time(came, needed, weight))
        if asked.replies:
            back = answers(got[group], starts[group], asked)
            times["replies"].append(quorum_time(back, needed, weight))
    for name, all_of in times.items():
        known = [at for at in all_of if at is not None]
        if expected:
            found[f"{name}.never"] = sum(at == NEVER for at in known)
        for end, q in {"median": 50, "p99": 99, "max": 100}.items():
            at = percentile(known, q)
            if at is not None and at != NEVER:
                found[f"{name}.{end}"] = at / 1000
    return found


def queue_of(arrivals: list[int], takes: int) -> list[int]:
    """Return when a link has taken each thing, one after the other."""
    free, done = 0, []
    for at in arrivals:
        free = max(free, at) + takes
        done.append(free)
    return done
