"""Publications in parts in the rounds of worlds; rules W13 to W16."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from clock_worlds import ROUNDS, SLOW, Scheduled, begin, case_of, schedule_of

from scribe_spark.bandwidth.setting import Parts
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import InputError
from scribe_spark.experiments.world_setup import check_world_run
from scribe_spark.rounds.system import Multicasts, OwnRounds
from scribe_spark.schemas import PUBLICATION_COUNTS
from scribe_spark.systems.gossipsub.gossip import Held
from scribe_spark.systems.gossipsub.mesh import Subscribers
from scribe_spark.systems.gossipsub.round import CountRound
from tests.world.conftest import Left

#: What is counted in messages, parts or not.
OF_MESSAGES = ("first_copies", "duplicates")


def alone(schedule: list[tuple[int, ...]], parts: Parts) -> list[tuple[int, ...]]:
    """The schedule in which each part is a publication of its own."""
    return [
        (*one[:4], -(-(SLOW["size"] if one[4] == NONE else one[4]) // parts.needed))
        for one in schedule
        for _ in range(parts.sent)
    ]


class Had:
    """Which members of a system had which parts, and when: (round, group, publication)."""

    def __init__(self, played: Scheduled, name: str, parts: Parts) -> None:
        self.played, self.name, self.parts = played, name, parts
        self.system = played.protocols.systems.systems[name]
        self.when: dict[tuple[int, int, int], dict] = defaultdict(lambda: defaultdict(list))
        self.members: list[set[tuple[int, int]]] = []
        self.names: dict[tuple[int, int], tuple[int, int, int]] = {}

    def look(self, number: int, of: Multicasts, got: dict[str, np.ndarray]) -> None:
        """Note the deliveries of a round, and the members after it."""
        size, key = len(self.played.known), list[int]()
        rows = zip(of.group.tolist(), of.publication.tolist(), of.number.tolist(), strict=True)
        named = {(group, name): (number, group, n // self.parts.sent) for group, name, n in rows}
        if self.name == "scribe":  # its names tell rounds, and late deliveries come with them
            self.names |= named
        else:
            self.names = named
            starts = zip(named.values(), of.start.tolist(), strict=True)
            for publication, start in starts:
                self.when[publication][start].append(number)
        if got:
            rows = zip(*(got[n].tolist() for n in ("group", "publication", "node")), strict=True)
            for group, name, node in rows:
                if (group, name) in self.names:
                    self.when[self.names[group, name]][node].append(number)
        for tables in self.played.engine.tables:
            own = {name.removeprefix(f"{self.name}/"): tables[name] for name in tables}
            key += self.system.members(own).tolist()
        self.members.append({divmod(one, size) for one in key})

    def counts(self, deadline: int) -> dict[tuple[int, int], Counter]:
        """(round, group) -> the deliveries in time and late."""
        found: dict[tuple[int, int], Counter] = defaultdict(Counter)
        for (number, group, _), of_nodes in self.when.items():
            for node, rounds in of_nodes.items():
                last = min(number + deadline, ROUNDS - 1)
                stays = all((group, node) in self.members[at] for at in range(number, last + 1))
                if stays and len(rounds) >= self.parts.needed:
                    came = sorted(rounds)[self.parts.needed - 1]
                    if came <= last:
                        found[number, group]["in_time" if came == number else "late"] += 1
        return found


def sums_of(done: list[Any], system: str) -> dict[tuple[int, int], Counter]:
    """(round, index of the group) -> counts, of a system's publications."""
    found: dict[tuple[int, int], Counter] = defaultdict(Counter)
    for one in done:
        for row in one.tables["publications"].to_pylist():
            if row["system"] == system:
                sums = found[row["round"], row["group"]]
                sums.update({name: row[name] for name in PUBLICATION_COUNTS})
    return found


