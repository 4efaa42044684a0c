"""Scribe's operations in a world, from Python, in the words of both papers."""

import pytest
from small_network import NETWORK

from scribe_spark.config import WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import make_world

CONFIG = WorldConfig(**NETWORK, nodes=30, groups=2, group_size=3, rounds=20, lookups=0)


@pytest.fixture(scope="module")
def world(simulation, tmp_path_factory):
    """Group 1 may be joined by node 0 alone, and multicast to by nobody else; group 2 is open."""
    access = tmp_path_factory.mktemp("access") / "access.csv"
    access.write_text("group,node,right\n1,0,join\n1,0,multicast\n")
    made = make_world(simulation, CONFIG.replace(access=str(access)))
    made.step()
    yield made
    made.release()


def pairs(spark, *rows):
    return spark.createDataFrame(list(rows), "group bigint, node bigint")


def members(world, group):
    rows = world.memberships.where(f"group = {group} AND member").collect()
    return {row["node"] for row in rows}


def test_join_multicast_and_leave_by_the_words_of_both_papers(world, spark):
    before = members(world, 2)
    new = sorted(set(range(30)) - before)[:4]
    world.scribe.join(pairs(spark, *[(2, node) for node in new[:2]]))
    world.scribe.subscribe(pairs(spark, *[(2, node) for node in new[2:]]))
    world.step()
    assert members(world, 2) == before | set(new)
    world.scribe.multicast(pairs(spark, (2, new[0])))
    world.scribe.publish(pairs(spark, (2, new[1])))
    sent = world.step()
    assert sent["scribe.publications.sent"] == 2
    assert "scribe.publications.sent" not in world.step()  # asked for once
    world.scribe.leave(pairs(spark, (2, new[0])))
    world.scribe.unsubscribe(pairs(spark, (2, new[1])))
    world.step()
    assert members(world, 2) == before | set(new[2:])


def test_credentials_are_the_nodes_that_the_list_names(world, spark):
    joined = members(world, 1)
    assert joined <= {0}
    world.scribe.join(pairs(spark, (1, 7), *[(1, 0)] * (not joined)))
    world.scribe.multicast(pairs(spark, (1, 0), (1, 8)))
    done = world.step()
    assert (done["scribe.refused.JOIN"], done["scribe.refused.MULTICAST"]) == (1, 1)
    assert done["scribe.publications.sent"] == 1
    assert members(world, 1) == {0}


@pytest.mark.parametrize(
    ("operation", "pair", "says"),
    [
        ("join", (3, 1), "group=3 names no group; groups are 1 to 2"),
        ("leave", (2, 99), "group=2 names no node; nodes are 0 to 29"),
        ("create", (1, 99), "group=1 names no node; nodes are 0 to 29"),
        ("leave", None, "group=2 is impossible: the node is no member; let it join before"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(world, spark, operation, pair, says):
    stranger, number = min(set(range(30)) - members(world, 2)), world.number
    getattr(world.scribe, operation)(pairs(spark, pair or (2, stranger)))
    with pytest.raises(InputError, match=says):
        world.step()
    assert world.number == number
    world.step()  # what was refused is forgotten
