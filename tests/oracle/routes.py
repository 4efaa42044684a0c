"""IP unicast routing on a router graph (JSAC section IV.A)."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

Link = tuple[int, int]
Cost = tuple[int, int]


@dataclass(frozen=True)
class Routes:
    """The unicast route between every ordered pair of routers.

    For each source: the policy weight and the delay (us) of the route to each router that it
    reaches, and the last router before it, None for the source.
    """

    weight: dict[int, dict[int, int]]
    delay: dict[int, dict[int, int]]
    pred: dict[int, dict[int, int | None]]

    def path(self, source: int, target: int) -> list[int]:
        """Return the routers of the route, ``source`` first and ``target`` last."""
        backwards = [target]
        while (before := self.pred[source][backwards[-1]]) is not None:
            backwards.append(before)
        return backwards[::-1]

    def path_links(self, source: int, target: int) -> list[Link]:
        """Return the directed links of the route; none when ``source == target``."""
        path = self.path(source, target)
        return list(pairwise(path))


def shortest_routes(routers: Iterable[int], links: Mapping[Link, Cost]) -> Routes:
    """Route every router to every other by least policy weight.

    Ties go to the least total delay; what still ties, to the least router id of the predecessor,
    at every router of the route.  `links` are (src, dst) -> (weight, delay_us); a weight is at
    least 1: links of no weight and no delay could make cycles of predecessors.
    """
    if any(weight < 1 or delay < 0 for weight, delay in links.values()):
        raise ValueError("link weights must be at least 1 and delays at least 0")
    weight: dict[int, dict[int, int]] = {}
    delay: dict[int, dict[int, int]] = {}
    pred: dict[int, dict[int, int | None]] = {}
    for source in routers:
        cost = least_costs(source, links)
        weight[source] = {router: total[0] for router, total in cost.items()}
        delay[source] = {router: total[1] for router, total in cost.items()}
        pred[source] = predecessors(source, cost, links)
    return Routes(weight, delay, pred)


def least_costs(source: int, links: Mapping[Link, Cost]) -> dict[int, Cost]:
    """Return the least (weight, delay) from ``source`` to each router: Dijkstra on pairs."""
    leaving = links_by_source(links)
    settled: dict[int, Cost] = {}
    frontier: list[tuple[Cost, int]] = [((0, 0), source)]
    while frontier:
        cost, router = heapq.heappop(frontier)
        if router in settled:
            continue
        settled[router] = cost
        for neighbour, link_cost in leaving.get(router, []):
            heapq.heappush(frontier, (add(cost, link_cost), neighbour))
    return settled


def predecessors(
    source: int, cost: Mapping[int, Cost], links: Mapping[Link, Cost]
) -> dict[int, int | None]:
    """Choose for each router the least predecessor that lies on some cheapest route."""
    pred: dict[int, int | None] = {source: None}
    for before, router in sorted(links):
        if router in pred or before not in cost:
            continue
        if add(cost[before], links[before, router]) == cost[router]:
            pred[router] = before  # `before` ascends, so the first that fits is the least
    return pred


def links_by_source(links: Mapping[Link, Cost]) -> dict[int, list[tuple[int, Cost]]]:
    """Group the links by the router that they leave."""
    leaving: dict[int, list[tuple[int, Cost]]] = {}
    for (src, dst), cost in links.items():
        leaving.setdefault(src, []).append((dst, cost))
    return leaving


def add(left: Cost, right: Cost) -> Cost:
    """Add two (weight, delay) pairs componentwise."""
    return (left[0] + right[0], left[1] + right[1])
