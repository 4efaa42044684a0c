"""``python -m benchmarks.reacting [--sizes 10000,100000]``: GossipSub on a clock that reacts.

The case of `benchmarks.bandwidth` is played by one process in three ways: by the clock that holds
copies back; with IDONTWANTs as control messages that are due when they arrive, in windows of the
least delay; and, in these windows, with all events of a node in turns, as `scribe_spark.clock`
plays them.  All three leave the same copies; the ratio of their times decides whether GossipSub
needs a clock of its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from unittest import mock

import numpy as np

from benchmarks.bandwidth import _links, _setting
from scribe_spark.bandwidth import COPIES, LINKS, bucket, play_windows, windows
from scribe_spark.bandwidth.bucket import ClockBucket
from scribe_spark.bandwidth.queues import Calendar
from scribe_spark.core.arrays import index_in_run, run_starts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import AT, Tables

__all__ = ["main"]


class _Due(ClockBucket):
    """IDONTWANTs are control messages, which are due when they arrive."""

    def begin(self, answered: Columns | None, window_us: int, least_delay_us: int) -> None:
        super().begin(answered, least_delay_us, least_delay_us)
        self._told = Calendar(bucket._UNWANTED_WIDTH, np.int32)

    def first_window(self) -> int | None:
        found = [one for one in (super().first_window(), self._told.first()) if one is not None]
        return min(found, default=None)

    def take_told(self, told: np.ndarray) -> None:
        self._told.add(bucket._times(told)[:, 0] // self.window_us, told)

    def receive(self, window: int, copies: np.ndarray | None) -> dict[str, np.ndarray]:
        unwanted = super().receive(window, copies)
        told = self._told.take(window)
        if len(told):
            link = self._back[told[:, bucket._TO]]
            self._know(told[:, bucket._OF], link, bucket._times(told)[:, 0])
        return unwanted


class _InTurns(_Due):
    """The events of a place are played one after the other, in the order of time and sender."""

    def receive(self, window: int, copies: np.ndarray | None) -> dict[str, np.ndarray]:
        if copies is not None:
            copies = copies.copy() if not copies.flags.writeable else copies
            copies[:, bucket._PLACE] = self._to_place[copies[:, bucket._LINK]]
            self._coming.add(self.due(copies), copies)
        self._scan(window, self._coming.take(window))
        came, told = self._complete.take(window), self._told.take(window)
        if not len(came) and not len(told):
            return {}
        # 1. one order of all events
        link = np.concatenate([came[:, bucket._LINK], told[:, bucket._TO]])
        at_us = np.concatenate([bucket._times(came)[:, bucket._ENDS], bucket._times(told)[:, 0]])
        place = self._to_place[link]
        hops = np.concatenate([came[:, bucket._HOPS], np.zeros(len(told), dtype=np.int32)])
        order = order_of(place, at_us - at_us.min(), hops, self._from[link])  # as in rule W6
        turn = index_in_run(place[order])
        in_turn = order_of(turn * 2 + (order >= len(came)))
        part = (turn * 2 + (order >= len(came)))[in_turn]
        row, starts = order[in_turn], run_starts(part)
        ends = np.append(starts[1:], len(row)).tolist()
        firsts, parts = [], []
        # 2. a turn plays one event of each place
        for kind, a, b in zip((part[starts] % 2).tolist(), starts.tolist(), ends, strict=True):
            some = row[a:b]
            if kind:
                some = told.take(some - len(came), axis=0)
                self._know(
                    some[:, bucket._OF],
                    self._back[some[:, bucket._TO]],
                    bucket._times(some)[:, 0],
                )
                continue
            rows = came.take(some, axis=0)
            self._note(rows)
            firsts.append(self._firsts(rows))
            parts.append(self._unwanted(firsts[-1]))
        parts = [one for one in parts if one]
        return (
            {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
            if parts
            else {}
        )


class _Playing(windows._Playing):
    """One superstep a window: IDONTWANTs leave together with the copies."""

    def _play(self):
        bucket_, links = self.bucket, self.bucket.links
        delay_us = self._to_all("delay_us", int(links.delay_us.min()))
        offer = {AT: links.peer, **bucket_.offer()}
        inbox = yield {windows._OFFER: offer, windows._DELAY: delay_us}
        offered = inbox[windows._OFFER]
        answer = bucket_.answer(offered[AT], offered)
        least = int(inbox[windows._DELAY]["delay_us"].min())
        inbox = yield {windows._ANSWER: {AT: offered["tail"], **answer}}
        bucket_.begin(inbox.get(windows._ANSWER), least, least)
        sent, due = {}, windows._NEVER
        self.count = 0
        while True:
            found = bucket_.first_window()
            own = windows._NEVER if found is None else found
            inbox = yield {windows._NEXT: self._to_all("window", min(due, own)), **sent}
            window = int(inbox[windows._NEXT]["window"].min())
            if window == windows._NEVER:
                return
            copies = inbox[windows._COPY]["copy"] if windows._COPY in inbox else None
            if windows._UNWANTED in inbox:
                bucket_.take_told(inbox[windows._UNWANTED]["told"])
            unwanted = bucket_.receive(window, copies)
            peer, copies = bucket_.send(window, None)
            due = int(bucket_.due(copies).min(initial=windows._NEVER))
            sent = {windows._COPY: {AT: peer, "copy": copies}}
            if unwanted:
                at = bucket._times(unwanted["told"])[:, 0] // bucket_.window_us
                due = min(due, int(at.min(initial=windows._NEVER)))
                sent[windows._UNWANTED] = windows._at_peers(unwanted)


def _seconds(nodes: int, kind: type[ClockBucket], playing: type) -> tuple[float, float, Columns]:
    """Return the seconds (of the clock, of the process) that a way takes, and the copies."""
    links, source = _links(nodes, 0, nodes)
    tables = Tables.of({LINKS: links})
    del links
    with (
        mock.patch.object(windows, "ClockBucket", kind),
        mock.patch.object(windows, "_Playing", playing),
    ):
        begun, cpu = time.perf_counter(), time.process_time()
        play_windows(InTask([tables]), np.array([0, nodes]), _setting(nodes, source))
        return time.perf_counter() - begun, time.process_time() - cpu, tables[COPIES]


def _sorted(copies: Columns) -> list[np.ndarray]:
    order = np.lexsort([copies[name] for name in ("sent_us", "sender", "node", "publication")])
    return [copies[name][order] for name in sorted(copies)]


_WAYS = {
    "holds back": (ClockBucket, windows._Playing),
    "IDONTWANT is due": (_Due, _Playing),
    "in turns": (_InTurns, _Playing),
}


def main(arguments: Sequence[str]) -> int:
    """Print a row for each size and way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reacting", allow_abbrev=False)
    parser.add_argument("--sizes", default="10000,100000", metavar="N,N,...")
    parser.add_argument("--pairs", type=int, default=3, help="times that each way is played [3]")
    given = parser.parse_args(arguments)
    for nodes in map(int, given.sizes.split(",")):
        found: dict[str, list[float]] = {name: [] for name in _WAYS}
        expected = None
        for _ in range(given.pairs):
            for name, (kind, playing) in _WAYS.items():
                _, cpu, copies = _seconds(nodes, kind, playing)
                found[name].append(cpu)
                rows = _sorted(copies)
                expected = rows if expected is None else expected
                same = all(map(np.array_equal, rows, expected))
                assert same, name
        least = {name: min(seconds) for name, seconds in found.items()}
        for name, seconds in least.items():
            ratio = seconds / least["holds back"]
            print(f"{nodes:>9,} | {name:>18} | {seconds:6.2f} s | {ratio:5.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
