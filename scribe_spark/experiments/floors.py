"""Least values of measures: a run or a world fails below them, as a check of a CI job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.errors import InputError, RunError, exact, in_words, meant, unlike
from scribe_spark.core.paths import is_local
from scribe_spark.core.units import parse_percentage
from scribe_spark.experiments.comparing import read_side
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.systems.registry import systems_of_run
from scribe_spark.worlds.summary import summary_units

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Floors:
    """The least values of measures; a percentage is a share."""

    least: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Floors:
        """Return the least values in users' texts, such as ``scribe.within_800ms=99%``."""
        least: dict[str, float] = {}
        for text in texts:
            measure, _, value = text.rpartition("=")
            share = parse_percentage(value)
            if not measure or (share is None and not _NUMBER.fullmatch(value)):
                remedy = "must be a measure and a number, such as scribe.within_800ms=99%"
                raise InputError("fail_below", text, remedy)
            if measure in least:
                raise InputError("fail_below", text, "gives a second limit; leave one of them out")
            least[measure] = float(value if share is None else share)
        return cls(least)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse names that are not among the known measures."""
        for name in self.least:
            if name not in known:
                remedy = f"is not a measure of these settings{meant(name, [*known])}"
                raise InputError("fail_below", name, remedy)

    def check_before(self, config: RunConfig | WorldConfig, out: str) -> None:
        """Refuse names of measures that a run or world will not have, and a remote OUT."""
        if not is_local(out):
            raise InputError("fail_below", out, "needs an OUT on this machine")
        if isinstance(config, WorldConfig):
            asked = config.coverage, config.bandwidth.several
            self.refuse_unknown(summary_units([asked]))
        else:
            systems = systems_of_run(config.trees.variants, config.trees.systems)
            self.refuse_unknown(metric_definitions(systems, config))

    def check(self, folder: str) -> None:
        """Raise a RunError if a measure of a run or world is below its least value."""
        if not self.least:
            return
        values = read_side(folder).values
        self.refuse_unknown(values)
        below = [
            (name, values[name], least)
            for name, least in self.least.items()
            if (value := values[name]) is None or value < least
        ]
        if below:
            name, value, least = below[0]
            is_now = "has no value" if value is None else f"is {unlike(value, least)}"
            more = f"; {len(below) - 1} more below their limits" if len(below) > 1 else ""
            told = f"{name} {is_now} in {folder}; the limit is {exact(least)}{more}"
            raise RunError(in_words(told))
