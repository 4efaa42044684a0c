"""The baselines and the measures of JSAC section IV, as docs/rules.md settles them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean

from .pastry import Overlay
from .routes import Routes
from .scribe import Deliveries, Edge

StressLink = tuple[str, int, int]
CORE, LAN_UP, LAN_DOWN = "core", "lan_up", "lan_down"
LAN_SLOTS_PER_ROUTER = 200


# --- Baselines: IP multicast and naive unicast --------------------------------------------------


def unicast_deliveries(overlay: Overlay, source: int, members: Iterable[int]) -> Deliveries:
    """Return (1, D(source, member)) for each member but the source, as IP multicast does, too."""
    return {m: (1, overlay.proximity(source, m)) for m in members if m != source}


def unicast_edges(group: int, source: int, members: Iterable[int]) -> set[Edge]:
    """Return the tree edges (group, source, member) for each member but the source."""
    return {(group, source, member) for member in members if member != source}


# --- Delay penalty (JSAC section IV.B, Figure 7) ------------------------------------------------


def rad(scribe: Deliveries, ip: Deliveries) -> float | None:
    """Return mean Scribe delay / mean IP delay of a group; None without a member but the root."""
    return fmean(_delays(scribe)) / fmean(_delays(ip)) if ip else None


def rmd(scribe: Deliveries, ip: Deliveries) -> float | None:
    """Return greatest Scribe delay / greatest IP delay of a group; None as in `rad`."""
    return max(_delays(scribe)) / max(_delays(ip)) if ip else None


def rdp(scribe: Deliveries, ip: Deliveries) -> dict[int, float]:
    """Return Scribe delay / IP delay for each member but the source."""
    return {member: scribe[member][1] / ip[member][1] for member in ip}


def _delays(deliveries: Deliveries) -> list[int]:
    return [delay for _, delay in deliveries.values()]


# --- Node stress (JSAC section IV.C, Figures 8 and 9) -------------------------------------------


def node_stress(nodes: Iterable[int], edges: Iterable[Edge]) -> dict[int, tuple[int, int]]:
    """Return (children tables that are not empty, entries in them) for each node, zeros too."""
    entries = Counter((parent, group) for group, parent, _ in set(edges))
    stress = dict.fromkeys(nodes, (0, 0))
    for (parent, _), count in entries.items():
        tables, total = stress[parent]
        stress[parent] = (tables + 1, total + count)
    return stress


# --- Link stress (JSAC section IV.D, Figures 10 and 14) -----------------------------------------


def link_stress(
    edges: Iterable[Edge], router: Mapping[int, int], routes: Routes
) -> dict[StressLink, int]:
    """Return the packets on each directed link when every tree edge carries one packet.

    Links without a packet are missing; keys are ("core", router, router), ("lan_up", node, router)
    or ("lan_down", router, node).
    """
    stress: Counter[StressLink] = Counter()
    for _, parent, child in set(edges):
        stress.update(links_between(parent, child, router, routes))
    return dict(stress)


def ip_link_stress(
    roots: Mapping[int, int],
    members: Mapping[int, Iterable[int]],
    router: Mapping[int, int],
    routes: Routes,
) -> dict[StressLink, int]:
    """Return the packets on each directed link when IP multicasts one message to every group.

    Each group puts one packet on every link of the union of the routes from its root to its
    members.
    """
    stress: Counter[StressLink] = Counter()
    for group, root in roots.items():
        merged: set[StressLink] = set()
        for member in members[group]:
            if member != root:
                merged.update(links_between(root, member, router, routes))
        stress.update(merged)
    return dict(stress)


def links_between(x: int, y: int, router: Mapping[int, int], routes: Routes) -> list[StressLink]:
    """Return all links from node ``x`` to node ``y``, the two LAN links included."""
    core = [(CORE, src, dst) for src, dst in routes.path_links(router[x], router[y])]
    return [(LAN_UP, x, router[x]), *core, (LAN_DOWN, router[y], y)]
