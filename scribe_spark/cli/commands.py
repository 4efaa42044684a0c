"""The commands: each reads its flags and its file, then makes one call.

Functions import Spark, pandas and numpy, so that ``--help`` and bad input do not wait for these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from scribe_spark.cli.doctor import doctor
from scribe_spark.cli.flags import (
    CONFIG,
    DRY_RUN,
    EXECUTION_FIELDS,
    FAIL_BELOW,
    IMPORT,
    PAPER_FIELDS,
    PHASE,
    SET,
    TEXT,
    given_only,
    ignored,
    options,
    refuse_unused,
    refused,
    resolve,
    sources,
)
from scribe_spark.cli.parsing import Command, Flag, completion, tell, tell_toml
from scribe_spark.cli.sessions import check_where, end_session, open_session
from scribe_spark.config import (
    REFERENCE_TREE_FIELDS,
    RUN_FIELDS,
    WORLD_FIELDS,
    Execution,
    Paper,
    ReferenceTreeConfig,
    RunConfig,
    TopologyConfig,
    WorldConfig,
    fields_of,
)
from scribe_spark.config.execution import (
    COMPARE_OUT,
    PAPER_OUT,
    PHASES,
    REFERENCE_TREE_OUT,
    RUN_OUT,
    WORLD_OUT,
)
from scribe_spark.core.errors import InputError, RunError, check_names, one_line, shown
from scribe_spark.core.paths import is_local, local_contents, local_path, visible
from scribe_spark.core.registry import import_extensions
from scribe_spark.runtime.master import check_master

if TYPE_CHECKING:  # it imports Spark
    from scribe_spark.experiments import Floors

# the program finds these commands here, too
__all__ = ["completion", "doctor"]


_REMEDY = "make them again by their command with --resume"

# ------------------------------------------------------------------------------------- the calls


def _perform(
    check: Callable[[Execution], None],
    work: Callable[[Any, Any], str],
    execution: Execution,
    session: AbstractContextManager[Any],
    resolved: Mapping[str, Any] | None = None,
) -> None:
    """Check the input; then print the `resolved` settings, or the text that the work returns."""
    if resolved is not None:
        check_master(execution.master)
        check_where(execution)
        out, decided = execution.out, execution.resume or execution.overwrite
        undecided = not decided and is_local(out) and bool(visible(local_contents(out)[0]))
        check(execution.replace(overwrite=True) if undecided else execution)
        if undecided:
            there = f"{shown(out)} exists"
            tell(f"{there}: without --dry-run, --resume or --overwrite is needed", err=True)
        tell_toml({**resolved, **execution.flat()})
        return
    check(execution)
    from scribe_spark.core import progress
    from scribe_spark.report.page import preload

    loading = preload()  # while the JVM starts the session
    try:
        with session as spark:
            tell(work(spark, progress.pick(sys.stderr)))
    finally:
        loading.join()  # a thread that still works when Python ends can crash the process


def _session(
    execution: Execution, *configs: RunConfig | WorldConfig
) -> AbstractContextManager[Any]:
    return open_session(execution, **_size_of(configs))


def _begin(execution: Execution, config: RunConfig | WorldConfig) -> None:
    """Start the JVM of a later :func:`_session`, beside the imports and the check of the input."""
    from scribe_spark.runtime.session import begin

    begin(execution, **_size_of([config]))


def _size_of(configs: Sequence[RunConfig | WorldConfig]) -> dict[str, Any]:
    """Return the size of a session for several configs, as arguments of `open_session`."""
    return {
        "nodes": max([config.overlay.nodes for config in configs], default=1),
        "estimated_work": sum(config.estimated_work for config in configs),
        "worlds": bool(configs) and all(isinstance(config, WorldConfig) for config in configs),
    }


def _settings(config: Any) -> dict[str, Any]:
    """Return the settings of a config as the command will use them: defaults and graph included."""
    from scribe_spark.experiments.plan import settings_of

    return settings_of(config)[0]


def _play_one(
    config: RunConfig | WorldConfig,
    how: Execution,
    check: Callable[[Execution], None],
    work: Callable[[Any, Any], str],
    fail_below: Sequence[str],
    dry_run: bool,
) -> None:
    """Check and play one run or world, and the least values of its measures."""
    floors: Floors | None = None
    if fail_below:
        from scribe_spark import experiments

        floors = experiments.Floors.of(fail_below)
        floors.check_before(config, how.out)
    _perform(check, work, how, _session(how, config), _settings(config) if dry_run else None)
    if floors is not None and not dry_run:
        floors.check(how.out)


def _run(
    phases: Sequence[str] = (),
    fail_below: Sequence[str] = (),
    dry_run: bool = False,
    **given: Any,
) -> None:
    check_names(phases, PHASES, "phase")
    config, how = resolve(given)
    # a later phase continues the run in OUT, unless --overwrite replaces it
    if phases and PHASES[0] not in phases and not how.overwrite:
        how = how.replace(resume=True)
    chosen = tuple(phase for phase in PHASES if phase in phases) or PHASES
    if not dry_run:
        _begin(how, config)
    from scribe_spark import experiments

    def work(spark: Any, progress: Any) -> str:
        end = partial(end_session, spark)
        experiments.run(spark, config, how, chosen, progress, end_session=end).close()
        return how.out

    _play_one(config, how, partial(experiments.check, config), work, fail_below, dry_run)


def _sweep(sets: Sequence[str] = (), dry_run: bool = False, **given: Any) -> None:
    _run_sweep(RunConfig, *sources(given, "sweep"), sets, dry_run)


def _run_sweep(
    config: type[RunConfig] | type[WorldConfig],
    file: Mapping[str, Any],
    flags: Mapping[str, Any],
    how: Execution,
    sets: Sequence[str],
    dry_run: bool,
) -> None:
    from scribe_spark import experiments

    swept = experiments.Sweep.of(file, flags, sets, config)
    configs = [point.config for point in swept.points]
    listed = {name: ",".join(map(str, values)) for name, values in swept.grid.items()}
    refuse_unused({**flags, **listed}, configs)
    resolved = {n: v for n, v in _settings(swept.base).items() if n not in swept.grid}
    resolved["sweep"] = {**swept.grid, "show": swept.shown}

    _play_points(
        swept, how, _session(how, *configs), resolved if dry_run else None, lambda done: done.out
    )


def _play_points(
    sweep: Any,
    how: Execution,
    session: AbstractContextManager[Any],
    resolved: Mapping[str, Any] | None = None,
    told: Callable[[Any], str] = lambda done: done.page,
) -> None:
    """Check and play a sweep or a plan of points; print what `told` returns for the result."""
    from scribe_spark import experiments

    def work(spark: Any, progress: Any) -> str:
        return told(experiments.run_sweep(spark, sweep, how, progress))

    _perform(partial(experiments.check_sweep, sweep), work, how, session, resolved)


def _paper(**given: Any) -> None:
    flags = given_only(given)
    config = Paper(**{name: flags.pop(name) for name in PAPER_FIELDS if name in flags})
    how = Execution(**{"out": PAPER_OUT} | flags)
    from scribe_spark.experiments.paper import PaperSweep

    sweep = PaperSweep(config)
    _play_points(sweep, how, _session(how, *sweep.configs.values()))


def _report(imports: Sequence[str] = (), **given: Any) -> None:
    import_extensions(imports)
    how = _stored(RUN_OUT, given_only(given))
    from scribe_spark import experiments
    from scribe_spark.core import progress

    with _session_of(how) as spark:
        tell(experiments.report(spark, how.out, progress.pick(sys.stderr).note))


def _stored(usual: str, flags: dict[str, Any]) -> Execution:
    """Return the execution of a command that reads the folder OUT, by default `usual`."""
    how = Execution(**{"out": usual} | flags)
    for name in {"master", "remote"} & flags.keys() if is_local(how.out) else ():
        remedy = "applies only if OUT is on another machine; leave it out"
        raise InputError(name, flags[name], remedy)
    return how


def _session_of(how: Execution) -> AbstractContextManager[Any]:
    """Return a session to read the folder OUT, or None if OUT is on this machine."""
    return nullcontext() if is_local(how.out) else _session(how)


def _verify(place: str | None = None, **given: Any) -> None:
    flags = given_only(given)
    if place is not None and "out" in flags:
        raise InputError("argument", place, "is not expected beside --out; give one of them")
    how = _stored(RUN_OUT if place is None else place, flags)
    out = how.out
    from scribe_spark import experiments

    experiments.check_verify(out)
    with _session_of(how) as spark:
        found = experiments.verify(out, spark)
    for line in found.damaged:
        tell(line)
    looked = f"{out}: {found.owner.noun}; tables: {found.tables}, texts: {found.texts}"
    if found.damaged:
        raise RunError(f"{looked}, damaged: {len(found.damaged)}; {_REMEDY}")
    unfinished = "" if found.finished else "; not finished: continue with --resume"
    tell(f"{looked}, all as written{unfinished}")


def _world(
    sets: Sequence[str] = (),
    fail_below: Sequence[str] = (),
    dry_run: bool = False,
    **given: Any,
) -> None:
    file, flags, how = sources(given, "sweep", config=WorldConfig, out=WORLD_OUT)
    if sets or "sweep" in file:
        if fail_below:
            raise InputError(
                "fail_below", fail_below[0], "applies to one world; leave out the sweep"
            )
        _run_sweep(WorldConfig, file, flags, how, sets, dry_run)
        return
    config = WorldConfig.of(file, flags)
    refuse_unused(flags, [config])
    if not dry_run:
        _begin(how, config)
    from scribe_spark import experiments

    events = None

    def check(execution: Execution) -> None:
        nonlocal events
        events = experiments.check_world_run(config, execution)

    def work(spark: Any, progress: Any) -> str:
        return experiments.run_world(spark, config, how, progress, events=events)

    _play_one(config, how, check, work, fail_below, dry_run)


def _reference_tree(dry_run: bool = False, **given: Any) -> None:
    file, flags, how = sources(given, config=ReferenceTreeConfig, out=REFERENCE_TREE_OUT)
    config = ReferenceTreeConfig.of(file, flags)
    refuse_unused(flags, [config])
    from scribe_spark import experiments

    sweep = experiments.TreeSweep(config)
    session = open_session(how, sweep.nodes, config.estimated_work)
    _play_points(sweep, how, session, _settings(config) if dry_run else None)


def _compare(
    folders: Sequence[str],
    fail_above: Sequence[str] = (),
    fail_below: Sequence[str] = (),
    any_version: bool = False,
    **given: Any,
) -> None:
    from scribe_spark import experiments

    limits, floors = experiments.Limits.of(fail_above), experiments.Floors.of(fail_below)
    if len(folders) == 1 and fail_below and not fail_above:
        floors.check(folders[0])
        tell(f"{folders[0]}: no measure is below its limit")
        return
    out = Execution(**{"out": COMPARE_OUT} | given_only(given)).out
    found = experiments.compare(folders, out, limits, any_version)
    for line in experiments.missing_measures(found.sides, found.rows):
        tell(line, err=True)
    tell(found.summary())
    tell(found.page)
    found.check(limits)
    for folder in folders:
        floors.check(folder)


def _topology(file: str | None = None, out: str | None = None, **given: Any) -> None:
    if file is not None:
        for name in ("topology", "regions"):
            if given.get(name) is not None:
                remedy = f"is not expected beside --{name}; give one of them"
                raise InputError("argument", file, remedy)
        given["topology"] = file
    config, _ = resolve(given)
    from scribe_spark.core.node_classes import read_nodes
    from scribe_spark.topology.registry import load
    from scribe_spark.underlay.routable import statistics

    if config.topology.nodes_file is not None:  # which has all nodes
        count = read_nodes(config.topology.nodes_file).count
        config = config.replace(nodes=count, groups=0)
    if out is not None:
        from scribe_spark.experiments.checks import check_new

        out = Execution(out=out).out
        check_new(out)
    graph = load(config)
    if out is not None:
        _write_network("routers", graph.vertices.rename(columns={"id": "router"}), out)
        _write_network("links", graph.edges, out)
    for name, value in statistics(graph, config.topology.tie, config.seed).items():
        tell(f"{name:<20} {value}")
    for note in graph.notes:
        tell(f"{'note':<20} {note}")


def _write_network(name: str, frame: Any, out: str) -> None:
    """Write a pandas frame as a Parquet table with a name into the folder OUT."""
    folder = local_path(out) / name
    try:
        folder.mkdir(parents=True)
        frame.to_parquet(folder / "part-00000.parquet", index=False)
    except OSError as error:
        raise InputError("out", out, f"cannot be written ({one_line(error)})") from None


# ---------------------------------------------------------------------------------- the commands

_RUN_FLAGS = [
    *options([*RUN_FIELDS.values(), *EXECUTION_FIELDS.values()]),
    *refused(RunConfig.refused_fields()),
]


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  scribe-spark {line}" for line in lines)


run = Command(
    "run",
    callback=_run,
    params=[*_RUN_FLAGS, CONFIG, IMPORT, DRY_RUN, PHASE, FAIL_BELOW],
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
    help="Draw report.html and the figures of a run again, from its tables. A local OUT needs no "
    "Spark.",
    epilog=_examples("report --out out/small"),
)


#: The fields that decide about routers and links.
_OF_NETWORK = [RUN_FIELDS["seed"], *fields_of(TopologyConfig, "topology").values()]

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
            help="Exit with 1 if a measure differs from that of the first folder by more than a "
            "percentage: 5% applies to all headline measures (those at the top of a report), "
            "scribe.rad.median=2% to one measure; may be repeated",
        ),
        FAIL_BELOW,
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
    "other, and the settings that differ; compare.csv and compare.json have all measures. One "
    "folder is enough for --fail-below. Needs no Spark.",
    epilog=_examples(
        "compare out/before out/after",
        "compare out/before out/after --fail-above 5% --fail-above scribe.rad.median=1%",
        "compare out/run --fail-below scribe.within_800ms=99%",
        "compare out/d6 out/d8 out/d12 --out out/degrees",
    ),
)

topology = Command(
    "topology",
    callback=_topology,
    params=[
        click.Argument(["file"], type=TEXT, metavar="FILE", required=False),
        *options(_OF_NETWORK),
        *ignored(
            [field for field in RUN_FIELDS.values() if field not in _OF_NETWORK],
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
        *refused(WorldConfig.refused_fields()),
        CONFIG,
        IMPORT,
        DRY_RUN,
        FAIL_BELOW,
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

reference_tree = Command(
    "reference-tree",
    callback=_reference_tree,
    params=[
        *options([*REFERENCE_TREE_FIELDS.values(), *EXECUTION_FIELDS.values()], REFERENCE_TREE_OUT),
        CONFIG,
        DRY_RUN,
    ],
    help="Measure the tree that Costa and Frey maintain over the hosts of a DHT: node degrees and "
    "reconfiguration areas while hosts connect and disconnect (Figures 3 and 4 of their paper), "
    "also with more children per key and with many hosts. --resume continues after the last "
    "complete number of hosts.",
    epilog=_examples(
        "reference-tree",
        "reference-tree --children 2,3,4,7,15 --out out/degrees",
        "reference-tree --hosts 120 --connections 10000 --assignment pastry",
        "reference-tree --scaling 1000,10000,100000,1000000 --out out/large",
        "reference-tree --scaling 10000 --assignment pastry --dht routed",
    ),
)
