"""The choice of the tasks that play the windows of the clock.

A window with few copies takes a task about a millisecond.  Two tasks exchange messages twice in a
window, which takes as long.  So the first task plays all buckets as one bucket, unless there are
very many links.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.bandwidth.bucket import ClockSetting, compact
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES, LINKS, play_windows
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.player import PlaysPrograms
from scribe_spark.engine.program import Tables

#: The least number of links for which two tasks are faster than one task.
MANY_LINKS = 2**23


def play_in_few_tasks(
    player: PlaysPrograms, bounds: np.ndarray, given: ClockSetting, many: int = MANY_LINKS
) -> None:
    """Play all windows like `play_windows`, with all buckets as one bucket if that is faster.

    From `many` links on, tasks play their own buckets.
    """
    in_task = player if isinstance(player, InTask) else None
    if in_task is None or (in_task.exchange is not None and in_task.count(LINKS) >= many):
        play_windows(player, bounds, given)
        return
    links = in_task.bring(LINKS)
    in_task.hand_out(None if links is None else _play_as_one(links, bounds, given))


def _play_as_one(
    links: list[Columns], bounds: np.ndarray, given: ClockSetting
) -> list[dict[str, Columns]]:
    """Return the results of each bucket that has nodes; empties the list `links`."""
    parts = [links.pop(0) for _ in range(len(links))]
    if len(parts) > 1:
        parts = [concatenate([{n: compact(c) for n, c in one.items()} for one in parts])]
    tables = Tables.of({LINKS: parts.pop()})
    play_windows(InTask([tables]), bounds[[0, -1]], given)
    found: list[dict[str, Columns]] = [{} for _ in bounds[1:]]
    for name in [name for name in (ARRIVALS, COPIES) if name in tables]:
        columns = tables.pop(name)
        for mine, first, last in zip(found, bounds[:-1], bounds[1:], strict=True):
            if first < last:
                own = (columns["node"] >= first) & (columns["node"] < last)
                mine[name] = columns if own.all() else take(columns, own)
    return found
