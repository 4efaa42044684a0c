"""What can be combined: each cell of the tables in ``docs/combinations.md`` is tried."""

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from in_tasks import Jobs
from living_groups import World, world_of
from oracle.scribe_living.cases import random_world
from pyspark.sql import SparkSession
from world_states import Played, assert_alike, flooders

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES, Simulation
from scribe_spark.measures.multicasts import MulticastMeasures
from scribe_spark.runtime import settings
from scribe_spark.systems.registry import all_systems, living_systems
from scribe_spark.systems.scribe.upcalls import ScribeApplication
from tests.world.test_group_overlays import Meshed

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"

#: The mark of what has all its measures, and of what is refused.
YES, REFUSED = "\N{CHECK MARK}", "\N{BALLOT X}"


def table_of(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the page, its own heads first."""
    lines = f"\n{PAGE.read_text('utf-8')}".partition(f"\n{heading}\n")[2].splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    return [cells[0], *cells[2:]]


SMALL: dict[str, Any] = {
    **{"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3},
    **{"nodes": 60, "leaf_set": 8, "groups": 4, "limit": 6, "replicas": 3},
}
OF_WORLD = {
    **{"rounds": 1, "generator": "publications", "lookups": 0},
    "measures": "delay,node_stress,link_stress",
}

#: What a row has besides; the test writes the tables of an access list and of a schedule, and the
#: first run saves the tables of its nodes.
ALSO: dict[str, dict[str, Any]] = {
    "": {},
    "events": {"generator": "mass-failure", "share": 0.2},
    "access list": {"access": "access.csv"},
    "application": {},
    "saved tables": {"knowledge": "perfect-root-best-effort-"},
    "sizes": {"message_size": "1KB", "uplink": "1Mbit/s"},
    "publications": {"publications": 2, "interval": "1ms", "published_by": "members"},
    "schedule": {"schedule": "schedule.csv"},
    "losses": {"topology": "lossy.gml"},
    "Bayeux's roots": {"bayeux_partitions": 2, "bayeux_root": "surrogate"},
}
FILES = {
    "access.csv": "group,node,right\n1,3,create\n",
    "schedule.csv": "time,group,node,size\n0,1,3,1KB\n5ms,1,3,2KB\n5ms,2,4,1KB\n",
    "lossy.gml": """graph [
  node [ id 0 ] node [ id 1 ] node [ id 2 ]
  edge [ source 0 target 1 latency "7 ms" packet_loss 0.02 ]
  edge [ source 1 target 2 latency "9 ms" packet_loss 0.01 ]
]
""",
}
OVERLAYS: dict[str, dict[str, Any]] = {
    **{name: {"overlay": name} for name in ("perfect", "arrivals", "can")},
    "arrivals, contact latest": {"overlay": "arrivals", "contact": "latest"},
}
VARIANTS = ("plain", "bottleneck", "collapse", "lazy", "reference_tree")

#: Systems beside Scribe's trees and their variants; these two runs have them.
OTHERS = (
    *("bayeux", "flooding", "can", "gossipsub", "plumtree"),
    *("narada", "nice", "overcast", "splitstream"),
)
PLAIN, EVENTFUL = (("perfect", "root", "best-effort", also) for also in ("", "events"))

#: The metrics that all cells have, and those of worlds; `{}` is the system.
MEASURES = (
    *("{}.rad.median", "{}.rmd.median", "{}.rdp.mean", "{}.children_tables.mean"),
    *("{}.children_entries.max", "{}.link_stress.mean_existing", "{}.link_stress.max"),
    *("ip_multicast.link_stress.max", "naive_unicast.link_stress.max"),
)
OF_WORLDS = ("scribe.publications.sent", "scribe.orphans")


class Cell(NamedTuple):
    """A combination of the first table."""

    command: str
    overlay: str
    variant: str
    delivery: str
    source: str
    also: str

    @property
    def config(self) -> RunConfig | WorldConfig:
        """The config of a small case; refused if there is no such combination."""
        given = SMALL | OVERLAYS[self.overlay] | {"variants": self.variant}
        given |= {} if self.delivery == "best-effort" else {"delivery": self.delivery}
        given |= {} if self.source == "root" else {"source": self.source}
        also = ALSO[self.also]
        if self.command == "run":
            return RunConfig(**given | also)
        both: dict[str, Any] = {}
        if self.also == "Bayeux's roots":
            both = {"systems": "scribe,bayeux"}
        if self.also in ("publications", "schedule"):  # which say who publishes
            both = {"generator": None}
        if "generator" in also:
            both = {"generator": f"{also['generator']}+publications", "event_round": 0}
        return WorldConfig(**given | OF_WORLD | also | both)

    @property
    def application(self) -> type[ScribeApplication] | None:
        """An application of one's own, which executors get as it is: it does what Scribe does."""

        class Own(ScribeApplication):
            def __init__(self, nodes: int) -> None:
                del nodes

        return Own if self.also == "application" else None

    @property
    def measures(self) -> set[str]:
        """The metrics that the cell has to have."""
        named = {one.variant: one.name for one in all_systems()}
        is_variant = self.command == "run" and self.variant != "plain"
        system = named[self.variant] if is_variant else "scribe"
        system = "bayeux" if self.also == "Bayeux's roots" else system
        wanted = {name.format(system) for name in MEASURES}
        return wanted | ({*OF_WORLDS} if self.command == "world" else set())


def cells() -> Iterator[tuple[Cell, str]]:
    """The cells of the first table, with their marks."""
    heads, *rows = table_of("# What can be combined")
    ways = [head.split(", ") for head in heads[4:]]
    for overlays, variants, sources, settings_of, *marks in rows:
        names = (overlays.split("; "), *(s.split(", ") for s in (variants, sources, settings_of)))
        for overlay, variant, source, also in itertools.product(*names):
            for (command, delivery), mark in zip(ways, marks, strict=True):
                if mark:
                    yield Cell(command, overlay, variant, delivery, source, also), mark


def reasons() -> dict[tuple[str, str], str]:
    """(command, message) -> the refused settings."""
    _, *rows = table_of("## Refusals")
    return {(one, why): what for named, what, why in rows for one in named.split(", ")}


def test_settings_of_one_command_are_refused_as_the_page_says():
    marks, told = dict(cells()), reasons()
    assert len(marks) == 120
    assert {*marks.values()} == {YES, REFUSED}
    for kind in (RunConfig, WorldConfig):
        for name, why in kind.refused_fields().items():
            assert f"`{name}`" in told[kind.command, why]
    for cell, mark in marks.items():
        refused = refusal_of(cell)
        assert refused is None or (mark == REFUSED and (cell.command, refused) in told)


def refusal_of(cell: Cell) -> str | None:
    """The reason for which a config refuses a cell at once."""
    try:
        assert cell.config
    except InputError as refused:
        return refused.remedy
    return None


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[None]:
    """Divide nodes into as few parts as can be: then Spark has few tasks."""
    before = spark.conf.get(settings._PARTITIONS)
    spark.conf.set(settings._PARTITIONS, "1")
    yield
    spark.conf.set(settings._PARTITIONS, before)


@pytest.mark.slow
def test_each_cell_is_what_the_page_says(spark, tmp_path, monkeypatch, one_partition):
    """Runs build all variants together; a world has one."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    runs: dict[tuple[str, ...], Mapping[str, Any]] = {}
    found: dict[Cell, Collection[str]] = {}
    refusals: set[tuple[str, str]] = set()
    with Simulation(spark, WorldConfig(**SMALL | OF_WORLD)) as simulation:
        for cell, _ in cells():
            try:
                config = cell.config
                if isinstance(config, WorldConfig):
                    with Simulation(spark, config, shares=simulation) as network:
                        given = {"application": cell.application}
                        world = experiments.make_world(network, config, **given)
                        found[cell] = set(world.step())
                        world.release()
                    continue
                of = cell.overlay, cell.source, cell.delivery, cell.also
                if of not in runs:
                    others = OTHERS if of in (PLAIN, EVENTFUL) else ()
                    others = ("bayeux",) if cell.also == "Bayeux's roots" else others
                    many = VARIANTS if not cell.also or of == EVENTFUL else ()
                    config = config.replace(variants=(*many, *others), write_knowledge=of == PLAIN)
                    how = Execution(out=str(Path("-".join(of)).resolve()), engine="tasks")
                    more = {"application": cell.application}
                    with experiments.run(spark, config, how, PHASES[:-1], **more) as done:
                        metrics = {one["name"]: one["value"] for one in done.metrics()}
                    runs[of] = {name: n for name, n in metrics.items() if n is not None}
                found[cell] = runs[of]
            except InputError as refused:
                refusals.add((cell.command, refused.remedy))
    for cell, mark in cells():
        assert (cell in found) == (mark == YES), cell
        assert cell not in found or cell.measures <= {*found[cell]}, cell
    of_fields = {
        (kind.command, why)
        for kind in (RunConfig, WorldConfig)
        for why in kind.refused_fields().values()
    }
    assert reasons().keys() == refusals | of_fields
    # the systems of the runs and of worlds
    _, *rows = table_of("## Systems")
    assert [row[0] for row in rows] == [system.label for system in all_systems()]
    for system, (_, *marks, of_worlds) in zip(all_systems(), rows, strict=True):
        there = [f"{system.name}.link_stress.max" in runs[of] for of in (PLAIN, EVENTFUL)]
        assert [mark == YES for mark in marks] == there
        try:
            assert living_systems([system.name])
            assert of_worlds == YES
        except InputError:
            of_trees = system.variant in ("bottleneck", "collapse", "lazy")
            assert of_worlds == ("as a variant" if of_trees else REFUSED)


# --- in rounds: every system has every measure, on any number of buckets and with either engine

SEED, ROUNDS, NODES = 5, 3, 20
LIMITS: dict[str, dict[str, Any]] = {
    **{"plain": {}, "bottleneck": {"limit": 3}, "collapse": {"collapse": True}},
    "lazy": {"limit": 3, "lazy": True},
}

#: The measures that each system has in rounds.
IN_ROUNDS = (
    *("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean"),
    *("children_tables.mean", "children_entries.max"),
    *("link_stress.mean_existing", "link_stress.max", "messages", "publications"),
)

#: How a world is played beside in one task on one bucket.
WAYS = (
    *({"buckets": 7}, {"exchange": True, "buckets": 2}),
    {"buckets": 2, "engine": Jobs, "rounds": 2},
)
HEADS, *ROWS = table_of("## In rounds")


def begin(variant: str, delivery: str, source: str) -> World:
    """A row's world before round 0."""
    case = random_world(SEED, most=NODES, rounds=ROUNDS)
    case = replace(case, buffer=16 if delivery == "reliable" else None)
    world = world_of(
        replace(case, settings=replace(case.settings, source=source, **LIMITS[variant]))
    )
    kernel = Meshed(world.pastry.kernel.delay_us, world.pastry.kernel.routers)
    world.pastry = replace(world.pastry, kernel=kernel)
    return world


def play(row: list[str], rounds: int = ROUNDS, **way: Any) -> list:
    """What each round leaves."""
    world = begin(*row[:3])
    count = len(world.overlay.states.known)
    names = ("delay", "node_stress", "link_stress")
    measures = MulticastMeasures(names, count * (count - 1), count, 1_000, row[2])
    more = flooders(world) if all(row) else {}
    return Played(world, measures=measures, more=more, **way).play(saves=False, rounds=rounds)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
@pytest.mark.slow
def test_rounds_of_a_row_are_alike_and_have_all_measures(row: list[str]) -> None:
    one = assert_alike(partial(play, row), *WAYS)
    names = {name for measures, *_ in one for name in measures}
    for _, tables, _ in one:
        names |= {f"{system}.publications" for system in tables["publications"]["system"]}
    named = {system.label: system.name for system in all_systems()}
    for label, mark in zip(HEADS[3:], row[3:], strict=True):
        wanted = {f"{named[label]}.{name}" for name in IN_ROUNDS}
        assert not mark or (mark == YES and wanted <= names), label
    assert [head for head, mark in zip(HEADS, row, strict=True) if mark][3:6] == HEADS[3:6]
    assert len(ROWS) == 2 * len(LIMITS) + 2
