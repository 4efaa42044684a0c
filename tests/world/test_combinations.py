"""What can be combined: ``docs/combinations.md`` is what came out when each cell was tried.

``WRITE_COMBINATIONS=1 pytest tests/world/test_combinations.py`` writes the page anew.
"""

import itertools
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scribe_spark import experiments
from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES, Simulation
from scribe_spark.runtime import settings
from scribe_spark.systems.registry import all_systems, living_systems
from scribe_spark.systems.scribe.upcalls import ScribeApplication

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"

#: The rest of the page is of rounds: `test_rounds_combine` writes it.
OF_ROUNDS = "\n## In rounds"

#: The only system that has no rounds.
OF_REFERENCE_TREE = "| Reference tree | \N{CHECK MARK} | \N{CHECK MARK} | \N{BALLOT X} |"

#: The mark of what has all its measures, and of what is refused.
YES, REFUSED = "\N{CHECK MARK}", "\N{BALLOT X}"

ABOUT = f"""\
# What can be combined

A test tries combinations of options and writes this page. {YES}: the combination works, with all measures. {REFUSED}: the combination is [refused](#refusals). An empty cell was not tried. The additional settings are the options `--generator` (events), `--access` (access list), `--knowledge` (saved tables), `--message-size` (sizes), `--publications`, `--schedule` and `--bayeux-partitions` (Bayeux's roots), a [network](networks.md#a-graph-of-routers) with losses, and an [application](extending_application.md).
"""  # noqa: E501

#: The refusals that stay because runs and worlds differ.
WHY = """
A message follows the name and the value of the setting. Most of these combinations are refused because runs and worlds differ: a CAN as the overlay has no rules for failures (CAN multicast computes its CANs anew in each round); a world maintains the reference tree, but sends no messages on it; a run measures only its last round, and builds Bayeux among the survivors. Worlds also refuse your [tree variants](extending_tree.md#a-variant-of-scribes-tree), which have no rules for rounds. In a world, a variant is not another system, but changes Scribe's own trees.
"""  # noqa: E501

#: What the marks of the table of systems mean.
OF_SYSTEMS = f"{YES}: the system works. A *run with events* plays a world first ([run with failures](living.md#a-run-with-failures)). *As a variant*: in a world, `--variants` changes Scribe's own trees."  # noqa: E501

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
LOSSY = """graph [
  node [ id 0 ] node [ id 1 ] node [ id 2 ]
  edge [ source 0 target 1 latency "7 ms" packet_loss 0.02 ]
  edge [ source 1 target 2 latency "9 ms" packet_loss 0.01 ]
]
"""
SCHEDULE = "time,group,node,size\n0,1,3,1KB\n5ms,1,3,2KB\n5ms,2,4,1KB\n"

#: Systems beside Scribe's trees and their variants; these two runs have them.
OTHERS = (
    *("bayeux", "flooding", "can", "gossipsub", "plumtree"),
    *("narada", "nice", "overcast", "splitstream"),
)
PLAIN = ("perfect", "root", "best-effort", "")
EVENTFUL = ("perfect", "root", "best-effort", "events")


def own_application() -> type[ScribeApplication]:
    """An application of one's own, which executors get as it is: it does what Scribe does."""

    class Own(ScribeApplication):
        def __init__(self, nodes: int) -> None:
            del nodes

    return Own


OVERLAYS: dict[str, dict[str, Any]] = {
    "perfect": {"overlay": "perfect"},
    "arrivals": {"overlay": "arrivals"},
    "arrivals, contact latest": {"overlay": "arrivals", "contact": "latest"},
    "can": {"overlay": "can"},
}
VARIANTS = ("plain", "bottleneck", "collapse", "lazy", "reference_tree")
DELIVERIES = ("best-effort", "reliable")
SOURCES = ("root", "routed", "direct")

#: Column -> the metrics of a system that it stands for; `{}` is the system.
MEASURES: dict[str, tuple[str, ...]] = {
    "RAD, RMD, RDP": ("{}.rad.median", "{}.rmd.median", "{}.rdp.mean"),
    "node stress": ("{}.children_tables.mean", "{}.children_entries.max"),
    "link stress": ("{}.link_stress.mean_existing", "{}.link_stress.max"),
    "beside IP multicast and unicast": (
        "ip_multicast.link_stress.max",
        "naive_unicast.link_stress.max",
    ),
    "failures, repair, late and lost": ("scribe.publications.sent", "scribe.orphans"),
}


@dataclass(frozen=True)
class Cell:
    """A row of the table."""

    command: str
    overlay: str
    variant: str
    delivery: str
    source: str = "root"
    also: str = ""


def _cells_of(command: str) -> list[Cell]:
    """All combinations; what the last two columns have has to do with no other choice."""
    first = Cell(command, "perfect", "plain", "best-effort")
    return [
        *[Cell(command, *of) for of in itertools.product(OVERLAYS, VARIANTS, DELIVERIES)],
        *[replace(first, source=source) for source in SOURCES[1:]],
        *[
            replace(first, delivery=delivery, also=also)
            for also, delivery in itertools.product(list(ALSO)[1:], DELIVERIES)
        ],
    ]