def beyond(name: str, of: Multicasts, got: Any, copies: Any, parts: Parts) -> dict[str, float]:
    """The measures of parts beyond those that nodes need, from deliveries and copies."""
    ends = zip(of.group.tolist(), of.publication.tolist(), strict=True)
    number = dict(zip(ends, of.number.tolist(), strict=True))
    size = dict(zip(of.number.tolist(), of.size.tolist(), strict=True))

    def received(table: Any, end: str) -> Iterator[tuple[int, int, int]]:
        columns = (table.get(one, of.group[:0]).tolist() for one in ("group", "publication", end))
        for group, message, node in zip(*columns, strict=True):
            part = number.get((group, message))
            if part is not None:
                yield part // parts.sent, node, part

    first = Counter((p, node) for p, node, _ in set(received(got, "node")))
    sent = Counter((p, node) for p, node, _ in received(copies, "to"))
    more = {one: sent[one] - parts.needed for one in sent if first[one] >= parts.needed}
    if not more:
        return {}
    in_bytes = sum(size[p * parts.sent] * count for (p, _), count in more.items())
    return {
        f"{name}.parts.beyond.mean": sum(more.values()) / len(more),
        f"{name}.parts.beyond.max": max(more.values()),
        f"{name}.parts.bytes_beyond.mean": in_bytes / len(more),
    }


