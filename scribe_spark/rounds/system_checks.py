"""Checks of a user's system in a world: a fault in the results of a round is bad input, told in one
line, also on an executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scribe_spark.core.errors import InputError, in_series, listed, shown
from scribe_spark.engine.program import Tables
from scribe_spark.rounds.system import (
    LivingRound,
    Multicasts,
    Publications,
    SystemOnBuckets,
    SystemPlayer,
    SystemRound,
)


@dataclass(frozen=True)
class CheckedSystem(SystemOnBuckets):
    """A user's system (`system`) whose rounds are checked; a bad one is refused at once.

    `units` are `System.measures_of_worlds`: the measures that a round may have.
    """

    name: str
    system: Any
    units: Mapping[str, str]

    def __post_init__(self) -> None:
        if not isinstance(self.system, SystemOnBuckets):
            kind = type(self.system).__name__
            raise self._fault(f"its world returns a {kind}; return a SystemOnBuckets")
        names = (
            *("kept_in_buckets", "kept", "reads", "member_table", "merged", "building", "state"),
            *("recodes", "notes_failures", "sources_join", "trees_of", "stays"),
        )
        for name in names:
            if not hasattr(self.system, name):
                raise self._fault(f"has no {name}; see rounds.system.SystemOnBuckets")
            vars(self)[name] = getattr(self.system, name)
        for kinds in ("payload", "control"):
            given = getattr(self.system, kinds, None)
            if not isinstance(given, tuple) or not all(
                isinstance(kind, str) and kind for kind in given
            ):
                raise self._fault(
                    f"has {kinds} = {shown(given)}; give a tuple of kinds of messages"
                )
        before = self.rounds_before
        if before is not None and not (isinstance(before, int) and before >= 0):
            raise self._fault(
                f"has rounds_before = {shown(before)}; give a whole number from 0, or None"
            )
        if both := set(self.payload) & set(self.control):
            raise self._fault(
                f"has the kind {shown(min(both))} in payload and in control; give one"
            )

    @property
    def has_trees(self) -> bool:
        return self.system.has_trees

    @property
    def payload(self) -> tuple[str, ...]:
        return self.system.payload

    @property
    def control(self) -> tuple[str, ...]:
        return self.system.control

    @property
    def rounds_before(self) -> int | None:
        return self.system.rounds_before

    def play_round(self, player: SystemPlayer, kept: Tables, now: LivingRound) -> SystemRound:
        done, where = self.system.play_round(player, kept, now), f"round {now.number}"
        if not isinstance(done, SystemRound):
            words = f"play_round returns a {type(done).__name__}, not a SystemRound"
            raise self._fault(f"{where}: {words}")
        self._check_measures({**done.measures, **done.counts}, where)
        self._check_publications(done.publications, now)
        if done.multicasts is not None:
            self._check_multicasts(done.multicasts, now)
        for name in () if now.in_run else self.kept:  # no round follows a run
            if name not in kept:
                raise self._fault(f"{where}: play_round writes no table {name}, which is in kept")
        for name, columns in kept.items():
            self._check_columns(f"{where}: table {name}", dict(columns), "iufb")
        return done

    def _fault(self, words: str) -> InputError:
        return InputError("systems", self.name, words)

    def _check_measures(self, measures: Mapping[str, float], where: str) -> None:
        for name, value in measures.items():
            if name not in self.units:
                known = listed(self.units)
                words = f"measures {shown(name)}, which world_measures does not have ({known})"
                raise self._fault(f"{where}: {words}")
            if not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
                words = f"measures {name} = {shown(value)}; give a number that is not negative"
                raise self._fault(f"{where}: {words}")

    def _check_columns(self, where: str, columns: Mapping[str, Any], kinds: str) -> int:
        """Refuse columns that are not one-dimensional and equally long; return their length."""
        lengths = set()
        for name, column in columns.items():
            if not isinstance(column, np.ndarray) or column.ndim != 1:
                raise self._fault(f"{where}: column {name} is no array of one dimension")
            if column.dtype.kind not in kinds:
                raise self._fault(f"{where}: column {name} has type {column.dtype}")
            lengths.add(len(column))
        if len(lengths) > 1:
            raise self._fault(f"{where}: columns have {listed(sorted(lengths))} rows")
        return lengths.pop() if lengths else 0

    def _check_multicasts(self, found: Multicasts, now: LivingRound) -> None:
        where = f"round {now.number}: multicasts"
        if not isinstance(found, Multicasts):
            raise self._fault(f"{where} are a {type(found).__name__}, not Multicasts")
        if not self.member_table:
            raise self._fault(f"{where} need a member_table, which is empty")
        self._check_columns(where, found.to_columns(), "iu")
        steps = np.diff(found.group)
        if (steps < 0).any() or not (now.in_run or now.scheduled or steps.all()):
            raise self._fault(f"{where}: group is not ascending, each group once")
        for name, below in (("group", len(now.group)), ("start", len(now.ring))):
            column = getattr(found, name)
            if ((column < 0) | (column >= below)).any():
                raise self._fault(f"{where}: {name} is not from 0 to {below - 1}")

    def _check_publications(self, due: Publications, now: LivingRound) -> None:
        where = f"round {now.number}: publications"
        if not isinstance(due, Publications):
            raise self._fault(f"{where} are a {type(due).__name__}, not Publications")
        columns = due.to_columns()
        if not self._check_columns(where, columns, "iu"):
            return
        arrived = columns["in_time"] + columns["late"]
        faults = [
            *((column < 0, name, "negative") for name, column in columns.items()),
            (columns["group"] >= len(now.group), "group", "the index of no group"),
            (columns["round"] > now.world_round, "round", "later than this round"),
            (columns["expected"] < arrived, "expected", "less than in_time + late"),
        ]
        for wrong, name, words in faults:
            if wrong.any():
                first = int(np.argmax(wrong))
                cells = [f"{n} {c[first]}" for n, c in columns.items()]
                row = f"row {first}: {in_series(cells, len(cells))}"
                raise self._fault(f"{where}: {name} is {words} in {row}")
