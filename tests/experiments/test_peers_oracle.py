"""Runs of Bayeux, flooding over Pastry, CAN multicast and GossipSub: all tables are the oracle's.

What the kernels make is compared case by case elsewhere, without Spark; this is a run from its
config to its saved tables. The oracle is given the nodes, links, groups and members that it saved.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import identifiers
import keyed
import pandas as pd
import pytest
import worlds
from oracle.bayeux import session
from oracle.bayeux.session import order, publish
from oracle.can import flood as can_flood
from oracle.can.zones import Points, Space, global_can, group_can
from oracle.flooding import flood
from oracle.gossipsub.run import play
from oracle.gossipsub.topic import Settings, dialled_by_all
from oracle.pastry import Overlay
from oracle.routes import shortest_routes

from scribe_spark.core import draws

from .conftest import SMALL

SYSTEMS = ("bayeux", "flooding", "can", "gossipsub")
SIZE = SMALL | {"nodes": 60, "groups": 5, "systems": ",".join(SYSTEMS)}
PHASES = ("topology", "overlay", "trees")
SEED = 7


def draw(purpose: str, *numbers: int) -> int:
    """Draws as the run makes them."""
    return keyed.bits(SEED, purpose, *numbers) % 2**64


@dataclass
class Tables:
    """What systems hand over; each a Counter of rows that begin with (system, group)."""

    copies: Counter
    deliveries: Counter
    state: Counter
    control: Counter


@dataclass(frozen=True)
class Saved:
    """The tables of a run."""

    out: Path

    def rows(self, table: str, columns: str) -> list[tuple]:
        """Return rows of Python's numbers; None for NULL."""
        frame = pd.read_parquet(self.out / "tables" / table)[columns.split()].astype(object)
        return list(frame.where(frame.notna(), None).itertuples(index=False, name=None))

    @cached_property
    def overlay(self) -> Overlay:
        nodes = self.rows("nodes", "node id_hi id_lo router")
        links = {
            (src, dst): (int(weight), round(delay * 1000))
            for src, dst, weight, delay in self.rows("links", "src dst weight delay_ms")
        }
        routers = {router for *_, router in nodes} | {src for src, _ in links}
        routes = shortest_routes(sorted(routers), links)
        ids = {node: identifiers.whole(hi, lo) for node, hi, lo, _ in nodes}
        return worlds.Memo(ids, {node: router for node, *_, router in nodes}, routes.delay)

    @cached_property
    def routers(self) -> list[int]:
        """Return all routers, by id."""
        return sorted(router for (router,) in self.rows("routers", "router"))

    @cached_property
    def groups(self) -> dict[int, tuple[int, frozenset[int], int]]:
        """Return group -> (groupId, members, source)."""
        members: dict[int, set[int]] = {}
        for group, node in self.rows("members", "group node"):
            members.setdefault(group, set()).add(node)
        got: dict[int, set[int]] = {group: set() for group in members}
        for system, group, node in self.rows("deliveries", "system group node"):
            if system == "ip_multicast":
                got[group].add(node)
        found = {}
        for group, hi, lo, root in self.rows("groups", "group key_hi key_lo root"):
            rest = members[group] - got[group]  # the source has no delivery
            source = rest.pop() if rest else root
            assert not rest
            found[group] = identifiers.whole(hi, lo), frozenset(members[group]), source
        return found

    def tables(self) -> Tables:
        """Return what the systems have left; trees' copies are their edges."""
        copies = Counter(
            (system, group, sender, receiver, kind, hop, _us(sent), bool(first))
            for system, group, sender, receiver, kind, hop, sent, first in self.rows(
                "copies", "system group sender receiver kind hop sent_ms first"
            )
            if kind == "payload"
        )
        copies.update(
            (system, group, parent, child)
            for system, group, parent, child in self.rows("tree_edges", "system group parent child")
            if system in SYSTEMS
        )
        deliveries = Counter(
            (system, group, node, hops, _us(delay))
            for system, group, node, hops, delay in self.rows(
                "deliveries", "system group node hops delay_ms"
            )
            if system in SYSTEMS
        )
        state = self.counted("system_state", "system group node kind entries")
        control = self.counted("control", "system group sender receiver kind messages")
        return Tables(copies, deliveries, state, control)

    def counted(self, table: str, columns: str) -> Counter:
        """Return a table whose last column is a count, summed over equal rows."""
        found: Counter = Counter()
        for *row, count in self.rows(table, columns):
            if row[0] in SYSTEMS:
                found[tuple(row)] += count
        return found


