"""Publications with times and sizes in the rounds of worlds; rules W9 to W12."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clock_worlds import (
    RECODED,
    ROUND_US,
    ROUNDS,
    SLOW,
    WHOLE,
    Queue,
    Scheduled,
    begin,
    case_of,
    often_useless,
    schedule_of,
    systems_of,
)
from in_tasks import Jobs
from oracle import bandwidth as oracle
from world_states import assert_alike

from scribe_spark.bandwidth.setting import INTERLEAVED, SERIAL, Parts
from scribe_spark.config import WorldConfig
from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import InputError
from scribe_spark.rounds.events import ImpossibleRound
from scribe_spark.rounds.system import Multicasts
from scribe_spark.systems.scribe.live import LiveScribe
from scribe_spark.systems.scribe.sources import SentPublications
from scribe_spark.worlds.events import check_world
from tests.world.conftest import Left

#: The systems whose copies do not depend on times; those that flood edges of each source.
TREES = ("scribe", "flooding", "naive_unicast", "bayeux")
FLOODS = ("flooding", "naive_unicast")


# --- alike on all engines and buckets


#: Worlds, and how these are played beside in one task.
ALIKE = {
    "sizes": ({"scheduled": False, "loses": True}, {"buckets": 2, "engine": Jobs, "rounds": 1}),
    "sizes, tasks": ({"scheduled": False}, {"exchange": True, "buckets": 2}),
    "reliable, parts": ({"delivery": "reliable", "parts": Parts(2, 4)}, {"buckets": 7}),
    "recoded": ({"parts": RECODED, "only": ("gossipsub", "flooding", "can")}, {"buckets": 7}),
}


@pytest.mark.parametrize("name", ALIKE)
def test_rounds_with_bandwidth_are_alike_on_all_engines_and_buckets(name: str) -> None:
    world, way = ALIKE[name]

    def play(rounds: int = 2, **given: Any) -> list:
        return begin(5, most=2, **world, **given).play(saves=False, rounds=rounds)

    one = assert_alike(play, way)
    assert any("latency.p99" in measure for measures, *_ in one for measure in measures)


def test_a_saved_world_goes_on_with_its_schedule() -> None:
    """Reliable delivery keeps publications, whose sources send them again in later rounds."""
    given = {"delivery": "reliable", "buckets": 2}
    assert begin(8, **given).play(saves=True) == begin(8, **given).play(saves=False)


# --- refusals, before Spark

SMALL = {"nodes": 40, "groups": 3, "rounds": 2, "round_seconds": 2.0, "leaf_set": 8, "replicas": 2}
EVENTS = "round,node,event,group,time,size"
OF_TABLE = {"events": "t.csv", "message_size": "1KB"}
OF_SCHEDULE = {"schedule": "t.csv", "message_size": "1KB"}

#: Lines of a table, settings -> field, and the end of the message.
REFUSED = {
    "before its round": ([EVENTS, "0,1,publish,1,-1ms,"], OF_TABLE, "events", "such as 5ms"),
    "after its round": ([EVENTS, "0,1,publish,1,2s,"], OF_TABLE, "events", "or a later round"),
    "a size of 0": ([EVENTS, "0,1,publish,1,0,0"], OF_TABLE, "events", "above 0, such as 128KB"),
    "too large": ([EVENTS, "0,1,publish,1,0,2TB"], OF_TABLE, "events", "at most 1TB"),
    "a time of a failure": ([EVENTS, "0,1,fail,,5ms,"], OF_TABLE, "events", "leave the cell empty"),
    "a size of a join": ([EVENTS, "0,1,quit,1,,5"], OF_TABLE, "events", "leave the cell empty"),
    "a size without sizes": ([EVENTS, "0,1,publish,1,,5"], {"events": "t.csv"}, "events",
                             "the size of publications without one"),
    "a dead source": ([EVENTS, "0,1,fail,,,", "1,1,publish,1,1ms,"], OF_TABLE, "events",
                      "let it arrive or recover before"),
    "too slow": ([EVENTS, "0,1,publish,1,,1TB"], {**OF_TABLE, "uplink": "1kbit/s"}, "events",
                 "give a smaller size or a higher rate"),
    "twice without a time": ([EVENTS, *["0,1,publish,1,,"] * 2], OF_TABLE, "events", "keep one"),
    "after the last round": (["time,group,node", "4s,1,3"], OF_SCHEDULE, "schedule",
                             "the last round ends at 4s; give more rounds"),
    "no group": (["time,group,node", "0,9,3"], OF_SCHEDULE, "schedule", "groups are 1 to 3"),
    "not there yet": (["time,group,node", "0,1,39"], {**OF_SCHEDULE, "initial": 39}, "schedule",
                      "let it arrive or recover before"),
    "after the end": ([], {"publications": 3, "interval": "1s"}, "interval", "lasts 2s; give less"),
    "too many": ([], {"publications": 10_000_000}, "publications", "or fewer groups"),
    "said twice": ([], {"publications": 3, "generator": "publications"}, "publications",
                   "leave out one of them"),
    "no groups": ([], {"publications": 3, "groups": 0}, "publications", "give groups or members"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_publication_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, given, field, says = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(lines))
    with pytest.raises(InputError) as refused:
        check_world(WorldConfig(**SMALL | given))
    assert (refused.value.field, "\n" in str(refused.value)) == (field, False)
    assert refused.value.remedy.endswith(says)


def test_a_round_of_ones_own_events_is_refused_before_it_is_played() -> None:
    (first,) = schedule_of(1, case_of(1))[:1]
    for at_us, size, says in ((ROUND_US, 5, "later round"), (-9, 5, "at least 0"), (0, 0, "above")):
        played = begin(1, schedule=[(first[0], at_us, *first[2:4], size)])
        with pytest.raises(ImpossibleRound, match=says):
            played.step(first[0])


# --- the oracle of bandwidth


@pytest.mark.parametrize(
    ("uplink", "shared", "source", "parts"),
    [
        (INTERLEAVED, True, "root", WHOLE),
        (SERIAL, True, "routed", Parts(2, 3)),
        (INTERLEAVED, False, "routed", WHOLE),
        (SERIAL, True, "root", RECODED),
    ],
)
def test_deliveries_are_those_of_an_event_queue(
    uplink: str, shared: bool, source: str, parts: Parts, left: Left,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The copies of a round are links of an event queue, which gives the times of arrivals."""
    monkeypatch.setattr(Parts, "useful", often_useless)
    trees = FLOODS if parts.recoded else TREES if source == "root" else TREES[:-1]
    compared: Counter[str] = Counter()
    later, accepted, begun = 0, list[SentPublications](), LiveScribe._begun
    monkeypatch.setattr(
        LiveScribe, "_begun", lambda self, sent, to: accepted.append(sent) or begun(self, sent, to)
    )
    for seed in range(2 if parts == WHOLE else 1):
        more = {name: one for name, one in systems_of(case_of(seed)).items() if name in TREES}
        links = SLOW | {"uplink": uplink, "shared": shared}
        played = begin(seed, source, links=links, more=more, parts=parts)
        for number in range(ROUNDS):
            played.step(number)
            for system in trees:
                of, got, copies = left[system]
                if not got or not copies:
                    continue
                published = published_in(played, number)
                sent = accepted[-1]
                names = zip(sent.group.tolist(), sent.publication.tolist(), strict=True)
                roots = dict(zip(names, sent.root.tolist(), strict=True))
                tree = published, of, copies, roots if system == "scribe" else {}
                rules = oracle.Rules(uplink, shared, recoded=parts.needed * parts.recoded)
                expected = by_event_queue(played, system, *tree, rules)
                names = ["group", "publication", "node", "hops", "delay_us"]
                rows = zip(*(got[name].tolist() for name in names), strict=True)
                found = {row[:3]: row[3:] for row in rows}
                both = found.keys() & expected.keys()
                assert {key: found[key] for key in both} == {key: expected[key] for key in both}
                if system != "bayeux":  # TREEs bring publications, too
                    assert both == found.keys()
                compared[system] += len(both)
                later += sum(at_us > 0 for at_us, _ in published)
    assert min(compared[one] for one in trees) > 20, compared
    assert later > 20


