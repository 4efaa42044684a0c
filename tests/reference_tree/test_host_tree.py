"""Reconfiguration by supersteps, on the oracle's random cases."""

from __future__ import annotations

import dataclasses

import pytest
from oracle.reference_tree.cases import random_case
from oracle.reference_tree.host_tree import tree_from_nothing
from oracle.reference_tree.reconfiguration import reconfigure

from reference_tree.test_oracle_cases import all_hosts
from scribe_spark.reference_tree.host_tree import HostTree, ReconfigurationRound


def signed(half: int) -> int:
    return half - 2**64 if half >= 2**63 else half


def table(spark, hosts, number):
    rows = [(number[key], signed(key >> 64), signed(key % 2**64)) for key in hosts]
    return spark.createDataFrame(rows, "node bigint, id_hi bigint, id_lo bigint")


def as_numbers(neighbours, number) -> dict[int, list[int]]:
    return {
        number[host]: sorted(number[other] for other in others)
        for host, others in neighbours.items()
    }


def sets(tree: HostTree) -> dict[int, list[int]]:
    return {row["node"]: row["neighbours"] for row in tree.neighbours.collect()}


def changes(spark, events, number) -> tuple:
    """Events as tables: who joins, who goes; None for nobody."""
    come = [event.host for event in events if event.kind == "join"]
    gone = [(number[event.host],) for event in events if event.kind != "join"]
    return (
        table(spark, come, number) if come else None,
        spark.createDataFrame(gone, "node bigint") if gone else None,
    )


def as_rounds(rounds: list[ReconfigurationRound]) -> list[list[int]]:
    return [list(dataclasses.astuple(one)) for one in rounds]


def play(spark, seed: int, most: int, buckets: int = 4) -> None:
    """A case, of whose events the first are played."""
    case = random_case(seed)
    number, dht = all_hosts(case), case.dht()
    plain = tree_from_nothing(dht).neighbours()
    tree = HostTree(
        table(spark, case.hosts, number),
        bits=case.bits,
        children=case.children,
        assignment=case.assignment,
        buckets=buckets,
    )
    assert sets(tree) == as_numbers(plain, number)
    for events in case.events[:most]:
        dht, plain, rounds = reconfigure(dht, plain, events)
        found = tree.change(*changes(spark, events, number))
        assert sets(tree) == as_numbers(plain, number)
        assert found == [
            ReconfigurationRound(
                len(one.computed), len(one.notices), one.parent_lookups, one.child_lookups
            )
            for one in rounds
        ]
    tree.release()


@pytest.mark.parametrize("seed", [14])
def test_rounds_are_the_oracle_s(spark, seed):
    play(spark, seed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, *range(20, 31)])
def test_rounds_of_more_cases_are_the_oracle_s(spark, seed):
    play(spark, seed, most=5, buckets=1 + seed % 6)