def _us(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1000)


# --- What the oracle has ------------------------------------------------------------------------


def bayeux(saved: Saved, options: session.Options, way: str) -> Tables:
    """Return Bayeux's tables."""
    tables = Tables(Counter(), Counter(), Counter(), Counter())
    for group, (key, members, source) in saved.groups.items():
        one = session.Session(saved.overlay, key, options)
        for member in sorted(members):
            one.join(member)
        joining = Counter(one.messages)
        found = publish(one, source, way)
        firsts = {}  # over all partitions; the first root and the source have it before
        for c in sorted(found.first.values(), key=lambda c: (*order(one, c), c.partition)):
            if c.receiver not in (source, one.roots[0]):
                firsts.setdefault(c.receiver, c)
        for c in found.copies:
            first = firsts.get(c.receiver) == c
            row = ("bayeux", group, c.sender, c.receiver, "payload", c.hop, c.sent, first)
            tables.copies[row] += 1
        _note(tables, "bayeux", group, found.deliveries, joining)
        tables.state.update(
            {("bayeux", group, node, "member list"): n for node, n in one.state().items()}
        )
    return tables


def flooded(saved: Saved, over: str) -> Tables:
    """Return the tables of flooding over Pastry."""
    tables = Tables(Counter(), Counter(), Counter(), Counter())
    for group, (_, members, source) in saved.groups.items():
        ring = saved.overlay
        if over == "group":
            ring = flood.ring_of(saved.overlay, members, source)
            kept = flood.state(ring)
            tables.state.update({("flooding", group, *one): n for one, n in kept.items()})
        copies = flood.flood(ring, source)
        tables.copies.update(("flooding", group, c.sender, c.receiver) for c in copies)
        told = flood.announcements(ring) if over == "group" else Counter()
        _note(tables, "flooding", group, flood.deliveries(copies, members, source), told)
    if over == "overlay":
        kept = flood.state(saved.overlay)
        tables.state.update({("flooding", None, *one): n for one, n in kept.items()})
    return tables


def can(saved: Saved, space: Space, flooding: str, landmarks: int, clock: str) -> Tables:
    """Return CAN multicast's tables."""
    tables, overlay = Tables(Counter(), Counter(), Counter(), Counter()), saved.overlay
    places = draws.distinct_below(len(saved.routers), landmarks, SEED, "can landmarks", 0)
    chosen = tuple(saved.routers[place] for place in places)
    points = Points(space, draw, overlay.router, overlay.delay, chosen)
    everybody = global_can(overlay.ids, points)
    tables.state.update(
        {("can", None, x, "neighbours"): n for x, n in can_flood.state(everybody).items()}
    )
    for group, (key, members, source) in saved.groups.items():
        one = group_can(group, members, source, overlay.ids, points)
        found = can_flood.flood(
            one, source, flooding, overlay.proximity if clock == "time" else None
        )
        for c in found.copies:
            row = (c.sender, c.receiver, "payload", c.hops)
            sent = c.sent_us if clock == "time" else None
            tables.copies["can", group, *row, sent, c.first] += 1
        got = can_flood.deliveries(found, members, source)
        told = can_flood.control(one, everybody, key)
        if clock == "hops":
            senders = {node: first.sender for node, first in found.first.items()}
            got = _delayed(got, senders, source, overlay)
        _note(tables, "can", group, got, told)
        kept = can_flood.state(one)
        tables.state.update({("can", group, x, "neighbours"): n for x, n in kept.items()})
    return tables