def published_in(played: Scheduled, number: int) -> list[tuple[int, int]]:
    """Time and size of the publications of a round that access lists allow, in order: W9."""
    groups, known = played.world.groups, played.known
    rows = []
    for at, at_us, group, node, size in played.schedule:
        index = np.searchsorted(groups.number, [group])
        if at == number and groups.allows("multicast", index, known.positions(np.array([node])))[0]:
            rows.append((at_us, group, node, SLOW["size"] if size == NONE else size))
    size = [(row[0], -(-row[3] // played.parts.needed)) for row in sorted(rows)]
    return [one for one in size for _ in range(played.parts.sent)]


def by_event_queue(
    played: Scheduled, system: str, published: list[tuple[int, int]], of: Multicasts,
    copies: Mapping[str, np.ndarray], roots: Mapping[tuple[int, int], int], rules: oracle.Rules,
) -> dict[tuple[int, int, int], tuple[int, int]]:  # fmt: skip
    """(group, publication, node) -> hops and delay of the first copy."""
    columns = (copies[name].tolist() for name in ("group", "publication", "sender", "to"))
    children = defaultdict(list)
    for group, publication, sender, to in zip(*columns, strict=True):
        children[group, publication].append((sender, to))
    queue, sent, names = Queue(played), [], []
    columns = (
        getattr(of, name).tolist()
        for name in ("group", "publication", "start", "delay_us", "number")
    )
    for group, name, start, way_us, number in sorted(
        zip(*columns, strict=True), key=lambda row: row[-1]
    ):
        # 1. each tree, and each source of a system that floods, has places of its own
        topic = (group, start) if system in FLOODS else (group, name)
        at_us, size = published[number]
        links = children[group, name]
        root = roots.get((group, name), start)
        begins = (*topic, int(root != start), start)
        sent.append(oracle.Publication(queue.place(*begins), at_us, size))
        names.append((group, name, topic, int(root != start), way_us * (root != start), at_us))
        if root != start:
            queue.link(begins, (*topic, 0, root), way_us)
        # 2. the copies of the round are the links
        for sender, to in sorted(links, key=lambda ends: ends[1]):
            queue.link((*topic, 0, sender), (*topic, 0, to))
    ident, order = played.known.node, None
    numbers = sorted(of.number.tolist())

    def useful(p: int, y: int, x: int) -> bool:
        ends = ident[[y]], ident[[x]]
        return bool(played.parts.useful(1, np.array([numbers[p]]), *ends)[0])

    if system in FLOODS and system != "naive_unicast":  # which serves its uplink by nodeId

        def order(p: int, y: int, x: int) -> int:
            ends = ident[[y]], ident[[x]]
            return int(draws.bits_np(1, "order", np.array([numbers[p]]), *ends)[0])

    first = queue.play(sent, replace(rules, order=order, to_all=True, useful=useful))
    found = {}
    for p, (group, name, topic, relayed, way_us, at_us) in enumerate(names):
        for place, number in queue.places.items():
            if place[:2] == topic and not place[2] and (p, number) in first:
                came = first[p, number]
                hops, delay_us = came.hops - relayed, came.at_us - at_us - way_us
                found[group, name, place[-1]] = hops, delay_us
    return found
