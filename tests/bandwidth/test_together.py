"""The clock with bandwidth gives the same results in one task, in several, and on one bucket."""

import itertools

import numpy as np
import pytest
from in_threads import play_in_threads

from scribe_spark.bandwidth import windows
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES, LINKS
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import Tables

from .test_kernel import mesh

NODES = 60


def buckets_of(links, bounds):
    """Return the links of each bucket."""
    for first, last in itertools.pairwise(bounds):
        mine = (links["node"] >= first) & (links["node"] < last)
        yield Tables.of({LINKS: {name: column[mine] for name, column in links.items()}})


def rows_of(columns):
    """Return the rows of a table, sorted."""
    return sorted(zip(*(columns[name].tolist() for name in sorted(columns)), strict=True))


@pytest.fixture(scope="module")
def given():
    """The setting, the links and the results of one bucket."""
    setting, links = mesh(NODES, 3)
    bounds = np.array([0, NODES])
    (tables,) = buckets_of(links, bounds)
    windows.play_windows(InTask([tables]), bounds, setting)
    return setting, links, {name: rows_of(tables[name]) for name in (ARRIVALS, COPIES)}


BOUNDS = ([0, 25, NODES], [0, 10, 10, 40, NODES])


def check(bounds, results, expected):
    """Compare the results of buckets; every row is in the bucket of its node."""
    for name, rows in expected.items():
        found = []
        for bucket, (first, last) in enumerate(itertools.pairwise(bounds)):
            assert (name in results[bucket]) == (first < last)
            if first < last:
                columns = results[bucket][name]
                assert ((columns["node"] >= first) & (columns["node"] < last)).all()
                found += rows_of(columns)
        assert sorted(found) == rows


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("many", ["too many", "too few"])
def test_tasks_play_many_links_themselves_and_the_first_one_plays_few(given, bounds, many):
    setting, links, expected = given
    tables = list(buckets_of(links, bounds))
    least = len(links["node"]) + (many == "too few")
    swaps = []

    def work(exchange):
        player = InTask([tables[exchange.rank]], exchange)
        windows.play_in_few_tasks(player, np.array(bounds), setting, least)
        swaps.append(exchange.swaps)

    play_in_threads(len(bounds) - 1, work)
    check(bounds, tables, expected)
    assert (max(swaps) == 3) == (many == "too few")  # count, bring, hand out