def times_of_messages(
    of: Multicasts, got: Mapping[str, np.ndarray], members: np.ndarray, size: int, parts: Parts
) -> dict[tuple[int, int], list[int]]:
    """(publication, member) -> the delays of its parts, in microseconds since the start."""
    names = zip(of.group.tolist(), of.publication.tolist(), strict=True)
    row, known = {name: at for at, name in enumerate(names)}, set(members.tolist())
    found = defaultdict(list)
    columns = (got[name].tolist() for name in ("group", "publication", "node", "delay_us"))
    for group, publication, node, delay_us in zip(*columns, strict=True):
        at = row.get((group, publication))
        if at is not None and node != of.start[at] and group * size + node in known:
            found[int(of.number[at]) // parts.sent, node].append(int(of.delay_us[at]) + delay_us)
    return found


@pytest.mark.parametrize(
    ("parts", "delivery", "seeds"),
    [
        (Parts(2, 4), "reliable", (1,)),
        pytest.param(Parts(3, 3), "best-effort", (0, 1), marks=pytest.mark.slow),
    ],
)
def test_publications_are_those_with_enough_parts(
    parts: Parts, delivery: str, seeds: tuple[int, ...], left: Left
) -> None:
    """Copies are lost part by part; in another world, each part is a publication of its own."""
    seen: dict[str, Counter] = defaultdict(Counter)
    for seed in seeds:
        world = case_of(seed, delivery=delivery)
        deadline, schedule = world.config.scribe.deadline, schedule_of(seed, world, most=2)
        given: dict[str, Any] = {"delivery": delivery, "loses": True}
        played = begin(seed, schedule=schedule, parts=parts, **given)
        other = begin(seed, schedule=alone(schedule, parts), **given)
        systems = played.protocols.systems.systems
        had = {name: Had(played, name, parts) for name in systems}
        done, of_parts = list[Any](), list[Any]()
        for number in range(ROUNDS):
            of_parts.append(other.step(number))
            done.append(played.step(number))
            for name, system in systems.items():
                of, *tables = left[name]
                had[name].look(number, of, tables[0])
                if not system.merged:
                    found = {n: v for n, v in done[-1].measures.items() if f"{name}.parts" in n}
                    assert found == pytest.approx(beyond(name, of, *tables, parts)), (seed, name)
                    seen[name]["beyond"] += len(found)
                table = f"{name}/{system.member_table}"
                members = played.engine.gather(table).get(table)
                if members is None or not tables[0]:
                    continue
                times = times_of_messages(of, tables[0], members["key"], len(played.known), parts)
                waits = sorted(
                    sorted(of)[parts.needed - 1] for of in times.values() if len(of) >= parts.needed
                )
                for q in (50, 99) if waits else ():
                    nearest = waits[-(-q * len(waits) // 100) - 1]
                    assert done[-1].measures[f"{name}.latency.p{q}"] == nearest / 1000, (seed, name)
                seen[name]["waits"] += len(waits)
        for name in systems:
            mine, theirs, wanted = sums_of(done, name), sums_of(of_parts, name), had[name]
            counts = wanted.counts(deadline)
            assert mine.keys() == theirs.keys()
            for key, sums in mine.items():
                # IP multicast sends as many parts as are needed (W14)
                share = parts.needed / parts.sent if systems[name].merged else 1
                assert [sums[n] for n in OF_MESSAGES] == [
                    share * theirs[key][n] for n in OF_MESSAGES
                ]
                for of in ("expected", "due"):
                    assert parts.sent * sums[of] == theirs[key][of], (seed, name, key)
                index = int(np.searchsorted(played.world.groups.number, key[1]))
                got = counts[key[0], index]
                assert sums["in_time"] == got["in_time"], (seed, name, key)
                if name == "scribe":
                    assert sums["late"] == got["late"], (seed, key)
                missing = sums["expected"] - sums["in_time"] - sums["late"]
                assert sums["lost"] + sums["open"] == missing
                seen[name].update(sums)
    for name, sums in seen.items():
        assert min(sums["in_time"], sums["waits"]) > 20, name
        assert (sums["beyond"] > 5) == (name != "ip_multicast")
    assert seen["flooding"]["open"] > 1
    assert (seen["scribe"]["late"] > 0) == (delivery == "reliable")


def test_late_parts_complete_late_publications() -> None:
    """GossipSub's counts are those of the k-th part at each member, by the definition."""
    rng = np.random.default_rng(1)
    for parts in (Parts(1, 1), Parts(3, 3), Parts(2, 4)):
        size, nodes = 40, np.arange(30)
        count = 5 * parts.sent
        topic = np.repeat(rng.integers(0, 2, 5), parts.sent)
        heard = np.repeat([4, 4, 5, 6, 9], parts.sent)
        members = np.sort(np.concatenate([one * size + nodes for one in (0, 1)]))
        joined = rng.integers(0, 9, len(members))
        pairs = np.flatnonzero(rng.random(count * size) < 0.8)
        held = Held(pairs, heard[pairs // size] + rng.integers(0, 4, len(pairs)), 0 * pairs)
        counted = np.arange(parts.sent, count)  # but the first publication
        of: Any = SimpleNamespace(
            messages=SimpleNamespace(topic=topic), counted=counted, published=heard,
            topics=SimpleNamespace(now=SimpleNamespace(own=OwnRounds(3, 1), parts=parts)),
            heartbeat=20, _size=size,
        )  # fmt: skip
        found = CountRound._outcomes(of, Subscribers(members, joined), held)
        when = dict(zip(held.key.tolist(), held.round.tolist(), strict=True))
        wanted = {name: Counter() for name in found}
        for first in range(parts.sent, count, parts.sent):
            for place, since in zip(members.tolist(), joined.tolist(), strict=True):
                if place // size != topic[first] or since > heard[first]:
                    continue
                wanted["expected"][first] += 1
                keys = ((first + n) * size + place % size for n in range(parts.sent))
                rounds = sorted(when[key] // 3 for key in keys if key in when)
                if len(rounds) >= parts.needed:
                    late = rounds[parts.needed - 1] > heard[first] // 3
                    wanted["late" if late else "in_time"][first] += 1
        for name, counts in found.items():
            assert {at: n for at, n in enumerate(counts.tolist()) if n} == dict(wanted[name]), name
            assert counts.sum() > 3


def test_worlds_refuse_systems_whose_nodes_do_not_recode(tmp_path: Path) -> None:
    given: dict[str, Any] = {"nodes": 40, "groups": 3, "rounds": 2, "leaf_set": 8, "replicas": 2}
    given |= {"message_size": "1KB", "parts": 2, "code": "rlnc", "generator": "publications"}
    execution = Execution(out=str(tmp_path / "out"))
    check_world_run(WorldConfig(**given, systems="gossipsub,flooding,nice"), execution)
    for system in ("scribe", "bayeux", "plumtree", "splitstream"):
        with pytest.raises(InputError, match=f"with {system}, whose nodes do not recode in worlds"):
            check_world_run(WorldConfig(**given, systems=system), execution)
