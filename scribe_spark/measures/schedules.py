"""The publications of a run with a schedule; they are few, and kept on the driver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.measures.measure import RunTables

#: The name of the table of publications.
SCHEDULE = "schedule"

#: The name of the column with the publication in tables of such a run.
PUBLICATION = "publication"


@dataclass(frozen=True)
class ScheduledMessages:
    """Publications by their numbers."""

    #: int64: the group of each publication, and its size in bytes.
    group: np.ndarray
    size: np.ndarray


def publications_of(run: RunTables) -> ScheduledMessages | None:
    """Return the publications of a run with a schedule, None for other runs."""
    if SCHEDULE not in run:
        return None
    rows = run[SCHEDULE].select(PUBLICATION, "group", "bytes").toArrow().sort_by(PUBLICATION)
    return ScheduledMessages(*(rows.column(name).to_numpy() for name in ("group", "bytes")))


def with_publication(run: RunTables, *columns: str) -> list[str]:
    """Add the column of publications to names of columns, in a run with a schedule."""
    return [*columns, PUBLICATION] if SCHEDULE in run else list(columns)
