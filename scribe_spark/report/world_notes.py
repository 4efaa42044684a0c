"""Sentences about what the numbers of a world's page do not cover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from scribe_spark.errors import in_series
from scribe_spark.measures.incomplete import (
    has_control,
    has_none_due,
    reached_in_incomplete,
    rounds_not_due,
    systems_of_world,
)
from scribe_spark.report.series import label_of
from scribe_spark.report.style import in_order
from scribe_spark.report.text import PERCENT, as_text


def world_notes(table: pd.DataFrame) -> list[str]:
    """Return sentences about open deliveries, incomplete rounds, and what is not simulated.

    `table` has a row for each round and a column for each measure.
    """
    systems = in_order(systems_of_world(table))
    return [
        *_open(table, systems),
        *_incomplete(table, systems),
        *_not_simulated(table, systems),
    ]


def _open(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    rounds = sorted({number for system in systems for number in rounds_not_due(table, system)})
    if not rounds:
        return
    counts = {system: _sum(table, f"{system}.publications.open") for system in systems}
    named = "; ".join(f"{label_of(s)}: {as_text(count)}" for s, count in counts.items() if count)
    shares = "No publication is due, so there are no shares of deliveries"
    if not all(has_none_due(table, system) for system in systems):
        shares = "Shares of deliveries cover only the publications that are due"
    yield (
        f"The publications of {_in_words(rounds)} are not due: their deadline is after the last "
        f"round. Deliveries that are missing are open, not lost ({named or 'none'}). {shares}."
    )


def _incomplete(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    told = []
    for system in systems:
        shares = reached_in_incomplete(table, system)
        if len(shares):
            least = f"{as_text(float(f'{100 * shares.min():.3g}'))}{PERCENT}"
            rounds = _in_words([int(number) for number in shares.index])
            told.append(f"{label_of(system)} in {rounds} ({least} in the worst one)")
    if told:
        yield (
            f"Not all members are reached in the round of the publication: {'; '.join(told)}. "
            "Delays, RAD, RMD, RDP and packets of these rounds cover the reached members only, so "
            "they seem better than they are: their points are hollow, and means leave them out."
        )


def _not_simulated(table: pd.DataFrame, systems: Sequence[str]) -> Iterator[str]:
    without = [label_of(system) for system in systems if not has_control(table, system)]
    if without:
        yield (
            f"Control messages are not simulated for {in_series(without, len(without))}: joins and "
            "repairs take no messages and no time, but nodes must detect a failure first."
        )


def _sum(table: pd.DataFrame, measure: str) -> float:
    return float(table[measure].sum()) if measure in table else 0.0


def _in_words(rounds: Sequence[int]) -> str:
    """Return ascending rounds in words.

    Examples
    --------
    >>> _in_words([3]), _in_words([1, 2, 3, 5])
    ('round 3', 'rounds 1 to 3, 5')
    """
    runs: list[list[int]] = []
    for number in rounds:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"round{'s' * (len(rounds) > 1)} {', '.join(words)}"
