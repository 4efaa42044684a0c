"""The command line: flags and a TOML file in, one call out.

Flags are made from the fields of the config, so a field is described once.  Bad input is one line
on stderr and exit code 2, before Spark starts; nothing here imports pyspark until a run begins, so
``--help`` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from scribe_spark.config import (
    RUN_FIELDS,
    SECTIONS,
    Execution,
    FieldRecord,
    Paper,
    RunConfig,
    check_names,
    fields_of,
    read_toml,
    write_toml,
)
from scribe_spark.config.flatten import flatten
from scribe_spark.config.kinds import Kind
from scribe_spark.errors import InputError
from scribe_spark.runtime.interrupts import EXIT_CODE, interruptible

__all__ = ["PHASES", "job", "main"]

#: The phases of a run, in order; each reads the tables of those before it.
PHASES = ("topology", "overlay", "trees", "measures", "report")

#: Where a run goes that does not say.
OUT = "out/run"

#: Where the whole paper goes.
PAPER_OUT = "out/paper"

_PROGRAM = "scribe-spark"
_BAD_INPUT = 2


# ---------------------------------------------------------------- flags out of the config's fields


class _Value(click.ParamType):
    """A flag's text as a field's type; range and meaning are the config's to check."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.name = kind, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: Any) -> Any:
        field = param.name if param and param.name else "value"
        if not isinstance(value, str):
            return value
        if value.startswith("--"):
            raise InputError(field, "", f"needs a value; {value} is the next flag")
        return self.kind.parse(field, value)


_TEXT = _Value(Kind("str"))


def _options(fields: Iterable[FieldRecord], out: str = OUT) -> list[click.Option]:
    """One option a field; None means that it was not given."""
    made = []
    for field in fields:
        flag = "--" + field.flat.replace("_", "-")
        text, default = field.description, out if field.flat == "out" else field.typical
        if field.kind.name == "bool":
            spelling = flag if field.section == "execution" else f"{flag}/--no-{flag[2:]}"
            text += "  [default: on]" if field.default is True else ""
            made.append(click.Option([spelling], default=None, help=text, is_flag=True))
        else:
            text += f"  [default: {default}]" if default else ""
            metavar = field.type if field.kind.choices else None
            kind = _Value(field.kind)
            made.append(click.Option([flag], type=kind, metavar=metavar, help=text))
    return made


_EXECUTION = fields_of(Execution, "execution")
_PAPER = fields_of(Paper, "paper")
_RUN = _options([*RUN_FIELDS.values(), *_EXECUTION.values()])


_CONFIG = click.Option(
    ["--config"],
    type=_TEXT,
    metavar="FILE",
    help="TOML file with the flags' names (leaf_set = 16); flags win over it.",
)
_DRY_RUN = click.Option(
    ["--dry-run"], is_flag=True, help="Print the resolved config as TOML, and stop."
)
_SET = click.Option(
    ["--set", "sets"],
    type=_TEXT,
    multiple=True,
    metavar="FIELD=VALUE,...",
    help="Sweep this field over these values; may be repeated, for a grid. "
    "Wins over the file's table [sweep], which has lists: b = [1, 2, 4].",
)
_PHASE = click.Option(
    ["--phase", "phases"],
    type=_TEXT,
    multiple=True,
    metavar="|".join(PHASES),
    help="Only this phase, over the tables that the earlier ones left in OUT; may be repeated. "
    "Give the same flags as for the first phase: a folder from another config is refused.",
)


# ------------------------------------------------------------------- what the flags amount to


def _resolve(given: Mapping[str, Any]) -> tuple[RunConfig, Execution]:
    """The config and the execution out of flags, over the TOML file that they may name."""
    file, flags, execution = _sources(given)
    return RunConfig.of(file, flags), execution


def _sources(
    given: Mapping[str, Any], *tables: str
) -> tuple[dict[str, Any], dict[str, Any], Execution]:
    """What a file (with these tables, perhaps) and flags say of the config; the execution."""
    flags = {name: value for name, value in given.items() if value is not None}
    path = flags.pop("config", None)
    read = {} if path is None else read_toml(path)
    own = ["seed", "write_routing_table", *tables]
    file = flatten(read, {**SECTIONS, "execution": Execution}, [*own, *_EXECUTION])
    where = {n: v for n, v in (file | flags).items() if n in _EXECUTION}
    file, flags = ({n: v for n, v in some.items() if n not in where} for some in (file, flags))
    return file, flags, Execution(**{"out": OUT} | where)