def gossipsub(saved: Saved, settings: Settings) -> Tables:
    """Return GossipSub's tables."""
    tables, overlay = Tables(Counter(), Counter(), Counter(), Counter()), saved.overlay
    graph, by_time = None, settings.clock == "time"
    if settings.discovery == "graph":
        graph = dialled_by_all(overlay.ids, settings.dials, draw, overlay.ids)
        tables.control.update(("gossipsub", None, x, y, "dial") for x, y in graph)
    for group, (_, members, source) in saved.groups.items():
        one = play(*(group, members, source, settings, draw, overlay.ids, overlay.proximity, graph))
        had = one.publication.had
        for c in one.publication.copies:
            mine = had.get(c.receiver)
            first = (
                not c.lost and mine is not None and (mine.sender, mine.at) == (c.sender, c.arrives)
            )
            sent = c.sent if by_time else None
            row = ("gossipsub", group, c.sender, c.receiver, "payload", c.hop, sent, first)
            tables.copies[row] += 1
        got = one.deliveries(members)
        if not by_time:
            got = _delayed(got, {x: h.sender for x, h in had.items()}, source, overlay)
        _note(tables, "gossipsub", group, got, one.joining_messages())
        kept = one.topic.state(one.end)
        tables.state.update({("gossipsub", group, *at): n for at, n in kept.items()})
    return tables


def _delayed(
    got: dict[int, tuple[int, int, int]], sender: dict[int, int], source: int, overlay: Overlay
) -> dict[int, tuple[int, int, int]]:
    """Return deliveries by hops with their delays: sums of D along first copies (M2)."""

    def delay(node: int) -> int:
        if node == source:
            return 0
        return delay(sender[node]) + overlay.proximity(sender[node], node)

    return {node: (hops, delay(node), first) for node, (hops, _, first) in got.items()}


def _note(tables: Tables, system: str, group: int, got: dict[int, tuple], told: Counter) -> None:
    tables.deliveries.update((system, group, x, hops, at) for x, (hops, at, _) in got.items())
    tables.control.update({(system, group, *one): n for one, n in told.items()})


# --- Runs ---------------------------------------------------------------------------------------


def compare(found: Tables, *wanted: Tables) -> None:
    """Hold the tables of a run against those of all systems."""
    for name in ("deliveries", "state", "control", "copies"):
        expected = sum((getattr(one, name) for one in wanted), Counter())
        have = getattr(found, name)
        assert have - expected == expected - have == Counter(), name


@pytest.mark.slow
def test_a_run_from_drawn_sources(make):
    """Sources are members, whose messages are routed to roots; time, losses, rule 5, partitions."""
    run = make(
        phases=PHASES,
        engine="tasks",
        **SIZE,
        seed=SEED,
        source="routed",
        bayeux_root="surrogate",
        bayeux_partitions=3,
        can_dimensions=3,
        can_flooding="corner",
        can_landmarks=3,
        gossipsub_joins="waves",
        gossipsub_join_waves=4,
        gossipsub_d=3,
        gossipsub_d_low=2,
        gossipsub_d_high=5,
        gossipsub_d_out=1,
        gossipsub_dials=8,
        gossipsub_loss=0.3,
        gossipsub_processing_ms=30.0,
    )
    saved = Saved(Path(run.out))
    settings = Settings(
        *(3, 2, 5, 1), joins="waves", join_waves=4, dials=8, loss=0.3, processing_ms=30.0
    )
    options = session.Options(3, "surrogate", "table")
    compare(
        saved.tables(),
        bayeux(saved, options, "routed"),
        flooded(saved, "group"),
        can(saved, Space.of(3), "corner", 3, "time"),
        gossipsub(saved, settings),
    )
    kinds = {kind for system, kind in saved.rows("copies", "system kind") if system == "gossipsub"}
    assert kinds == {"payload", "IDONTWANT", "IHAVE", "IWANT"}


@pytest.mark.slow
def test_a_run_from_roots(make):
    """Sources are roots, members or not; by hops, all of the overlay forwards, one graph."""
    run = make(
        phases=PHASES,
        engine="jobs",
        **SIZE,
        seed=SEED,
        bayeux_hops="leaf_set",
        flooding_over="overlay",
        can_dimensions=2,
        can_clock="hops",
        gossipsub_discovery="graph",
        gossipsub_dials=6,
        gossipsub_clock="hops",
        gossipsub_preset="go",
    )
    saved = Saved(Path(run.out))
    settings = Settings(
        *(6, 5, 12, 2), discovery="graph", dials=6, clock="hops", prune_at_d_high=True
    )
    found, wanted = saved.tables(), gossipsub(saved, settings)
    compare(
        found,
        bayeux(saved, session.Options(hops="leaf_set"), "root"),
        flooded(saved, "overlay"),
        can(saved, Space.of(2), "directed", 0, "hops"),
        wanted,
    )
