"""The commands: each reads its flags and its file, then makes one call.

Spark, pandas and numpy are imported by the call, so that ``--help`` and bad input do not wait for
them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from scribe_spark.cli.completion import completion
from scribe_spark.cli.doctor import doctor
from scribe_spark.cli.dry_run import dry_run as show
from scribe_spark.cli.flags import (
    CONFIG,
    DRY_RUN,
    EXECUTION_FIELDS,
    IMPORT,
    PAPER_FIELDS,
    PHASE,
    SET,
    TEXT,
    given_only,
    ignored,
    options,
    refused,
    resolve,
    sources,
)
from scribe_spark.cli.output import tell
from scribe_spark.cli.parsing import Command, Flag
from scribe_spark.cli.reference_tree import reference_tree
from scribe_spark.cli.sessions import open_session
from scribe_spark.cli.unused import refuse_unused
from scribe_spark.config import (
    RUN_FIELDS,
    WORLD_FIELDS,
    Execution,
    FieldRecord,
    Paper,
    RunConfig,
    TopologyConfig,
    WorldConfig,
    fields_of,
)
from scribe_spark.config.execution import COMPARE_OUT, PAPER_OUT, PHASES, RUN_OUT, WORLD_OUT
from scribe_spark.core.extensions import import_extensions
from scribe_spark.core.paths import is_local
from scribe_spark.errors import InputError, RunError, check_names

__all__ = [
    "compare",
    "completion",
    "doctor",
    "paper",
    "reference_tree",
    "report",
    "run",
    "sweep",
    "topology",
    "verify",
    "world",
]


_REMEDY = "make them again by their command with --resume"

# ------------------------------------------------------------------------------------- the calls


def _run(phases: Sequence[str] = (), dry_run: bool = False, **given: Any) -> None:
    check_names(phases, PHASES, "phase")
    config, execution = resolve(given)
    # a later phase continues the run in OUT, unless --overwrite replaces it
    if phases and PHASES[0] not in phases and not execution.overwrite:
        execution = execution.replace(resume=True)
    from scribe_spark import experiments, progress

    if dry_run:
        show(partial(experiments.check, config), execution, config.flat() | execution.flat())
        return
    experiments.check(config, execution)
    with _session(execution, config) as spark:
        chosen = tuple(phase for phase in PHASES if phase in phases) or PHASES
        shown = progress.pick(sys.stderr)
        experiments.run(spark, config, execution, phases=chosen, progress=shown).close()
    tell(execution.out)


def _sweep(sets: Sequence[str] = (), dry_run: bool = False, **given: Any) -> None:
    _run_sweep(RunConfig, *sources(given, "sweep"), sets, dry_run)


def _run_sweep(
    config: type[RunConfig] | type[WorldConfig],
    file: Mapping[str, Any],
    flags: Mapping[str, Any],
    execution: Execution,
    sets: Sequence[str],
    dry_run: bool,
) -> None:
    from scribe_spark import experiments, progress

    swept = experiments.Sweep.of(file, flags, sets, config)
    refuse_unused(flags, [point.config for point in swept.points])
    if dry_run:
        base = {n: v for n, v in swept.base.flat().items() if n not in swept.grid}
        grid = {"sweep": {**swept.grid, "show": swept.shown}}
        show(partial(experiments.check_sweep, swept), execution, base | execution.flat() | grid)
        return
    experiments.check_sweep(swept, execution)
    with _session(execution, *[point.config for point in swept.points]) as spark:
        done = experiments.run_sweep(spark, swept, execution, progress.pick(sys.stderr))
    tell(done.out)


def _paper(**given: Any) -> None:
    flags = given_only(given)
    experiments = Paper(**{name: flags.pop(name) for name in PAPER_FIELDS if name in flags})
    execution = Execution(**{"out": PAPER_OUT} | flags)
    from scribe_spark import progress
    from scribe_spark.experiments import paper

    paper.check(experiments, execution)
    configs = [config for runs in experiments.runs().values() for config in runs.values()]
    with _session(execution, *configs) as spark:
        tell(paper.run(spark, experiments, execution, progress.pick(sys.stderr)))


def _report(imports: Sequence[str] = (), **given: Any) -> None:
    import_extensions(imports)
    execution = Execution(**{"out": RUN_OUT} | given_only(given))
    from scribe_spark import experiments, progress

    experiments.check_report(execution.out)
    with _session(execution) as spark:
        shown = progress.pick(sys.stderr)
        tell(experiments.report(spark, execution.out, shown.note))


def _verify(place: str | None = None, **given: Any) -> None:
    flags = given_only(given)
    if place is not None and "out" in flags:
        raise InputError("argument", place, "is not expected beside --out; give one of them")
    execution = Execution(**{"out": RUN_OUT if place is None else place} | flags)
    out = execution.out
    for name in {"master", "remote"} & flags.keys() if is_local(out) else ():
        raise InputError(
            name, flags[name], "applies only if OUT is on another machine; leave it out"
        )
    from scribe_spark import experiments

    experiments.check_verify(out)
    session = nullcontext() if is_local(out) else _session(execution)
    with session as spark:
        found = experiments.verify(out, spark)
    for line in found.damaged:
        tell(line)
    looked = f"{out}: {found.noun}; tables: {found.tables}, texts: {found.texts}"
    if found.damaged:
        raise RunError(f"{looked}, damaged: {len(found.damaged)}; {_REMEDY}")
    unfinished = "" if found.finished else "; not finished: continue with --resume"
    tell(f"{looked}, all as written{unfinished}")


def _world(sets: Sequence[str] = (), dry_run: bool = False, **given: Any) -> None:
    file, flags, execution = sources(given, "sweep", config=WorldConfig, out=WORLD_OUT)
    if sets or "sweep" in file:
        _run_sweep(WorldConfig, file, flags, execution, sets, dry_run)
        return
    config = WorldConfig.of(file, flags)
    refuse_unused(flags, [config])
    from scribe_spark import experiments, progress

    if dry_run:
        resolved = config.flat() | execution.flat()
        show(partial(experiments.check_world_run, config), execution, resolved)
        return
    experiments.check_world_run(config, execution)
    with _session(execution, config) as spark:
        shown = progress.pick(sys.stderr)
        tell(experiments.run_world(spark, config, execution, shown))


def _compare(
    folders: Sequence[str], fail_above: Sequence[str] = (), any_version: bool = False, **given: Any
) -> None:
    from scribe_spark import experiments

    limits = experiments.Limits.of(fail_above)
    out = given_only(given).get("out", COMPARE_OUT)
    found = experiments.compare(folders, out, limits, any_version)
    for line in experiments.missing_measures(found.sides, found.rows):
        tell(line, err=True)
    tell(found.summary())
    tell(found.page)
    found.check(limits)


def _topology(file: str | None = None, out: str | None = None, **given: Any) -> None:
    if file is not None:
        for name in ("topology", "regions"):
            if given.get(name) is not None:
                remedy = f"is not expected beside --{name}; give one of them"
                raise InputError("argument", file, remedy)
        given["topology"] = file
    config, _ = resolve(given)
    from scribe_spark import topology
    from scribe_spark.cli.network import write_network
    from scribe_spark.underlay.statistics import statistics

    graph = topology.load(config)
    if out is not None:
        routers = graph.vertices.rename(columns={"id": "router"})
        write_network({"routers": routers, "links": graph.edges}, Path(out))
    for name, value in statistics(graph, config.topology.tie, config.seed).items():
        tell(f"{name:<20} {value}")
    for note in graph.notes:
        tell(f"{'note':<20} {note}")


def _session(
    execution: Execution, *configs: RunConfig | WorldConfig
) -> AbstractContextManager[Any]:
    """Return a context manager with a session for `configs`."""
    nodes = max([config.overlay.nodes for config in configs], default=1)
    worlds = bool(configs) and all(isinstance(config, WorldConfig) for config in configs)
    work = sum(config.estimated_work for config in configs)
    return open_session(execution, nodes, work, worlds=worlds)


# ---------------------------------------------------------------------------------- the commands

_RUN_FLAGS = [
    *options([*RUN_FIELDS.values(), *EXECUTION_FIELDS.values()]),
    *refused(RunConfig.elsewhere),
]


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  scribe-spark {line}" for line in lines)


run = Command(
    "run",
    callback=_run,
    params=[*_RUN_FLAGS, CONFIG, IMPORT, DRY_RUN, PHASE],
    help="Simulate multicast systems, by default Scribe over Pastry; compare their delays and "
    "loads with IP multicast, and draw the figures. The defaults are the experiment of the "
    "Scribe paper (JSAC 2002), as in data/paper.toml.",
    epilog=_examples(
        "run",
        "run --nodes 2000 --groups 50 --out out/small",
        "run --config data/paper.toml --seed 2 --out out/seed2",
        "run --config data/paper.toml --dry-run",
        "run --phase topology --out out/steps",
        "run --phase overlay --out out/steps",
    ),
)

sweep = Command(
    "sweep",
    callback=_sweep,
    params=[SET, *_RUN_FLAGS, CONFIG, IMPORT, DRY_RUN],
    help="Run an experiment for each point of a grid of settings. Each run has its own folder "
    "OUT/field=value,.../; the numbers of all runs are in one table (OUT/sweep) and on one page "
    "(OUT/sweep.html).",
    epilog=_examples(
        "sweep --set nodes=10000,100000 --set b=2,4 --out out/grid",
        "sweep --config data/sweep_b.toml --out out/b",
        "sweep --config data/sweep_b.toml --set b=2,8 --out out/b28",
        "sweep --config data/sweep_b.toml --out out/b --resume",
        "sweep --set 'variants=plain,\"collapse,lazy\"' --set seed=1,2,3",
    ),
)

paper = Command(
    "paper",
    callback=_paper,
    params=options([*PAPER_FIELDS.values(), *EXECUTION_FIELDS.values()], PAPER_OUT),
    help="Run every experiment of Section IV of the Scribe paper over several topologies, each as "
    "a run in OUT/EXPERIMENT/seed=SEED, and write their means beside the published numbers. "
    "--resume keeps the complete runs in OUT, continues an interrupted one, and adds runs if you "
    "give more --seeds or --experiments.",
    epilog=_examples(
        "paper",
        "paper --resume",
        "paper --seeds 3 --experiments small_groups --out out/small_groups",
        "paper --seeds 2 --scale 0.01 --out out/trial",
    ),
)

report = Command(
    "report",
    callback=_report,
    params=[
        Flag(["--out"], type=TEXT, help=f"Folder of a run  [default: {RUN_OUT}]"),
        IMPORT,
        *options([EXECUTION_FIELDS["master"], EXECUTION_FIELDS["remote"]]),
    ],
    help="Draw report.html and the figures of a run again, from its tables.",
    epilog=_examples("report --out out/small"),
)


def _of_network() -> list[FieldRecord]:
    """Return the fields that decide about routers and links."""
    return [RUN_FIELDS["seed"], *fields_of(TopologyConfig, "topology").values()]


verify = Command(
    "verify",
    callback=_verify,
    params=[
        click.Argument(["place"], type=TEXT, metavar="OUT", required=False),
        Flag(["--out"], type=TEXT, help=f"Another way to give OUT  [default: {RUN_OUT}]"),
        *options([EXECUTION_FIELDS["master"], EXECUTION_FIELDS["remote"]]),
    ],
    help="Check that all tables and texts in OUT are as they were written. OUT contains a run, a "
    "sweep, a world, the whole paper, or experiments with the reference tree. If files are "
    "damaged, print a line for each and exit with 1. Pages and figures are not checked, as "
    "`report` can draw them again.",
    epilog=_examples("verify out/small", "verify s3a://bucket/run"),
)

compare = Command(
    "compare",
    callback=_compare,
    params=[
        click.Argument(["folders"], type=TEXT, metavar="FOLDER FOLDER ...", nargs=-1),
        Flag(
            ["--fail-above"],
            type=TEXT,
            multiple=True,
            metavar="[MEASURE=]PERCENT",
            help="Exit with 1 if any headline measure (5%), or the named measure "
            "(scribe.rad.median=2%), differs from the first folder's by more than this percentage; "
            "may be repeated",
        ),
        Flag(
            ["--any-version"],
            is_flag=True,
            help="Also compare folders that different versions of scribe_spark wrote",
        ),
        Flag(
            ["--out"],
            type=TEXT,
            help="Folder for the page and the tables; an earlier comparison is replaced  "
            f"[default: {COMPARE_OUT}]",
        ),
    ],
    help="Compare runs, or worlds, with the first one. OUT/compare.html shows the headline "
    "measures (the numbers on top of a report) with their differences, the figures over each "
    "other, and the settings that differ; compare.csv and compare.json have all measures. Needs "
    "no Spark.",
    epilog=_examples(
        "compare out/before out/after",
        "compare out/before out/after --fail-above 5% --fail-above scribe.rad.median=1%",
        "compare out/d6 out/d8 out/d12 --out out/degrees",
    ),
)

topology = Command(
    "topology",
    callback=_topology,
    params=[
        click.Argument(["file"], type=TEXT, metavar="FILE", required=False),
        *options(_of_network()),
        *ignored(
            [field for field in RUN_FIELDS.values() if field not in _of_network()],
            "has no effect on the network, which is all that this command shows; leave it out",
        ),
        Flag(
            ["--out"], type=TEXT, help="Also write the routers and links to this folder, as Parquet"
        ),
        CONFIG,
    ],
    help="Print statistics of a topology, and the assumptions about values that its file lacks. "
    "Needs no Spark. FILE is the same as --topology FILE.",
    epilog=_examples(
        "topology",
        "topology network.gml",
        "topology --regions azure",
        "topology --topology topohub:backbone/africa",
        "topology --seed 2 --out out/network",
    ),
)

world = Command(
    "world",
    callback=_world,
    params=[
        SET,
        *options([*WORLD_FIELDS.values(), *EXECUTION_FIELDS.values()], WORLD_OUT),
        *refused(WorldConfig.elsewhere),
        CONFIG,
        IMPORT,
        DRY_RUN,
    ],
    help="Simulate an overlay in rounds: nodes arrive, leave, fail and recover, by a table of "
    "events or a generator; the overlay repairs itself; each round is measured. --resume continues "
    "after the last saved round. With --set, or a table [sweep] in the TOML file, simulate a world "
    "for each point of a grid of settings: each has its own folder OUT/field=value,.../; the "
    "numbers of all worlds are in one table (OUT/sweep) and on one page (OUT/sweep.html).",
    epilog=_examples(
        "world --config data/world_mass_failure.toml",
        "world --nodes 2000 --generator churn --lifetime 50 --rounds 40 --out out/churn",
        "world --events events.csv --rounds 50 --out out/world",
        "world --overlay arrivals --nodes 5000 --generator flash-crowd --share 0.5",
        "world --config data/world_mass_failure.toml --set repair=lazy,none --out out/repair",
    ),
)
