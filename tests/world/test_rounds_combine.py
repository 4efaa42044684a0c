"""What can be combined in rounds: each cell of a table in ``docs/combinations.md`` is tried.

Every system, variant and delivery has every measure in rounds, on any number of buckets and with
either engine: one task has all buckets, each of several tasks has one, or each superstep is a job.
Nothing needs Spark.  ``WRITE_COMBINATIONS=1 pytest tests/world/test_rounds_combine.py`` writes the
table anew.
"""

import itertools
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_tasks import Jobs
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from world_states import Played, assert_alike, flooders

from scribe_spark.measures.multicasts import MulticastMeasures
from tests.world.test_group_overlays import Meshed
from tools.pages import lines_of, with_lines

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"

#: The mark of a system that has every measure, equal on every engine and number of buckets.
YES = "\N{CHECK MARK}"

SEED, ROUNDS, NODES = 5, 3, 20
SYSTEMS = {"scribe": "Scribe", "gossipsub": "GossipSub", "bayeux": "Bayeux"}
#: Systems that do not depend on how Scribe's trees are built and used: tried in one cell.
OTHERS = {
    **{"flooding": "Flooding over Pastry", "can": "CAN multicast"},
    **{"ip_multicast": "IP multicast", "naive_unicast": "Naive unicast"},
}
VARIANTS = {
    "plain": {},
    "bottleneck": {"limit": 3},
    "collapse": {"collapse": True},
    "lazy": {"limit": 3, "lazy": True},
}
CELLS = [
    *itertools.product(VARIANTS, ("best-effort", "reliable"), ("root",)),
    *itertools.product(["plain"], ["best-effort"], ("routed", "direct")),
]

#: Column -> the measures of a system that it stands for.
MEASURES = {
    "RAD, RMD, RDP": ("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean"),
    "node stress": ("children_tables.mean", "children_entries.max"),
    "link stress": ("link_stress.mean_existing", "link_stress.max", "messages"),
    "late, lost, duplicates": ("publications",),
}

#: How a world is played beside in one task on one bucket.
WAYS = (
    *({"buckets": 7}, {"exchange": True, "buckets": 2}),
    {"buckets": 2, "engine": Jobs, "rounds": 2},
)


def begin(variant: str, delivery: str, source: str) -> World:
    """A cell's world before round 0."""
    case = random_world(SEED, most=NODES, rounds=ROUNDS)
    case = replace(case, buffer=16 if delivery == "reliable" else None)
    world = world_of(
        replace(case, settings=replace(case.settings, source=source, **VARIANTS[variant]))
    )
    kernel = Meshed(world.pastry.kernel.delay_us, world.pastry.kernel.routers)
    world.pastry = replace(world.pastry, kernel=kernel)
    return world


def systems_of(cell: tuple[str, str, str]) -> dict[str, str]:
    """The systems of a cell's world, and their labels."""
    return SYSTEMS | OTHERS if cell == CELLS[0] else SYSTEMS


def play(cell: tuple[str, str, str], rounds: int = ROUNDS, **way: Any) -> list:
    """What each round leaves."""
    world = begin(*cell)
    count = len(world.overlay.states.known)
    names = ("delay", "node_stress", "link_stress")
    measures = MulticastMeasures(names, count * (count - 1), count, 1_000, cell[2])
    more = flooders(world) if cell == CELLS[0] else {}
    return Played(world, measures=measures, more=more, **way).play(saves=False, rounds=rounds)


def row_of(cell: tuple[str, str, str]) -> str:
    """The row of a cell: what comes out when it is tried in all ways."""
    one = assert_alike(partial(play, cell), *WAYS)
    names = {name for measures, *_ in one for name in measures}
    for _, tables, _ in one:
        systems = set(tables["publications"]["system"])
        names |= {f"{system}.publications" for system in systems}
    marks = [
        ", ".join(_missing(system, names)) or YES if system in systems_of(cell) else ""
        for system in SYSTEMS | OTHERS
    ]
    return "| " + " | ".join([*cell, *marks]) + " |"


def _missing(system: str, names: set[str]) -> list[str]:
    """The measures that a system lacks."""
    return [
        f"no {measure}"
        for measure, wanted in MEASURES.items()
        if not {f"{system}.{name}" for name in wanted} <= names
    ]


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=pytest.mark.slow) for cell in CELLS], ids=" ".join
)
def test_rows_of_the_table_are_what_comes_out(cell: tuple[str, str, str]) -> None:
    found = row_of(cell)
    assert found == row_of_marks(cell)
    assert found in PAGE.read_text("utf-8").splitlines()


def row_of_marks(cell: tuple[str, str, str]) -> str:
    """The row of a cell where all is well."""
    marks = [YES if system in systems_of(cell) else "" for system in SYSTEMS | OTHERS]
    return "| " + " | ".join([*cell, *marks]) + " |"


def test_the_table_has_a_row_for_each_cell() -> None:
    heads = ["variant", "delivery", "source", *(SYSTEMS | OTHERS).values()]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    if os.environ.get("WRITE_COMBINATIONS"):
        measured = [row_of(cell) for cell in CELLS]
        PAGE.write_text(with_lines(PAGE.read_text("utf-8"), "rounds", lines + measured), "utf-8")
    assert lines_of(PAGE.read_text("utf-8"), "rounds") == lines + [
        row_of_marks(cell) for cell in CELLS
    ]
