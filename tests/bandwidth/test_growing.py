"""Rows of the clock that wait or stay."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from scribe_spark.bandwidth.queues import Calendar, Growing


def test_a_calendar_gives_rows_back_in_their_windows_in_the_order_of_coming():
    rng = np.random.default_rng(5)
    calendar, due = Calendar(2), defaultdict(list)
    now = number = 0
    while number < 2_000 or due:
        count = rng.integers(0, 40) if number < 2_000 else 0
        window = now + rng.integers(0, rng.choice([1, 5, 200]), count)
        rows = np.column_stack([window, np.arange(number, number + count)])
        number += count
        calendar.add(window, rows)
        for row in rows.tolist():
            due[row[0]].append(row)
        assert calendar.first() == min(due, default=None)
        assert calendar.take(now).tolist() == due.pop(now, [])
        now += 1
    assert calendar.first() is None


def test_growing_arrays_keep_what_is_added():
    arrays = Growing(5, a=np.int64, b=np.bool_)
    assert arrays.add(2, a=np.array([7, 8]), b=False).tolist() == [0, 1]
    assert arrays.add(3, a=9, b=np.array([True, False, True])).tolist() == [2, 3, 4]
    assert arrays["a"].tolist() == [7, 8, 9, 9, 9]
    assert arrays["b"].tolist() == [False, False, True, False, True]
    assert arrays.count == 5
