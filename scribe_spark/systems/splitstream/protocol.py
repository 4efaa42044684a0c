"""The messages of SplitStream, hop by hop: rules L2 to L10.

=============  ======================================================  =======================
message        meaning                                                 handler
=============  ======================================================  =======================
``subscribe``  a node asks for a stripe, or one asks for it            `Hops.answer`
``anycast``    an orphan looks for a node with room (JOINREQ)          `Hops.answer`
``ack``        the sender is the parent now; has its path to the root  `Hops.receive`
``drop``       the sender is no parent; names a sibling to ask         `Hops.receive`
``path``       the sender's path to the root has changed               `Hops.receive`
``leave``      the sender is no child any more                         `Hops.receive`
``fail``       nobody had room                                         `Hops.receive`
=============  ======================================================  =======================

All messages take one hop, and all nodes play a hop at once: replies, then new paths, then requests,
then refused requests go on, then nodes that wait ask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scribe_spark.core.arrays import NONE, Rows, distinct, find_sorted, run_starts, turns
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.systems.splitstream.forest import Forest, least_of, message_rows
from scribe_spark.systems.splitstream.lists import Lists, in_parts, visit
from scribe_spark.systems.splitstream.policies import SPARE, FullNodes, drop_by_prefix, push_down
from scribe_spark.systems.splitstream.routes import Routes
from scribe_spark.systems.splitstream.spare import SpareTree

# kinds of messages
SUBSCRIBE, ANYCAST, ACK, DROP = "subscribe", "anycast", "ack", "drop"
PATH, LEAVE, FAIL = "path", "leave", "fail"
SPARE_JOIN, SPARE_LEAVE = "spare_join", "spare_leave"

#: All kinds of control messages.
CONTROL = (SUBSCRIBE, ACK, DROP, PATH, LEAVE, FAIL, ANYCAST, SPARE_JOIN, SPARE_LEAVE)

#: After so many FAILs, a node asks again more slowly, and then no more in the period (settled).
QUICK_TRIES, TRIES = 5, 30

#: Hops until a node asks again after a FAIL.
SOON, LATER = 1, 5

#: The number of hops of a period in which nodes ask (settled).
MOST_HOPS = 3000

# whom a node asks that waits: by route, or by anycast; otherwise a row
_ROUTE, _ANYCAST = -1, -2


@dataclass(frozen=True)
class Requests(Rows):
    """SUBSCRIBEs and JOINREQs under way: arrays of shape (n,), and lists."""

    pair: np.ndarray  # the subscriber and the stripe
    at: np.ndarray  # the node (a row) that it goes to
    sender: np.ndarray
    due: np.ndarray  # the hop in which it arrives
    final: np.ndarray  # True if the list is empty: the parent has to decide
    seeks: np.ndarray  # True for a JOINREQ
    routed: np.ndarray  # True for a SUBSCRIBE on Pastry's route
    visited: Lists
    todo: Lists

    @classmethod
    def sent(
        cls,
        pair: np.ndarray,
        at: np.ndarray,
        sender: np.ndarray,
        due: int | np.ndarray,
        *,
        seeks: bool = False,
        routed: bool = False,
    ) -> Requests:
        """Return new requests."""
        n, no = len(pair), np.zeros(len(pair), dtype=bool)
        flags, lists = (no, no | seeks, no | routed), (Lists.empty(n), Lists.empty(n))
        return cls(pair, at, sender, np.broadcast_to(due, n), *flags, *lists)


class Hops:
    """The hops of a period; changes the forest.

    Attributes
    ----------
    sent : dict of str to list of Columns
        The messages by kind: ``group, sender, to`` (positions).
    counts : dict of str to int
        The numbers of orphans, anycasts, cycles and hops, over all channels.
    """

    def __init__(self, forest: Forest, routes: Routes, policy: str) -> None:
        self.forest, self.routes, self.policy = forest, routes, policy
        none = np.empty(0, dtype=np.int64)
        self._requests = [Requests.sent(none, none, none, 0)]
        self._replies: dict[str, list[Columns]] = {}
        self._waiting = [{"pair": none, "due": none, "to": none}]
        self._fails = np.zeros(len(forest.parent), dtype=np.int64)
        self._tree = SpareTree(forest) if policy == SPARE else None
        self._routed = False  # True if the tree of the spare group is that of all who have entered
        self._last_hop = np.zeros(len(forest.groups), dtype=np.int64)
        self.sent: dict[str, list[Columns]] = {kind: [] for kind in CONTROL}
        self.counts = {"orphans": 0, "anycasts": 0, "cycles": 0}

    def play(self, changed: np.ndarray) -> None:
        """Play hops until nothing moves; `changed` are pairs that have lost their ancestors."""
        forest = self.forest
        self.tell_paths(changed)
        forest.entered |= forest.wave == 0
        self._subscribe(forest.entered, due=0)
        self.ask()
        while self._goes_on():
            forest.hop += 1
            self.tell_paths(self.receive())
            refused = self.answer(self._arrived())
            self.go_on(refused)
            self.ask()
        self.counts["hops"] = int(self._last_hop.sum())

    def _subscribe(self, rows: np.ndarray, due: int) -> None:
        """Let the pairs of some nodes (a mask) without a parent subscribe by route."""
        forest = self.forest
        lacks = (forest.parent < 0) & ~forest.root & np.repeat(rows & forest.alive, forest.stripes)
        self._wait(np.flatnonzero(lacks), due, _ROUTE)

    def _goes_on(self) -> bool:
        """Return True if a channel moves; let the next wave enter one that does not: rule L10."""
        forest = self.forest
        moving = [one.pair for one in self._requests] + [one["pair"] for one in self._waiting]
        moving += [one["pair"] for replies in self._replies.values() for one in replies]
        busy = np.zeros(len(forest.groups), dtype=bool)
        busy[forest.of[np.concatenate(moving) // forest.stripes]] = True
        self._last_hop[busy] = forest.hop + 1
        outside = np.flatnonzero(~forest.entered & ~busy[forest.of])
        if len(outside):
            starts = run_starts(forest.of[outside])
            wave = np.full(len(forest.groups), NONE, dtype=np.int64)
            wave[forest.of[outside[starts]]] = np.minimum.reduceat(forest.wave[outside], starts)
            enters = ~forest.entered & (forest.wave == wave[forest.of])
            forest.entered |= enters
            self._subscribe(enters, forest.hop + 1)
            self._routed = False
        return bool(len(outside) or busy.any())

    # --- bookkeeping

    def _send(self, kind: str, pair: np.ndarray, by: np.ndarray, **columns: np.ndarray) -> None:
        """Send replies of nodes (rows) to pairs."""
        if len(pair):
            self._note(kind, by, pair // self.forest.stripes)
            rows = {"pair": pair, "sender": by, **columns}
            self._replies.setdefault(kind, []).append(rows)

    def _note(self, kind: str, sender: np.ndarray, to: np.ndarray) -> None:
        """Count messages between rows."""
        forest = self.forest
        self._note_positions(kind, forest.group[sender], forest.node[sender], forest.node[to])

    def _note_positions(self, kind: str, *ends: np.ndarray) -> None:
        """Count messages by group, and positions of the sender and the receiver."""
        self.sent[kind].append(message_rows(*ends))

    def _wait(self, pair: np.ndarray, due: np.ndarray | int, to: np.ndarray | int) -> None:
        if len(pair):
            more = {"due": due, "to": to}
            rows = {name: np.broadcast_to(one, len(pair)) for name, one in more.items()}
            self._waiting.append({"pair": pair, **rows})

    def _arrived(self) -> Requests:
        """Take the requests that arrive in this hop."""
        every = Requests.join(*self._requests)
        later = every.due > self.forest.hop
        self._requests = [every.take(later)]
        return every.take(~later)

    # --- 1. replies

    def receive(self) -> np.ndarray:
        """Handle replies; return the pairs whose ancestors have changed: rule L3."""
        forest, came = self.forest, {k: concatenate(v) for k, v in self._replies.items()}
        self._replies = {}
        if LEAVE in came:
            pair, at = came[LEAVE]["child"], came[LEAVE]["pair"]
            forest.let_go(pair[forest.holder[pair] == at])
        for kind in (ACK, DROP, PATH, FAIL):
            if kind in came:
                alive = forest.alive[came[kind]["pair"] // forest.stripes]
                came[kind] = rows = take(came[kind], alive)
                rows["by"] = rows["sender"] * forest.stripes + rows["pair"] % forest.stripes
        told = {kind: forest.path_of(came[kind]["by"]) for kind in (ACK, PATH) if kind in came}
        touched = [came[kind]["pair"] for kind in (ACK, DROP, PATH) if kind in came]
        changed = distinct(np.concatenate(touched)) if touched else np.empty(0, dtype=np.int64)
        before = forest.ancestors[changed]
        if ACK in came:
            pair = came[ACK]["pair"]
            forest.parent[pair], self._fails[pair] = came[ACK]["by"], 0
            forest.set_ancestors(pair, told[ACK])
        if DROP in came:
            self._receive_drops(came[DROP])
        if PATH in came:
            from_parent = forest.parent[came[PATH]["pair"]] == came[PATH]["by"]
            forest.set_ancestors(came[PATH]["pair"][from_parent], told[PATH][from_parent])
        self._leave_cycles(changed)
        if FAIL in came:
            self._receive_fails(came[FAIL]["pair"])
        now = forest.ancestors[changed]
        more = now.shape[1] - before.shape[1]
        before = np.pad(before, ((0, 0), (0, more)), constant_values=NONE)
        return changed[(before != now).any(axis=1)]

    def _receive_drops(self, drops: Columns) -> None:
        forest, pair = self.forest, drops["pair"]
        # one that has left the sender, as the least node of a ring, asks already
        asks = distinct(np.concatenate([one.pair for one in self._requests]))
        lost = (forest.parent[pair] < 0) & (find_sorted(asks, pair) < 0)
        mine = lost | (forest.parent[pair] == drops["by"])
        pair, to = pair[mine], drops["next"][mine]
        forest.parent[pair], forest.ancestors[pair] = NONE, NONE
        self.counts["orphans"] += len(pair)
        without = _ROUTE if self._tree is None else _ANYCAST
        self._wait(pair, forest.hop, np.where(to < 0, without, to))

    def _receive_fails(self, pair: np.ndarray) -> None:
        self._fails[pair] += 1
        fails = self._fails[pair]
        due = self.forest.hop + np.where(fails <= QUICK_TRIES, SOON, LATER)
        again = fails <= TRIES
        self._wait(pair[again], due[again], _ROUTE)

    def _leave_cycles(self, pairs: np.ndarray) -> None:
        """Cut lists in which nodes find themselves; the least node of a ring leaves its parent."""
        forest = self.forest
        own = forest.node[pairs // forest.stripes]
        found = forest.ancestors[pairs] == own[:, None]
        some = np.flatnonzero(found.any(axis=1))
        pairs, own, lists = pairs[some], own[some], forest.ancestors[pairs[some]]
        ring = np.arange(lists.shape[1]) <= found[some].argmax(axis=1)[:, None]
        lists[~ring] = NONE
        forest.ancestors[pairs] = lists
        least = np.where(ring, lists, np.iinfo(np.int32).max).min(axis=1) == own
        pairs = pairs[least]
        at = forest.parent[pairs]
        self._note(LEAVE, pairs // forest.stripes, at // forest.stripes)
        self._replies.setdefault(LEAVE, []).append({"pair": at, "child": pairs})
        forest.parent[pairs], forest.ancestors[pairs] = NONE, NONE
        self.counts["cycles"] += len(pairs)
        self._wait(pairs, forest.hop, _ROUTE)

    # --- 2. paths

    def tell_paths(self, changed: np.ndarray) -> None:
        """Let pairs tell their children the new paths."""
        if len(changed):
            of, child = self.forest.children_of(changed)
            self._send(PATH, child, changed[of] // self.forest.stripes)

    # --- 3. requests

    def answer(self, came: Requests) -> Requests:
        """Answer requests; return the refused ones, which go on: rules L4, L6 and L7."""
        forest, width = self.forest, self.forest.stripes
        if forest.hop >= MOST_HOPS:
            came = came.take(np.zeros(len(came), dtype=bool))
        who, stripe = np.divmod(came.pair, width)
        order = np.lexsort((who, stripe, came.seeks, came.at))
        came, who, stripe = came.take(order), who[order], stripe[order]
        mine = came.at * width + stripe
        below = forest.is_ancestor(who, mine)
        able = ~below
        if self._tree is not None:
            fits = self._tree.inside[came.at] & (came.at != who) & forest.is_attached(mine)
            able &= ~came.seeks | fits
        # 1. the first ones, as long as there is room
        before = np.cumsum(able) - able
        starts = run_starts(came.at)
        first = np.repeat(before[starts], np.diff([*starts, len(came)]))
        accepted = able & (before - first < (forest.bound - forest.degree)[came.at])
        forest.hold(came.pair[accepted], mine[accepted])
        self._send(ACK, came.pair[accepted], came.at[accepted])
        # 2. the others one after the other, as the policy says
        rest = came.take(able & ~accepted & ~came.seeks)
        passed, below = came.take(below & came.routed), below & ~came.routed
        self._route(passed.pair, passed.at)
        fails = came.take(below & came.final)
        dropped = came.take(below & ~came.seeks & ~came.final)
        refused = [came.take(came.seeks & ~accepted)]
        if self._tree is None:
            refused.append(dropped)
            refused_by_full, failed = self._drop_by_prefix(rest)
            refused.append(refused_by_full)
            fails = Requests.join(fails, failed)
        else:
            self._push_down(rest)
            self._send(DROP, dropped.pair, dropped.at, next=np.full(len(dropped), NONE))
        self._send(FAIL, fails.pair, fails.at)
        return Requests.join(*refused)

    def _drop_by_prefix(self, rest: Requests) -> tuple[Requests, Requests]:
        """Let full nodes answer by FreePastry's policy; return refused and failed requests."""
        forest, refused = self.forest, np.zeros(len(rest), dtype=bool)
        full = FullNodes(forest, rest.at)
        for turn in turns(rest.at):
            pair, at = rest.pair[turn], rest.at[turn]
            place = drop_by_prefix(forest, full, pair, at, rest.sender[turn], rest.final[turn])
            refused[turn] = place < 0
            pair, at, dropped = self._replace(full, place, pair, at)
            self._send(DROP, dropped, at, next=np.full(len(dropped), NONE))
        return rest.take(refused & ~rest.final), rest.take(refused & rest.final)

    def _push_down(self, rest: Requests) -> None:
        """Let full nodes take newcomers and push one child down each, with its siblings."""
        forest = self.forest
        full, pushed = FullNodes(forest, rest.at), [rest.pair[:0]]
        by = [rest.at[:0]]
        for turn in turns(rest.at):
            pair, at = rest.pair[turn], rest.at[turn]
            place = push_down(forest, full, pair, at)
            pushed.append(pair[place < 0])
            by.append(at[place < 0])
            _, at, dropped = self._replace(full, place, pair, at)
            pushed.append(dropped)
            by.append(at)
        pair, at = np.concatenate(pushed), np.concatenate(by)
        self._send(DROP, pair, at, next=self._siblings(pair, at))

    def _replace(
        self, full: FullNodes, place: np.ndarray, pair: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Put newcomers in the places of children, and accept them; NONE: not this newcomer.

        Return the newcomers, their nodes and the children that have lost their places.
        """
        forest, some = self.forest, place >= 0
        place, pair, at = place[some], pair[some], at[some]
        dropped = full.child[place]
        full.child[place] = pair
        forest.holder[dropped] = NONE
        forest.holder[pair] = at * forest.stripes + pair % forest.stripes
        self._send(ACK, pair, at)
        return pair, at, dropped

    def _siblings(self, pair: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return a sibling of each dropped pair with the stripe's digits (a row), or NONE."""
        forest = self.forest
        to = np.full(len(pair), NONE, dtype=np.int64)
        stripe = pair % forest.stripes
        row, child = forest.children_lists(at * forest.stripes + stripe)
        child //= forest.stripes
        good = forest.alive[child] & forest.fits(child, stripe[row])
        row, child = row[good], child[good]
        orphan = forest.number(pair[row] // forest.stripes)
        drawn = forest.draw("sibling", child, stripe[row], orphan, forest.number(child))
        first = least_of(row, drawn)
        to[row[first]] = child[first]
        return to

    # --- 4. refused requests

    def go_on(self, refused: Requests) -> None:
        """Let refused requests go on to the next node of their lists: rules L6 and L8."""
        sizes = self.forest.degree[refused.at] + 1
        if self._tree is not None:
            sizes = self._tree.sizes(refused.at) + 1
        for part in in_parts(sizes + np.diff(refused.todo.offsets)) if len(refused) else ():
            list_some = self._list_children if self._tree is None else self._list_tree
            self._go_on(list_some(refused.take(part)))

    def _go_on(self, asks: Requests) -> None:
        """Send requests to the first nodes of their lists; final ones to the parent."""
        forest = self.forest
        to, todo = asks.todo.popped()
        final = to < 0
        if self._tree is None:
            who, stripe = np.divmod(asks.pair, forest.stripes)
            mine = asks.at * forest.stripes + stripe
            parent = forest.parent[mine] // forest.stripes
            able = (parent >= 0) & forest.alive[parent] & (parent != who)
            to = np.where(final & able, parent, to)
            to = np.where(final & forest.root[mine], asks.at, to)
        lost = to < 0
        failed, own = asks.take(lost), asks.pair[lost] // forest.stripes == asks.at[lost]
        self._send(FAIL, failed.pair[~own], failed.at[~own])
        if own.any():  # a node's own FAIL is no message
            rows = {"pair": failed.pair[own], "sender": failed.at[own]}
            self._replies.setdefault(FAIL, []).append(rows)
        due, routed = np.full(len(to), forest.hop + 1), np.zeros(len(to), dtype=bool)
        onward = replace(
            asks, at=to, sender=asks.at, due=due, final=final, routed=routed, todo=todo
        )
        onward = onward.take(~lost)
        away = onward.at != onward.sender
        self._note(
            SUBSCRIBE if self._tree is None else ANYCAST, onward.sender[away], onward.at[away]
        )
        self._requests.append(onward)

    def _list_children(self, refused: Requests) -> Requests:
        """Return SUBSCRIBEs with the children and the parent of their nodes in the lists."""
        forest, count = self.forest, len(refused)
        who, stripe = np.divmod(refused.pair, forest.stripes)
        mine = refused.at * forest.stripes + stripe
        parent = np.where(forest.parent[mine] >= 0, forest.parent[mine] // forest.stripes, NONE)
        row, child = forest.children_lists(mine)
        child //= forest.stripes
        good = forest.alive[child] & (child != who[row]) & (child != parent[row])
        row, child = row[good], child[good]
        numbers = stripe[row], forest.number(who[row]), forest.number(child)
        order = np.lexsort((forest.draw("child", child, *numbers), row))
        row, child = row[order], child[order]
        fits = forest.fits(child, stripe[row])
        has = (parent >= 0) & forest.alive[parent] & (parent != who)
        in_front = has & forest.fits(parent, stripe)
        ends = [Lists.of(row[some], child[some], count) for some in (fits, ~fits)]
        above = [
            Lists.of(np.flatnonzero(some), parent[some], count)
            for some in (in_front, has & ~in_front)
        ]
        nothing = Lists.empty(count)
        front, back = ends[0].with_ends(nothing, above[0]), ends[1].with_ends(above[1], nothing)
        return self._visited(refused, front, back)

    def _visited(self, refused: Requests, front: Lists, back: Lists) -> Requests:
        ends = refused.at, front, back, len(self.forest)
        visited, todo = visit(refused.visited, refused.todo, *ends)
        return replace(refused, visited=visited, todo=todo)

    def _list_tree(self, refused: Requests) -> Requests:
        """Return JOINREQs with the neighbours of their nodes in the spare tree in the lists."""
        forest, tree = self.forest, self._tree
        assert tree is not None
        inside, count = tree.inside[refused.at], len(refused)
        who, stripe = np.divmod(refused.pair, forest.stripes)
        row, child = tree.children(refused.at)
        good = inside[row] & (child != who[row])
        row, child = row[good], child[good]
        numbers = stripe[row], forest.number(who[row]), forest.number(child)
        order = np.lexsort((forest.draw("anycast", child, *numbers), row))
        front = Lists.of(row[order], child[order], count)
        parent = tree.parent[refused.at]
        # one that is outside of the tree and has asked nobody climbs
        begins = np.diff(refused.visited.offsets) == 0
        above = np.flatnonzero((parent >= 0) & (parent != who) & (inside | begins))
        back = Lists.of(above, parent[above], count)
        asked = self._visited(refused, front, back)
        if inside.all():
            return asked
        # a node outside of the tree is not marked
        climbing = replace(refused, todo=refused.todo.with_ends(Lists.empty(count), back))
        return Requests.join(asked.take(inside), climbing.take(~inside))

    # --- 5. nodes that wait

    def ask(self) -> None:
        """Let nodes whose time has come ask for stripes; then nodes join and leave spare trees."""
        forest, rows = self.forest, concatenate(self._waiting)
        now = rows["due"] <= forest.hop
        self._waiting = [take(rows, ~now)]
        if forest.hop >= MOST_HOPS:
            self._waiting, now = [take(rows, now & False)], now & False
        pair, to = rows["pair"][now], rows["to"][now]
        who = pair // forest.stripes
        routed = to == _ROUTE
        self._route(pair[routed], who[routed])
        direct = to >= 0
        ends = pair[direct], to[direct], who[direct]
        self._requests.append(Requests.sent(*ends, forest.hop + 1))
        self._note(SUBSCRIBE, who[direct], to[direct])
        seeks = to == _ANYCAST
        self.counts["anycasts"] += int(np.count_nonzero(seeks))
        if seeks.any():
            ends = pair[seeks], who[seeks], who[seeks]
            self.go_on(Requests.sent(*ends, forest.hop, seeks=True))
        if self._tree is not None:
            self._update_tree(self._tree)

    def _route(self, pair: np.ndarray, start: np.ndarray) -> None:
        """Send SUBSCRIBEs from nodes to the next nodes of the route in the channel: rule L5."""
        forest = self.forest
        who, stripe = np.divmod(pair, forest.stripes)
        to_root = (self._fails[pair] > 0) & (self._tree is not None)
        entry, hops, passed = self.routes.entries(forest, start, stripe, who, to_root)
        some = entry >= 0
        ends = pair[some], entry[some], start[some]
        self._requests.append(Requests.sent(*ends, forest.hop + hops[some], routed=True))
        group = forest.group[who[passed["row"]]]
        self._note_positions(SUBSCRIBE, group, passed["sender"], passed["to"])
        lost = ~some & (start != who)
        self._send(FAIL, pair[lost], start[lost])

    # --- 6. the tree of the spare group

    def _update_tree(self, tree: SpareTree) -> None:
        forest = self.forest
        if not self._routed:
            tree.route(self.routes)
            self._routed = True
        rows, old, new = tree.update()
        ends = forest.group[rows], forest.node[rows]
        for kind, to in ((SPARE_LEAVE, old), (SPARE_JOIN, new)):
            some = to >= 0
            self._note_positions(kind, *(one[some] for one in ends), to[some])