# ------------------------------------------------------------------------------- the commands


def _run(phases: Sequence[str] = (), dry_run: bool = False, **given: Any) -> None:
    for phase in phases:
        check_names({phase: None}, list(PHASES), "phase")
    config, execution = _resolve(given)
    # a later phase goes on with what is in OUT, unless OUT is to be replaced
    if phases and PHASES[0] not in phases and not execution.overwrite:
        execution = execution.replace(resume=True)
    if dry_run:
        click.echo(write_toml(config.flat() | execution.flat()), nl=False)
        return
    from scribe_spark import experiments, progress

    experiments.check(config, execution)
    with _spark(execution, config) as spark:
        chosen = tuple(phase for phase in PHASES if phase in phases) or PHASES
        done = experiments.run(
            spark, config, execution, phases=chosen, progress=progress.pick(sys.stderr)
        )
    click.echo(done.out)


def _paper(**given: Any) -> None:
    flags = {name: value for name, value in given.items() if value is not None}
    whole = Paper(**{name: flags.pop(name) for name in _PAPER if name in flags})
    execution = Execution(**{"out": PAPER_OUT} | flags)
    from scribe_spark import progress
    from scribe_spark.experiments import paper

    paper.check(whole, execution)
    configs = [config for runs in whole.runs().values() for config in runs.values()]
    with _spark(execution, *configs) as spark:
        click.echo(paper.run(spark, whole, execution, progress=progress.pick(sys.stderr)))


def _sweep(sets: Sequence[str] = (), dry_run: bool = False, **given: Any) -> None:
    file, flags, execution = _sources(given, "sweep")
    from scribe_spark import experiments, progress

    swept = experiments.Sweep.of(file, flags, sets)
    if dry_run:
        base = {n: v for n, v in swept.base.as_dict().items() if n not in swept.grid}
        grid = {**swept.grid, "show": swept.show}
        click.echo(write_toml(base | execution.flat() | {"sweep": grid}), nl=False)
        return
    experiments.check_sweep(swept, execution)
    with _spark(execution, *[point.config for point in swept.points]) as spark:
        done = experiments.run_sweep(spark, swept, execution, progress.pick(sys.stderr))
    click.echo(done.out)


def _report(**given: Any) -> None:
    execution = Execution(**{"out": OUT} | {k: v for k, v in given.items() if v is not None})
    from scribe_spark import experiments

    with _spark(execution) as spark:
        click.echo(experiments.report(spark, execution.out))