CELLS = _cells_of("run") + _cells_of("world")


def config_of(cell: Cell) -> RunConfig | WorldConfig:
    """The config of a cell's small case.

    Raises
    ------
    InputError
        There is no such cell.
    """
    given = SMALL | OVERLAYS[cell.overlay] | {"variants": cell.variant}
    given |= {} if cell.delivery == "best-effort" else {"delivery": cell.delivery}
    given |= {} if cell.source == "root" else {"source": cell.source}
    also = ALSO[cell.also]
    if cell.command == "run":
        return RunConfig(**given | also)
    both: dict[str, Any] = {"systems": "scribe,bayeux"} if cell.also == "Bayeux's roots" else {}
    if cell.also in ("publications", "schedule"):  # which say who publishes
        both = {"generator": None}
    if "generator" in also:
        both = {"generator": f"{also['generator']}+publications", "event_round": 0}
    return WorldConfig(**given | OF_WORLD | also | both)


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[None]:
    """Divide nodes into as few parts as can be: then Spark has few tasks."""
    before = spark.conf.get(settings._PARTITIONS)
    spark.conf.set(settings._PARTITIONS, "1")
    yield
    spark.conf.set(settings._PARTITIONS, before)


@pytest.mark.slow
def test_the_table_is_what_comes_out_when_each_cell_is_tried(
    spark, tmp_path, monkeypatch, one_partition
):
    """Runs build all variants together; a world has one."""
    monkeypatch.chdir(tmp_path)
    Path("access.csv").write_text("group,node,right\n1,3,create\n", "utf-8")
    Path("schedule.csv").write_text(SCHEDULE, "utf-8")
    Path("lossy.gml").write_text(LOSSY, "utf-8")
    found: dict[Cell, Collection[str] | str] = {}
    runs: dict[tuple[str, ...], Mapping[str, Any]] = {}
    with Simulation(spark, WorldConfig(**SMALL | OF_WORLD)) as simulation:
        for cell in CELLS:
            application = own_application() if cell.also == "application" else None
            try:
                config = config_of(cell)
                if isinstance(config, WorldConfig):
                    with Simulation(spark, config, shares=simulation) as network:
                        world = experiments.make_world(network, config, application=application)
                        found[cell] = set(world.step())
                        world.release()
                    continue
                of = cell.overlay, cell.source, cell.delivery, cell.also
                if of not in runs:
                    others = OTHERS if of in (PLAIN, EVENTFUL) else ()
                    if cell.also == "Bayeux's roots":
                        others = ("bayeux",)
                    many = VARIANTS if not cell.also or of == EVENTFUL else ()
                    given = config.replace(variants=(*many, *others))
                    given = given.replace(write_knowledge=of == PLAIN)
                    runs[of] = metrics_of(spark, given, "-".join(of), application)
            except InputError as refused:
                found[cell] = refused.remedy
                continue
            found[cell] = {name for name, value in runs[of].items() if value is not None}
    page = page_of(found) + systems_of_page({"run": runs[PLAIN], "run with events": runs[EVENTFUL]})
    _, of_rounds, more = PAGE.read_text("utf-8").partition(OF_ROUNDS)
    page += of_rounds + more
    if os.environ.get("WRITE_COMBINATIONS"):
        PAGE.write_text(page, "utf-8")
    assert PAGE.read_text("utf-8") == page
    played = [cell for cell, names in found.items() if not isinstance(names, str)]
    of_rows = 2 * (len(ALSO) - 1) - 1  # an application delivers reliably itself
    assert len(played) == 35 + 2 + of_rows + 24 + 2 + of_rows
    # of what is played every measure is there that makes sense
    for cell in played:
        assert all(has(cell, found[cell], names) for names in sensible(cell)), cell
    assert "| no " not in page.partition("## Refusals")[0]
    assert REFUSED not in page.partition("## Systems")[2].replace(OF_REFERENCE_TREE, "")


def metrics_of(
    spark: Any, config: RunConfig, out: str, application: type[ScribeApplication] | None
) -> Mapping[str, Any]:
    """The metrics of a run."""
    how = Execution(out=str(Path(out).resolve()), engine="tasks")
    with experiments.run(spark, config, how, PHASES[:-1], application=application) as done:
        return {metric["name"]: metric["value"] for metric in done.metrics()}


