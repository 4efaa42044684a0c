"""Put faults into every room of the package, one after the other, and see tests fail.

Usage: ``python -m tools.try_faults [WORD ...]``: all faults, or those with a word in their
names.  The package and its tests are copied into a
temporary folder, where one line is changed; exit code 1 if a fault slips through.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FAULTS", "Fault", "main"]

ROOT = Path(__file__).resolve().parent.parent

ARRIVALS = "tests/pastry/test_arrivals_one_task.py"
WORLD = "tests/pastry/test_living_round.py"
TREES = "tests/scribe/test_trees.py"
GROUPS = "tests/scribe_living/test_scribe_round.py"
OVERLAYS = "tests/world/test_group_overlays.py"
USERS = "tests/world/test_users_system.py"
GOSSIP = "tests/gossipsub/test_world.py"
BAYEUX = "tests/bayeux/test_world.py"
MULTICASTS = "tests/scribe_living/test_multicast_measures.py"
CLOCK = "tests/bandwidth/test_kernel.py"
REACTS = "tests/plumtree/test_equals_oracle.py"


_PATIENCE = 600  # seconds


@dataclass(frozen=True)
class Fault:
    """One line of the package, what it is changed to, and a file of tests that shall notice."""

    file: str
    right: str
    wrong: str
    tests: str


FAULTS = {
    # Pastry and Scribe
    "a tie": Fault(
        "pastry/arrivals/cell_offers.py",
        "((delay == to_beat) & (position < present))",
        "((delay == to_beat) & (position > present))",
        ARRIVALS,
    ),
    "a hop to a dead node": Fault(
        "pastry/next_hop.py", "usable = is_alive(entry)", "usable = entry >= 0", WORLD
    ),
    "a digit": Fault(
        "pastry/next_hop.py",
        "column = ids.digit_at_np(keys.hi, keys.lo, row, b)",
        "column = ids.digit_at_np(keys.hi, keys.lo, np.maximum(row - 1, 0), b)",
        ARRIVALS,
    ),
    "a lost message": Fault(
        "engine/program.py",
        "for rows in np.split(order, cuts):",
        "for rows in np.split(order, cuts)[:3]:",
        TREES,
    ),
    "an off-by-one in l/2": Fault(
        "pastry/arrivals/leaf_offers.py", "(order < half)", "(order < half - 1)", ARRIVALS
    ),
    "a stale parent": Fault(
        "scribe/leave.py",
        "entries.parent[rows], entries.cause[rows] = NONE, cause(why)",
        "entries.cause[rows] = cause(why)",
        GROUPS,
    ),
    "a missed replica": Fault(
        "scribe/replicas.py",
        "[:, : scribe.rules.replicas - 1]",
        "[:, : scribe.rules.replicas - 2]",
        GROUPS,
    ),
    "a wrong root": Fault(
        "scribe/create.py",
        'came["group"], came["creator"], came[AT])',
        'came["group"], came["creator"], np.maximum(came[AT] - 1, 0))',
        TREES,
    ),
    "a dropped duplicate": Fault(
        "pastry/arrivals/announcements.py",
        "np.flatnonzero(cells[one, cell_of_leaf] != leaf)",
        "np.flatnonzero(cells[one, cell_of_leaf] != -2)",
        ARRIVALS,
    ),
    "an unsorted merge": Fault(
        "core/arrays.py",
        "order = slice(None) if (keys[1:] > keys[:-1]).all() else np.argsort(keys)\n",
        "order = slice(None)\n",
        TREES,
    ),
    "a leaf set that is taken for complete": Fault(
        "pastry/arrivals/leaf_offers.py",
        "lacks |= near > ((held >= 0)",
        "lacks |= near > 1 + ((held >= 0)",
        ARRIVALS,
    ),
    "a row that misses a bucket": Fault(
        "engine/program.py",
        "for first, last in itertools.pairwise(bounds.tolist()):\n        greatest",
        "for first, last in itertools.pairwise(bounds.tolist()[:-1]):\n        greatest",
        ARRIVALS,
    ),
    "siblings that take each other in": Fault(
        "scribe/rejoin.py",
        '(mine["turn"][row] < came["turn"])',
        '(mine["turn"][row] > came["turn"])',
        GROUPS,
    ),
    "a cycle of those that wait": Fault(
        "scribe/rejoin.py",
        "waits & (number[at] > number[source])",
        "waits & (number[at] < number[source])",
        GROUPS,
    ),
    "lazy growth above the limit": Fault(
        "scribe/lazy.py",
        "taken = rank_at_node(at, group, number[source]) < room",
        "taken = rank_at_node(at, group, number[source]) <= room",
        GROUPS,
    ),
    # CAN
    "a half with the wrong point": Fault(
        "can/zones.py",
        "upper[starts] = ~upper[starts + 1]",
        "upper[starts] = upper[starts + 1]",
        "tests/can/test_can_zones.py",
    ),
    "a wrong neighbour of equal distance": Fault(
        "can/zones.py",
        "np.lexsort((zones.node[asked[best]], message[best]))",
        "np.lexsort((-zones.node[asked[best]], message[best]))",
        "tests/can/test_can_oracle.py",
    ),
    "a torus that is cut open": Fault(
        "can/zones.py",
        "away = np.minimum(far - ahead, ahead - side[depth]) + 1",
        "away = np.maximum(ahead - side[depth], -1) + 1",
        "tests/can/test_can_oracle.py",
    ),
    "a flood back along a dimension": Fault(
        "can/multicast.py",
        "(face >> 1 < came >> 1)",
        "(face >> 1 > came >> 1)",
        "tests/can/test_can_oracle.py",
    ),
    "a flood past the middle": Fault(
        "can/multicast.py",
        "kept = gone < places // 2",
        "kept = gone <= places // 2",
        "tests/can/test_can_oracle.py",
    ),
    # Bayeux
    "a JOIN by another surrogate": Fault(
        "bayeux/sessions.py",
        "order = (wanted[:, None] + np.arange(base)) % base",
        "order = (wanted[:, None] - np.arange(base)) % base",
        "tests/bayeux/test_bayeux.py",
    ),
    "a PRUNE that keeps the member": Fault(
        "bayeux/protocol.py",
        'lists.number[row[there]] <= came["number"][there]',
        'lists.number[row[there]] < came["number"][there]',
        "tests/bayeux/test_world.py",
    ),
    "a repair that drops members": Fault(
        "bayeux/live.py",
        "failed = take(failed, ~self._reached(tables, failed))",
        "failed = take(failed, self._reached(tables, failed))",
        "tests/bayeux/test_world.py",
    ),
    "a TREE that is recorded backwards": Fault(
        "bayeux/protocol.py",
        "np.roll(node, -1))",
        "np.roll(node, 1))",
        "tests/bayeux/test_world.py",
    ),
    "a table hop by a dead node": Fault(
        "bayeux/sessions.py",
        "rest = np.flatnonzero(~is_alive(onward))",
        "rest = np.flatnonzero(onward < 0)",
        "tests/bayeux/test_world.py",
    ),
    # GossipSub
    "a PRUNE of outbound peers": Fault(
        "gossipsub/router.py",
        "order = np.lexsort((~quota, of))",
        "order = np.lexsort((quota, of))",
        "tests/gossipsub/test_run.py",
    ),
    "a PRUNE without a back-off": Fault(
        "gossipsub/router.py",
        "self.take_back_off(key, heartbeat + rules.prune_backoff)",
        "self.take_back_off(key, heartbeat)",
        "tests/gossipsub/test_world.py",
    ),
    "a GRAFT into a full mesh": Fault(
        "gossipsub/router.py",
        "full = before >= self._wished(places)",
        "full = before > self._wished(places)",
        "tests/gossipsub/test_run.py",
    ),
    "a GRAFT too many": Fault(
        "gossipsub/router.py",
        "few = degree < wished.low",
        "few = degree <= wished.low",
        "tests/gossipsub/test_run.py",
    ),
    "a later copy that is the first": Fault(
        "gossipsub/publication.py",
        "(at[some], hops[some], sender[some])",
        "(at[some], sender[some], hops[some])",
        "tests/gossipsub/test_run.py",
    ),
    "an IDONTWANT to the sender": Fault(
        "gossipsub/publication.py",
        "told = peer != arrivals.sender[own[of]]",
        "told = peer >= 0",
        "tests/gossipsub/test_run.py",
    ),
    "a link that was dialled twice": Fault(
        "gossipsub/router.py",
        "(way & DIALLED) << 1 | (way & WAS_DIALLED) >> 1",
        "(way & DIALLED) | (way & WAS_DIALLED) >> 1",
        "tests/gossipsub/test_run.py",
    ),
    # flooding
    "a flood without a range": Fault(
        "flooding/flood.py",
        "fits &= row <= _most_shared(ring, at, b)[message]",
        "fits &= row < _most_shared(ring, at, b)[message]",
        "tests/flooding/test_flooding.py",
    ),
    "a flood with an early clock": Fault(
        "flooding/flood.py",
        '"sent_us": came["at_us"][message]',
        '"sent_us": came["sent_us"][message]',
        "tests/flooding/test_flooding.py",
    ),
    # overlays of groups in rounds, and systems of users
    "a round that forgets who is silent": Fault(
        "rounds/group_overlays.py",
        "silent = silent[~alive[silent % size] & ~known[silent % size]]",
        "silent = silent[:0]",
        OVERLAYS,
    ),
    "a round in which the dead forward": Fault(
        "rounds/group_overlays.py",
        "return take(sent, round.lives.alive[sent[AT]])",
        "return sent",
        OVERLAYS,
    ),
    "a round whose quitters stay": Fault(
        "rounds/group_overlays.py",
        "lives & (find_sorted(quits, members) < 0)",
        "lives & (find_sorted(quits, members) < 9)",
        OVERLAYS,
    ),
    "a round whose first receivers count as duplicates": Fault(
        "rounds/group_overlays.py",
        '"again": group[~first]',
        '"again": group[first]',
        OVERLAYS,
    ),
    "a round whose flood skips rows": Fault(
        "flooding/live.py", "at * rows + came + 1)", "at * rows + came + 2)", OVERLAYS
    ),
    "a round of CAN whose shallow zones know no deeper ones": Fault(
        "can/live.py",
        "deeper = zones.depth[neighbour] < zones.depth[zone]",
        "deeper = zones.depth[neighbour] > zones.depth[zone]",
        OVERLAYS,
    ),
    "a round that is due too early": Fault(
        "rounds/pending.py",
        "due = expected.key < (last + 1) * groups * size",
        "due = expected.key < (last + 2) * groups * size",
        OVERLAYS,
    ),
    "a delivery that is lost before its deadline": Fault(
        "rounds/system.py",
        "published <= last_due",
        "published <= last_due + 1",
        "tests/world/test_accounts.py",
    ),
    "a first copy that is not counted": Fault(
        "gossipsub/round.py",
        'self._by_message(one["message"][first])',
        'self._by_message(one["message"][first][1:])',
        GOSSIP,
    ),
    "a round 0 whose sources are delivered to": Fault(
        "measures/multicasts.py",
        "own = own[node[own] != multicasts.start[of[own]]]",
        "own = own[node[own] >= 0]",
        BAYEUX,
    ),
    "a round 0 that mistakes receivers": Fault(
        "experiments/round_in_run.py", '"receiver": sent["to"]', '"receiver": sent["sender"]', USERS
    ),
    "a section that no config knows": Fault(
        "config/sectioned.py",
        "self._outside = {name: one for name, one in made.items() if name not in fields}",
        "self._outside = {}",
        USERS,
    ),
    # the clock with bandwidth
    "an uplink that copies do not share": Fault(
        "bandwidth/queues.py", "spans_us = spans_us * count[of]", "spans_us = 1 * spans_us", CLOCK
    ),
    "an IDONTWANT that comes too late": Fault(
        "bandwidth/queues.py",
        "known(publication[of], link) >= at_us[of]",
        "known(publication[of], link) > at_us[of]",
        CLOCK,
    ),
    "a downlink that is free too early": Fault(
        "bandwidth/queues.py",
        "= done[starts + count - 1]",
        "= done[starts]",
        CLOCK,
    ),
    "a source that validates": Fault(
        "bandwidth/bucket.py",
        "np.where(first[:, _HOPS] > 0, given.nodes.validation_us[node], 0)",
        "np.where(first[:, _HOPS] >= 0, given.nodes.validation_us[node], 0)",
        CLOCK,
    ),
    "an IDONTWANT for a small publication": Fault(
        "bandwidth/bucket.py",
        "self.given.publications.size[first[:, _PUBLICATION]] >= least",
        "self.given.publications.size[first[:, _PUBLICATION]] >= least - 1",
        CLOCK,
    ),
    # measures
    "an RMD of the nearest member": Fault(
        "measures/formulas.py",
        '(np.maximum if name.endswith("most")',
        '(np.minimum if name.endswith("most")',
        "tests/measures/test_measures.py",
    ),
    "a packet for each child of IP multicast": Fault(
        "measures/stress.py",
        "one = np.ones_like(of) if weight is None else weight[of]",
        "one = count if weight is None else weight[of]",
        "tests/measures/test_measures.py",
    ),
    "a first copy that is a duplicate": Fault(
        "measures/copies.py",
        'late = added["copies"] - added["first"]',
        'late = 1 * added["copies"]',
        "tests/measures/test_copies.py",
    ),
    "an RDP of other members": Fault(
        "measures/delay.py",
        "take(theirs, order[at[there]])",
        "take(theirs, order[at[there]][::-1])",
        "tests/measures/test_measures.py",
    ),
    "a bound of RDP that is included": Fault(
        "measures/formulas.py",
        "ratio < int(bound * 10**9)",
        "ratio <= int(bound * 10**9)",
        "tests/measures/test_measures.py",
    ),
    # the reference tree
    "a tree that meets too low": Fault(
        "reference_tree/pruned_trees.py",
        "met = (hosts == 1) & (highest >= level)",
        "met = hosts == 1",
        "tests/reference_tree/test_pruned_trees.py",
    ),
    "copies towards the source": Fault(
        "reference_tree/pruned_trees.py",
        "upwards = self.to_source[lower]",
        "upwards = ~self.to_source[lower]",
        "tests/reference_tree/test_pruned_trees.py",
    ),
    "a child too few": Fault(
        "reference_tree/topmost.py",
        "node >= first, index < above.last_index()",
        "node >= first, index < above.last_index() - 1",
        "tests/reference_tree/test_search.py",
    ),
    "a topmost key across zero": Fault(
        "reference_tree/topmost.py",
        "take_low = of_begun & (~of_ended | wraps[rows])",
        "take_low = of_begun & ~of_ended",
        "tests/reference_tree/test_search.py",
    ),
    # the exchange between tasks
    "a message of another swap": Fault(
        "engine/between_tasks.py",
        "if other != swap:",
        "if other < 0:",
        "tests/engine/test_exchange_between_tasks.py",
    ),
    "a consequence that hides the cause": Fault(
        "engine/between_tasks.py",
        "return error.ended",
        "return cls(error.ended.why, rank, error.ended.line)",
        "tests/engine/test_exchange_between_tasks.py",
    ),
    "a token for everybody": Fault(
        "engine/flight.py",
        'hmac.digest(secret, self.nonce.encode(), "sha256").hex()',
        'hmac.digest(b"", self.nonce.encode(), "sha256").hex()',
        "tests/engine/test_exchange_between_tasks.py",
    ),
    "a number that does not fit": Fault(
        "engine/packing.py",
        "if info.min <= least and most <= info.max:",
        "if info.min <= least and most <= info.max + 1:",
        "tests/engine/test_packing.py",
    ),
    # worlds and their views
    "a leaf set from the wrong side": Fault(
        "worlds/views.py",
        "place = np.where(column < half, column + 1, half - 1 - column)",
        "place = np.where(column < half, half - 1 - column, column + 1)",
        "tests/world/test_world.py",
    ),
    "a child that is its parent's parent": Fault(
        "worlds/views.py",
        'children["key"], ("group", "parent", "child")',
        'children["key"], ("group", "child", "parent")',
        "tests/world/test_world_groups.py",
    ),
    "a parent that is missing": Fault(
        "engine/views.py",
        "unknown = index < 0",
        "unknown = index < -1",
        "tests/engine/test_views.py",
    ),
    "a bucket that knows one host beyond its end": Fault(
        "reference_tree/hash_table.py",
        "_EACH_END = 2",
        "_EACH_END = 1",
        "tests/reference_tree/test_buckets.py",
    ),
    "a steady state that is too early": Fault(
        "worlds/steady.py",
        "mean, later = _mean(line[begin : begin + window]), _mean(line[begin + window :])",
        "mean, later = _mean(line[begin : begin + window]), _mean(line[begin:])",
        "tests/world/test_steady.py",
    ),
    "a node that fails before it comes": Fault(
        "worlds/churn.py",
        "at = np.maximum(at + 1, np.minimum(time, rounds).astype(np.int64))",
        "at = np.maximum(at, np.minimum(time, rounds).astype(np.int64))",
        "tests/world/test_generators.py",
    ),
    # the network
    "a bridge too many": Fault(
        "underlay/pendant.py",
        "if low[here] > visited[above]:",
        "if low[here] >= visited[above]:",
        "tests/underlay/test_pendant.py",
    ),
    "a nearest router behind the bridge": Fault(
        "underlay/nearest.py",
        "found = np.where(outside, first, second)",
        "found = np.where(outside, first, first)",
        "tests/underlay/test_nearest.py",
    ),
    "a delay that is cut off": Fault(
        "topology/transit_stub.py",
        "np.floor(np.hypot(across[:, 0], across[:, 1]) + 0.5)",
        "np.floor(np.hypot(across[:, 0], across[:, 1]))",
        "tests/topology/test_transit_stub.py",
    ),
    "a stub without routers": Fault(
        "topology/transit_stub.py",
        "if counts[giver] > 1:",
        "if counts[giver] > 0:",
        "tests/topology/test_transit_stub.py",
    ),
    "the time of a heartbeat": Fault(
        "gossipsub/round.py", "got.at + self.elapsed_us", "got.at + 0", GOSSIP
    ),
    "the way before a heartbeat": Fault(
        "gossipsub/round.py",
        'noted["delay_us"][order[row[row >= 0]]]',
        '0 * noted["delay_us"][order[row[row >= 0]]]',
        GOSSIP,
    ),
    "a TREE before a copy": Fault(
        "bayeux/live.py", '(by_tree, got["delay_us"]', '(0 * by_tree, got["delay_us"]', BAYEUX
    ),
    "the way to a sender of TREEs": Fault(
        "bayeux/live.py", '"delay_us": heard["at_us"][of]', '"delay_us": 0 * row', BAYEUX
    ),
    "a node that only forwards": Fault(
        "measures/multicasts.py",
        "find_sorted(self.members(tables), place) >= 0",
        "find_sorted(self.members(tables), place) >= -1",
        BAYEUX,
    ),
    "RAD of another group": Fault(
        "measures/multicasts.py", "values[largest] for", "values[0] for", MULTICASTS
    ),
    "the greatest delay by IP multicast": Fault(
        "measures/formulas.py", 'name.endswith("most")', 'name == "most"', MULTICASTS
    ),
    "a node without children": Fault(
        "measures/multicasts.py", "values.mean(live)", "values.mean()", MULTICASTS
    ),
    # the clock that reacts, HyParView and Plumtree
    "reacting: events of a moment in the order of sending": Fault(
        "clock/bucket.py", "sender = rows[:, SENDER] - COMMAND", "sender = 0 * rows[:, 3]", REACTS
    ),
    "reacting: a message to a dead node that does not return": Fault(
        "clock/bucket.py",
        "self._return(number, rows[~alive])",
        "self._return(number, rows[:0])",
        REACTS,
    ),
    "reacting: a window that a message is too late for": Fault(
        "clock/windows.py",
        "own = min(due, _NEVER if found is None else found)",
        "own = _NEVER if found is None else found",
        REACTS,
    ),
    "reacting: a draw that is the same for all senders": Fault(
        "clock/kernel.py",
        "purpose, self.time_us, self.node, self.sender)",
        "purpose, self.time_us, self.node, 0 * self.sender)",
        REACTS,
    ),
    "reacting: a newcomer that is asked and taken in": Fault(
        "plumtree/hyparview.py",
        'last.take(~has & (self._asked[last.place] != last["newcomer"]))',
        "last.take(~has)",
        REACTS,
    ),
    "reacting: a round of requests that a living neighbour begins": Fault(
        "plumtree/hyparview.py",
        "self._asks[events.place] *= alive",
        "self._asks[events.place] = 0",
        REACTS,
    ),
    "reacting: a node that refused and is asked again": Fault(
        "plumtree/hyparview.py",
        "self._refused[events.place[row], slot] = True",
        "self._refused[events.place[row], slot] |= False",
        REACTS,
    ),
    "reacting: an entry that was sent and stays": Fault(
        "plumtree/hyparview.py",
        "if sent is not None and self.rules.membership == PAPER:",
        "if sent is not None and self.rules.membership == IROH:",
        REACTS,
    ),
    "reacting: a shuffle that goes too far": Fault(
        "plumtree/hyparview.py",
        "(1 if self.rules.membership == PAPER else 0)",
        "(0 if self.rules.membership == PAPER else 0)",
        REACTS,
    ),
    "reacting: the timer of another request": Fault(
        "plumtree/hyparview.py",
        "& (self._asked_us[ends.place] == since)",
        "& (since == since)",
        REACTS,
    ),
    "reacting: what a former neighbour announced": Fault(
        "clock/slots.py",
        "self.tenancy[place, slot] += 1",
        "self.tenancy[place, slot] += 0",
        REACTS,
    ),
    "reacting: copies in vain of a former neighbour": Fault(
        "clock/slots.py",
        "flags[place, slot] = 0",
        "flags[place, slot] *= flags.dtype != bool",
        REACTS,
    ),
    "reacting: an announcement at the end of a batch": Fault(
        "plumtree/plumtree.py", "& (now >= batch_us)", "& (now > batch_us)", REACTS
    ),
    "reacting: the round that iroh compares": Fault(
        "plumtree/plumtree.py",
        'copies["round"] + (self.rules.rules == IROH)',
        'copies["round"] + 0 * (self.rules.rules == IROH)',
        REACTS,
    ),
    "reacting: a payload that is kept too long": Fault(
        "plumtree/plumtree.py",
        '(asks.time_us - got_us <= self.rules.us["keep"])',
        "(asks.time_us >= got_us)",
        REACTS,
    ),
    "reacting: a sender that stays lazy": Fault(
        "plumtree/plumtree.py",
        'self.neighbours.mark("lazy", copies.place, sender, False)',
        'self.neighbours.mark("lazy", copies.place, sender, True)',
        REACTS,
    ),
}


def main(words: list[str]) -> int:
    """Try faults; say what notices each."""
    names = [name for name in FAULTS if not words or any(word in name.split() for word in words)]
    slipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for part in ("scribe_spark", "tests", "tools", "benchmarks", "data", "docs", "jobs"):
            shutil.copytree(ROOT / part, Path(folder, part))
        for file in ("setup.cfg", "pyproject.toml", "pytest.ini"):
            if (ROOT / file).exists():
                shutil.copy(ROOT / file, folder)
        for name in names:
            noticed = _try(FAULTS[name], folder)
            slipped += noticed is None
            print(f"{name}: {noticed or 'SLIPS THROUGH'}", flush=True)
    return int(slipped > 0)


def _try(fault: Fault, folder: str) -> str | None:
    """Return the first test that fails with a fault; None if none does."""
    path = Path(folder, "scribe_spark", fault.file)
    right = path.read_text()
    path.write_text(right.replace(fault.right, fault.wrong))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", fault.tests]
    try:
        told = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE,
            env={**os.environ, "PYTHONPATH": folder},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the tests do not end"
    finally:
        path.write_text(right)
    if told.returncode == 0:
        return None
    lines = [line for line in told.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else told.stdout[-200:] + told.stderr[-200:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