@contextmanager
def _spark(execution: Execution, *configs: RunConfig) -> Iterator[Any]:
    """A session for `configs`, for the time of a ``with``; under spark-submit its master wins."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM
        from pyspark import SparkConf

        master = SparkConf().get("spark.master", execution.master) or execution.master
        execution = execution.replace(master=master)
    else:
        from scribe_spark.runtime.java import check_java

        check_java()
    from scribe_spark.runtime.session import session

    nodes = max([config.nodes for config in configs], default=1)
    spark = session(execution, nodes, sum(config.estimated_work for config in configs))
    try:
        with interruptible(spark):
            yield spark
    finally:
        spark.stop()


def _topology(out: str | None = None, **given: Any) -> None:
    config, _ = _resolve(given)
    from scribe_spark import topology

    graph = topology.load(config)
    if out is not None:
        routers = graph.vertices.rename(columns={"id": "router"})
        _write({"routers": routers, "links": graph.edges}, Path(out))
    for name, value in _statistics(config, graph.vertices, graph.edges).items():
        click.echo(f"{name:<20} {value}")


def _write(tables: Mapping[str, Any], out: Path) -> None:
    """Each pandas frame as a Parquet folder under `out`, which must not hold one yet."""
    for name, frame in tables.items():
        try:
            folder = out / name
            folder.mkdir(parents=True)
            frame.to_parquet(folder / "part-00000.parquet", index=False)
        except FileExistsError:
            raise InputError("out", str(out), f"already holds {name}; name another") from None
        except OSError as error:
            raise InputError("out", str(out), f"cannot be written ({error.strerror})") from None


_SAMPLE = 200  # routers whose routes are looked at, where all are too many


def _statistics(config: RunConfig, vertices: Any, edges: Any) -> dict[str, str]:
    """What is worth knowing of a topology before a run over it.

    Routes are means over ordered pairs of distinct routers; in a large network over those from a
    sample of routers.
    """
    import numpy as np

    from scribe_spark import draws
    from scribe_spark.topology.checks import MOST_ROUTERS
    from scribe_spark.underlay.dijkstra import LinkArrays, route_block

    links = LinkArrays.of(vertices["id"].to_numpy(), edges, config.topology.tie, config.seed)
    n, delay, hops = len(vertices), 0, 0
    few = min(n, _SAMPLE if n > MOST_ROUTERS else n)
    sampled = draws.distinct_below(n, few, config.seed, "sampled routers", 0)
    block = max(1, 2_500_000 // n)  # bounds the routes held at once
    for start in range(0, few, block):
        sources = sampled[start : start + block]
        delay_us, towards = route_block(links, sources)
        delay += int(delay_us.sum(dtype=np.int64))
        # every route of the block walks back to its source, a link a round
        row, at = np.nonzero(towards >= 0)
        while len(at):
            hops += len(at)
            at = towards[row, at]
            going = towards[row, at] >= 0
            row, at = row[going], at[going]
    pairs = max(1, few * (n - 1))
    of = "" if few == n else f"  (from {few:,} sampled routers)"
    return {
        "routers": f"{n:,}",
        "links (directed)": f"{len(edges):,}",
        "mean link delay": f"{edges['delay_ms'].mean() if len(edges) else 0:.2f} ms",
        "mean route delay": f"{delay / pairs / 1000:.2f} ms{of}",
        "mean route hops": f"{hops / pairs:.2f}{of}",
        "connected": "yes",  # load() refuses any other
    }


# ---------------------------------------------------------------------------------- click


@contextmanager
def _nearest(command: click.Command, ctx: click.Context) -> Iterator[None]:
    """Refuse an unknown flag with the nearest one, however far: click names only close ones."""
    try:
        yield
    except click.NoSuchOption as error:
        flags = [name for param in command.get_params(ctx) for name in param.opts]
        check_names({error.option_name: None}, flags, "flag")
        raise


class _Command(click.Command):
    """A command that tells of unknown flags and stray arguments like of any other bad input."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _nearest(self, ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.args:
            raise InputError("argument", ctx.args[0], "is not expected; see --help")
        return super().invoke(ctx)


