"""Worlds with groups: a round of Pastry and Scribe, what is seen after it, and where it differs."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from ..living import world as pastry
from ..scribe_living import bottleneck, collapse, joining, lazy, multicast, roots, upkeep
from .phase import Phase
from .state import Publication, Scribe

#: round, node, kind[, group]
Event = tuple[int, int, str] | tuple[int, int, str, int]

OVERLAY_EVENTS = ("arrive", "leave", "fail", "recover")
GROUP_EVENTS = ("create", "join", "quit", "publish")


@dataclass
class Snapshot:
    """The state of Scribe after a round and what happened in it, as sorted plain data.

    A node without parent has parent -1; `cause` is that of the JOIN for which it waits, else "".
    """

    round: int
    live: list[int]
    entries: list[tuple[int, int, bool, bool, int, int, str]]
    # group, node, member, root, parent, join number, cause
    children: list[tuple[int, int, int, int, int]]  # group, node, child, join number, refreshed
    copies: list[tuple[int, int, int, int, int, int]]
    # group, node, epoch, version, whom it takes for the root, creator
    addresses: list[tuple[int, int, int]]  # group, source, root
    kept: list[Publication]  # by their sources
    deliveries: list[tuple[Publication, int]]  # sorted; `ordered` as they came
    ordered: list[tuple[Publication, int]]
    fates: list[tuple[Publication, str]]  # of the round's, and of those kept before
    # sent | refused | no root | kept | source died
    joins: list[tuple[int, int, str]]  # group, node, cause
    created: list[tuple[int, int]]  # group, creator
    lost_groups: list[int]
    refused: dict[str, int]
    duplicates: dict[Publication, int]  # at members
    orphans: list[tuple[int, int]]  # group, node
    counts: dict[str, int]  # messages by kind, Pastry's among them
    at_root: list[tuple[int, int]] = field(default_factory=list)
    # group, node: JOINs answered by a root
    repairing: list[int] = field(default_factory=list)
    overloaded: list[int] = field(default_factory=list)
    members: dict[int, frozenset[int]] = field(default_factory=dict)
    overlay: pastry.Snapshot | None = None
    # the members that got a publication; known at the deadline only, so rounds do not compare it
    first_copies: dict[Publication, int] = field(default_factory=dict, compare=False)


@dataclass
class Run:
    """A world that is being played.

    `dead_roots` has (group, node, round) of roots that died; `affected` (round, node that died) ->
    (group, child) of its children; `lost` the groups that were `created` and of whose state nobody
    alive had a copy in this round, before its CREATEs.
    """

    scribe: Scribe
    dead_roots: set[tuple[int, int, int]] = field(default_factory=set)
    affected: dict[tuple[int, int], set[tuple[int, int]]] = field(default_factory=dict)
    created: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    seen: list[Snapshot] = field(default_factory=list)

    def play(self, events: Iterable[Event], rounds: int) -> list[Snapshot]:
        """Rounds 0, 1, ...; the snapshot after each."""
        events = list(events)
        for at in range(rounds):
            self.step(at, [event for event in events if event[0] == at])
        return self.seen

    def step(self, round: int, events: Iterable[Event]) -> Snapshot:
        """One round."""
        scribe, overlay = self.scribe, self.scribe.overlay
        overlay.round = round
        counts, sides = Counter(overlay.counts), pastry.leaf_sets(overlay)
        scribe.joins, scribe.deliveries = [], []
        scribe.at_root, scribe.repairing = [], set()
        scribe.taken, scribe.carried, scribe.ways = [], [], {}
        scribe.refused, scribe.died = Counter(), []
        scribe.duplicates, scribe.first_copies = Counter(), Counter()
        group_events = self.play_events(list(events))  # (1)
        pastry.mend(overlay)  # (2)
        if not overlay.live:
            raise ValueError(f"round {round}: no node is left")
        made = self.maintain(group_events["create"])  # (3)
        fates = self.publish(group_events["publish"])  # (4)
        upkeep.heartbeats(scribe)
        after = self.look(made, fates, overlay.counts - counts)  # (5)
        after.overlay = pastry.snapshot(overlay, overlay.counts - counts)
        after.overlay.new_leafs = [
            node for node, leaves in after.overlay.leaf_sets if sides.get(node) != leaves
        ]
        self.seen.append(after)
        return after

    # ---- the steps of a round

    def play_events(self, events: list[Event]) -> dict[str, list[tuple[int, int]]]:
        """(1) Pastry's events, what they do to trees; joins and quits; (group, node) by kind."""
        scribe, now = self.scribe, self.scribe.round
        overlay_events = [event for event in events if event[2] in OVERLAY_EVENTS]
        going = [node for _, node, kind, *_ in overlay_events if kind in ("leave", "fail")]
        saying = {node for _, node, kind, *_ in overlay_events if kind == "leave"}
        pastry.play_events(scribe.overlay, overlay_events)
        entries, copies = upkeep.take_away(scribe, going)
        self.dead_roots |= {(group, node, now) for group, node, entry in entries if entry.root}
        for group, node, entry in entries:
            under = {
                (group, child)
                for child in entry.children
                if (other := scribe.entry(group, child)) is not None and other.parent == node
            }
            self.affected.setdefault((now, node), set()).update(under)
        for _, node, kind, *_ in overlay_events:
            if kind in ("arrive", "recover"):
                scribe.incarnation[node] = now
        upkeep.say_goodbye(scribe, [one for one in entries if one[1] in saying], copies)
        by_kind: dict[str, list[tuple[int, int]]] = {kind: [] for kind in GROUP_EVENTS}
        for _, node, kind, *group in events:
            if kind not in OVERLAY_EVENTS:
                by_kind[kind].append((group[0], node))
        self.check(by_kind)
        for group, node in sorted(by_kind["join"]):
            self.join(group, node)
        for group, node in sorted(by_kind["quit"]):
            scribe.entries[group][node].member = False
        return by_kind

    def check(self, by_kind: dict[str, list[tuple[int, int]]]) -> None:
        """Refuse events that cannot be."""
        scribe = self.scribe
        for kind, pairs in by_kind.items():
            if len(set(pairs)) < len(pairs):
                raise ValueError(f"round {scribe.round}: {kind} twice")
            for group, node in pairs:
                entry = scribe.entry(group, node)
                member = entry is not None and entry.member
                wants = member or (group, node) in scribe.strangers
                if (
                    group not in scribe.groups
                    or node not in scribe.overlay.live
                    or (kind == "join" and wants)
                    or (kind == "quit" and not member)
                ):
                    raise ValueError(f"round {scribe.round}: node {node} cannot {kind} {group}")

    def join(self, group: int, node: int) -> None:
        """A node joins: in the tree it is a member at once, else it sends a JOIN in step 3."""
        scribe = self.scribe
        if not scribe.groups[group].access.allows("join", node):
            scribe.strangers.add((group, node))
            return
        entry = scribe.entry(group, node) or scribe.enter(group, node, "own")
        entry.member, entry.joined = True, scribe.round

    def maintain(self, creates: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """(3) Roots, soft state, suspicion, LEAVE, CREATE, JOIN; the CREATEs that succeeded."""
        scribe = self.scribe
        roots.new_leafs(scribe)
        self.lost = roots.lost_groups(scribe, self.created)
        upkeep.refresh(scribe)
        upkeep.expire(scribe)
        upkeep.suspect(scribe, self.dead_roots)
        upkeep.leave_up(scribe)
        phase = Phase(scribe.overlay)
        made = joining.create_groups(scribe, phase, creates)
        self.created |= {group for group, _ in made}
        (lazy.send_lazily if scribe.settings.lazy else joining.send_joins)(scribe, phase)
        if scribe.settings.remover:
            bottleneck.remove_bottlenecks(scribe, phase)
        collapse.collapse(scribe, phase)
        joining.refuse_unknown_members(scribe, phase)
        phase.close()
        roots.replicate_changed(scribe)
        multicast.settle(scribe)
        return made

    def publish(self, published: list[tuple[int, int]]) -> list[tuple[Publication, str]]:
        """(4) Publications go to the roots and down the trees."""
        scribe = self.scribe
        phase = Phase(scribe.overlay)
        sent = multicast.find_roots(scribe, phase, published)
        phase.close()
        multicast.settle(scribe)
        multicast.keep(scribe, sent)
        scribe.taken = [(one.publication, one.root) for one in sent if one.fate == "sent"]
        multicast.disseminate(scribe, multicast.number(sent))
        roots.replicate_changed(scribe)
        multicast.acknowledge(scribe, sent)
        fates = [(one.publication, one.fate) for one in sent]
        return sorted(fates + [(publication, "source died") for publication in scribe.died])

    def look(
        self,
        made: list[tuple[int, int]],
        fates: list[tuple[Publication, str]],
        counts: Counter[str],
    ) -> Snapshot:
        """(5) The state after the round."""
        scribe = self.scribe
        entries = list(scribe.all_entries())
        members: dict[int, set[int]] = {}
        for group, node, entry in entries:
            if entry.member:
                members.setdefault(group, set()).add(node)
        return Snapshot(
            round=scribe.round,
            live=sorted(scribe.overlay.live),
            entries=[
                (
                    group,
                    node,
                    entry.member,
                    entry.root,
                    -1 if entry.parent is None else entry.parent,
                    entry.number,
                    entry.cause if entry.waits else "",
                )
                for group, node, entry in entries
            ],
            children=[
                (group, node, child, state.number, state.refreshed)
                for group, node, entry in entries
                for child, state in sorted(entry.children.items())
            ],
            copies=[
                (*place, *copy.state.age, copy.root, copy.state.creator)
                for place, copy in sorted(scribe.copies.items())
            ],
            addresses=[(*place, root) for place, root in sorted(scribe.addresses.items())],
            kept=sorted(scribe.kept),
            deliveries=sorted(scribe.deliveries),
            ordered=list(scribe.deliveries),
            fates=fates,
            joins=sorted(scribe.joins),
            created=sorted(made),
            lost_groups=sorted(self.lost),
            refused=dict(sorted(scribe.refused.items())),
            duplicates=dict(sorted(scribe.duplicates.items())),
            first_copies=dict(sorted(scribe.first_copies.items())),
            orphans=[(group, node) for group, node, _ in entries if is_orphan(scribe, group, node)],
            counts=dict(sorted(counts.items())),
            at_root=sorted(scribe.at_root),
            repairing=sorted(scribe.repairing),
            overloaded=bottleneck.overloaded(scribe),
            members={group: frozenset(nodes) for group, nodes in members.items()},
        )


def is_orphan(scribe: Scribe, group: int, node: int) -> bool:
    """Alive, in a tree, not the root, and no live node is its parent and has it as a child."""
    entry = scribe.entry(group, node)
    if entry is None or entry.root:
        return False
    parent = None if entry.parent is None else scribe.entry(group, entry.parent)
    return parent is None or node not in parent.children


# --- where two snapshots differ -------------------------------------------------------------------


PARTS = tuple(
    one.name
    for one in fields(Snapshot)
    if one.compare and one.name not in ("round", "ordered", "members", "overlay")
)


def differences(
    ours: Snapshot, theirs: Snapshot, parts: Iterable[str] = PARTS, most: int = 5
) -> list[str]:
    """See `living.world.differences`; of Scribe's parts."""
    return pastry.differences(ours, theirs, parts, most)
