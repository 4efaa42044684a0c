"""What can be combined in rounds: each cell of a table in ``docs/combinations.md`` is tried.

Every system, variant and delivery has every measure in rounds, on any number of buckets and with
either engine: one task has all buckets, each of several tasks has one, or each superstep is a job.
Nothing needs Spark.  ``WRITE_COMBINATIONS=1 pytest tests/world/test_rounds_combine.py`` writes the
table anew.
"""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from in_tasks import Jobs
from in_threads import play_in_threads
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from world_states import Played, flooders

from scribe_spark.engine.in_task import InTask
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

#: Engine -> rounds that are played, and numbers of buckets that are tried.
ENGINES = {"one task": (ROUNDS, 7), "tasks": (ROUNDS, 2), "jobs": (2, 2)}


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


def played(cell: tuple[str, str, str], engine: str, buckets: int) -> list:
    """What each round leaves."""

    def play(exchange=None) -> list:
        world = begin(*cell)
        count = len(world.overlay.states.known)
        names = ("delay", "node_stress", "link_stress")
        measures = MulticastMeasures(names, count * (count - 1), count, 1_000, cell[2])
        player = Jobs if engine == "jobs" else InTask
        more = flooders(world) if cell == CELLS[0] else {}
        state = Played(world, buckets, exchange, measures=measures, more=more, engine=player)
        return state.play(saves=False, rounds=ENGINES[engine][0])

    if engine != "tasks":
        return play()
    first, *others = play_in_threads(buckets, play)
    assert all(other == first for other in others)
    return first


def row_of(cell: tuple[str, str, str]) -> str:
    """The row of a cell: what comes out when it is tried."""
    one = played(cell, "one task", 1)
    differ = [
        engine
        for engine, (rounds, *counts) in ENGINES.items()
        if any(played(cell, engine, b) != one[:rounds] for b in counts)
    ]
    names = {name for measures, *_ in one for name in measures}
    for _, tables, _ in one:
        systems = set(tables["publications"]["system"])
        names |= {f"{system}.publications" for system in systems}
    marks = [
        ", ".join([*_missing(system, names), *differ]) or YES if system in systems_of(cell) else ""
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


def is_slow(cell: tuple[str, str, str]) -> bool:
    """Return whether a cell is played in slow tests alone: what others have, too."""
    return cell not in (CELLS[0], ("lazy", "reliable", "root"))


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=pytest.mark.slow if is_slow(cell) else ()) for cell in CELLS],
    ids=" ".join,
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