class _Group(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _nearest(self, ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        check_names({args[0]: None}, list(self.commands), "command")
        return super().resolve_command(ctx, args)


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _run_command(name: str, call: Callable[..., None], *extra: click.Option) -> _Command:
    return _Command(
        name,
        callback=call,
        params=[*_RUN, _CONFIG, _DRY_RUN, *extra],
        short_help="Simulate, measure, draw.",
        help="Simulate Scribe over Pastry, measure it against the baselines, draw the figures. "
        "The defaults are the paper's experiment.",
        epilog=_examples(
            f"{_PROGRAM} run",
            f"{_PROGRAM} run --nodes 2000 --groups 50 --out out/small",
            f"{_PROGRAM} run --config data/paper.toml --seed 2 --out out/seed2",
            f"{_PROGRAM} run --config data/paper.toml --dry-run",
            f"{_PROGRAM} run --phase topology --out out/steps",
            f"{_PROGRAM} run --phase overlay --out out/steps",
        ),
    )


def _commands() -> _Group:
    out = click.Option(["--out"], type=_TEXT, help=f"Folder of a run.  [default: {OUT}]")
    (master,) = _options([_EXECUTION["master"]])
    save = click.Option(
        ["--out"], type=_TEXT, help="Also write routers and links there, as Parquet."
    )
    group = _Group(
        _PROGRAM,
        help="Scribe over Pastry on Spark: the evaluation of JSAC Section IV from one command.",
        epilog=_examples(
            f"{_PROGRAM} run --nodes 2000 --groups 50 --out out/small",
            f"{_PROGRAM} report --out out/small",
            f"{_PROGRAM} sweep --set b=1,2,4 --nodes 2000 --out out/b",
            f"{_PROGRAM} topology --seed 2",
            f"{_PROGRAM} paper --seeds 10 --out out/paper",
        )
        + "\n\nEach command has its own --help.",
    )
    group.add_command(_run_command("run", _run, _PHASE))
    group.add_command(
        _Command(
            "sweep",
            callback=_sweep,
            params=[_SET, *_RUN, _CONFIG, _DRY_RUN],
            short_help="A grid of runs, one table.",
            help="Run every point of a grid over config fields, each in OUT/field=value,.../, and "
            "put all their numbers into one table (OUT/sweep) and one page (OUT/sweep.html).",
            epilog=_examples(
                f"{_PROGRAM} sweep --set nodes=10000,100000 --set b=2,4 --out out/grid",
                f"{_PROGRAM} sweep --config data/sweep_b.toml --out out/b",
                f"{_PROGRAM} sweep --config data/sweep_b.toml --set b=2,8 --out out/b28",
                f"{_PROGRAM} sweep --config data/sweep_b.toml --out out/b --resume",
                f"{_PROGRAM} sweep --set 'variants=plain,\"collapse,lazy\"' --set seed=1,2,3",
            ),
        )
    )
    group.add_command(
        _Command(
            "paper",
            callback=_paper,
            params=_options([*_PAPER.values(), *_EXECUTION.values()], PAPER_OUT),
            short_help="Every experiment of Section IV, over ten topologies.",
            help="Run every experiment of Section IV over several topologies, each as a run of its "
            "own in OUT/EXPERIMENT/seed=SEED, and write their means beside the published numbers. "
            "With --resume what is whole in OUT is kept: an interrupted one goes on where it was, "
            "and more --seeds or --experiments add to it.",
            epilog=_examples(
                f"{_PROGRAM} paper",
                f"{_PROGRAM} paper --resume",
                f"{_PROGRAM} paper --seeds 3 --experiments small_groups --out out/small_groups",
                f"{_PROGRAM} paper --seeds 2 --scale 0.01 --out out/trial",
            ),
        )
    )
    group.add_command(
        _Command(
            "report",
            callback=_report,
            params=[out, master],
            help="Draw report.html and the figures again, from the tables of a run.",
            epilog=_examples(f"{_PROGRAM} report --out out/small"),
        )
    )
    group.add_command(
        _Command(
            "topology",
            callback=_topology,
            params=[*_options(RUN_FIELDS.values()), save, _CONFIG],
            help="Statistics of a topology; no Spark needed.",
            epilog=_examples(
                f"{_PROGRAM} topology",
                f"{_PROGRAM} topology --topology topohub:backbone/africa",
                f"{_PROGRAM} topology --seed 2 --out out/network",
            ),
        )
    )
    return group


def _start(command: click.Command, arguments: Sequence[str]) -> NoReturn:
    """Run `command`; whatever is wrong with the input is one line and exit code 2."""
    try:
        # not command.main(), which has words of its own for an interrupt
        with command.make_context(command.name, list(arguments)) as context:
            command.invoke(context)
    except click.exceptions.Exit:  # --help
        pass
    except click.BadOptionUsage as error:
        given = next((a for a in arguments if a.startswith(error.option_name)), error.option_name)
        _stop(f"flag = {given!r}: {error.format_message()}")
    except click.ClickException as error:
        _stop(f"arguments = {' '.join(arguments)!r}: {error.format_message()}")
    except InputError as error:
        _stop(str(error))
    except KeyboardInterrupt:
        line = "interrupted; the same command with --resume goes on after the last whole phase"
        click.echo(f"{_PROGRAM}: {line}", err=True)
        sys.exit(EXIT_CODE)
    sys.exit(0)


def _stop(line: str) -> NoReturn:
    click.echo(f"{_PROGRAM}: error: {' '.join(line.split())}", err=True)
    sys.exit(_BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script ``scribe-spark``."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _start(_commands(), arguments or ["--help"])


def job(*phases: str) -> NoReturn:
    """A script for ``spark-submit``: `phases` of a run (all, if none), by the same flags."""

    def call(**given: Any) -> None:
        _run(phases, **given)

    _start(_run_command(Path(sys.argv[0]).name, call), sys.argv[1:])


if __name__ == "__main__":
    main()