def systems_of_page(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """The section of the systems: which of them there are with what."""
    lines = ["", "## Systems", "", OF_SYSTEMS, ""]
    lines.append("| system | " + " | ".join([*runs, "world"]) + " |")
    lines.append("|---|---|---|---|")
    for system in all_systems():
        cells = []
        for metrics in runs.values():
            there = metrics.get(f"{system.name}.link_stress.max") is not None
            cells.append(YES if there else REFUSED)
        try:
            living_systems([system.name])
            cells.append(YES)
        except InputError:
            of_trees = system.variant in ("bottleneck", "collapse", "lazy")
            cells.append("as a variant" if of_trees else REFUSED)
        lines.append(f"| {system.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def sensible(cell: Cell) -> list[tuple[str, ...]]:
    """The measures that a cell must have."""
    return list(MEASURES.values())[: None if cell.command == "world" else -1]


def has(cell: Cell, names: Collection[str], wanted: tuple[str, ...]) -> bool:
    """Whether there are all metrics of a measure."""
    variant = cell.command == "run" and cell.variant != "plain"
    named = {one.variant: one.name for one in all_systems()}
    system = named[cell.variant] if variant else "scribe"
    system = "bayeux" if cell.also == "Bayeux's roots" else system
    return {name.format(system) for name in wanted} <= {*names}


def page_of(found: Mapping[Cell, Collection[str] | str]) -> str:
    """The page; rows that are refused for one reason stand together below."""
    ways = list(itertools.product(("run", "world"), DELIVERIES))
    heads = ["overlay", "variant", "source", "additional setting", *map(", ".join, ways)]
    lines = [ABOUT, "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    rows = []
    for one in dict.fromkeys(replace(cell, command="", delivery="") for cell in found):
        cells = [replace(one, command=command, delivery=delivery) for command, delivery in ways]
        marks = [mark(cell, found[cell]) if cell in found else "" for cell in cells]
        rows.append((one.overlay, one.variant, one.source, one.also, *marks))
    lines += ["| " + " | ".join(row) + " |" for row in merged(rows, (1, 0, 2, 3))]
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell, names in found.items():
        if isinstance(names, str):
            what = _what_is_refused(cell, names)
            reasons.setdefault((cell.command, names), []).append(what)
    lines += [
        "",
        "## Refusals",
        "",
        "These settings are refused:",
        "",
        "| command | refused setting | message |",
        "|---|---|---|",
    ]
    commands: dict[tuple[str, str], list[str]] = {}
    for (command, reason), given in reasons.items():
        commands.setdefault((", ".join(dict.fromkeys(given)), reason), []).append(command)
    for (given, reason), named in commands.items():
        lines.append(f"| {', '.join(named)} | {given} | {reason} |")
    for kind in (RunConfig, WorldConfig):
        settings_of: dict[str, list[str]] = {}
        for name, why in kind.refused_fields().items():
            settings_of.setdefault(why, []).append(f"`{name}`")
        for why, names in settings_of.items():
            lines.append(f"| {kind.command} | {', '.join(names)} | {why} |")
    return "\n".join(lines) + "\n" + WHY


def merged(rows: list[tuple[str, ...]], places: tuple[int, ...] = (1, 0)) -> list[tuple[str, ...]]:
    """Join the variants, then the overlays and what else there is of rows that are equal."""
    for place in places:
        alike: dict[tuple[str, ...], list[str]] = {}
        for row in rows:
            alike.setdefault((*row[:place], "", *row[place + 1 :]), []).append(row[place])
        rows = [
            (*rest[:place], ("; " if place == 0 else ", ").join(names), *rest[place + 1 :])
            for rest, names in alike.items()
        ]
    return rows


def mark(cell: Cell, names: Collection[str] | str) -> str:
    """The mark of a cell; the measures that it lacks, if it lacks any."""
    if isinstance(names, str):
        return REFUSED
    wanted = zip(MEASURES, sensible(cell), strict=False)
    return ", ".join(f"no {one}" for one, of in wanted if not has(cell, names, of)) or YES


def _what_is_refused(cell: Cell, reason: str) -> str:
    """The value that the reason is about: what is refused without it, too, is about another."""
    for one, value in (
        ("overlay", "perfect"),
        ("variant", "plain"),
        ("delivery", "best-effort"),
        ("also", ""),
    ):
        if getattr(cell, one) == value:
            continue
        if _refusal(replace(cell, **{one: value})) == reason:
            continue
        beside = [cell.also] if cell.also and one != "also" else []
        if one != "delivery" and _refusal(replace(cell, delivery="best-effort")) != reason:
            beside.append(f"delivery {cell.delivery}")
        return " with ".join([f"{one} {getattr(cell, one)}", *beside])
    raise AssertionError(cell)


def _refusal(cell: Cell) -> str | None:
    """The reason for which a cell is refused, if it is."""
    try:
        config_of(cell)
    except InputError as refused:
        return refused.remedy
    return None


def test_every_reason_is_one_line_that_says_what_would_do():
    lines = set()
    for cell in CELLS:
        try:
            config_of(cell)
        except InputError as refused:
            lines.add(str(refused))
    assert len(lines) == 1
    assert all("\n" not in line and line.count(": ") >= 1 for line in lines)
