"""Check that results are the same as those of earlier code, by digests of tables and metrics.

Examples
--------
Run every configuration and world, some of them, or the paper's experiments with seed 1 (minutes)::

    python tests/golden/digests.py
    python tests/golden/digests.py --only b1_leaf2 --only world_reliable
    python tests/golden/digests.py --worlds
    python tests/golden/digests.py --paper

In a session of Spark Connect, of a server that is there or is started for the time being; and of
one that, as Databricks' serverless compute, keeps no tables::

    python tests/golden/digests.py --remote 'local[2]'
    python tests/golden/digests.py --remote 'local[2]' --refusing

Record anew, with the package that is in another folder::

    PYTHONPATH=FOLDER python tests/golden/digests.py --record --package FOLDER

``digests.json``, ``worlds.json`` and ``paper_seed1.json`` are results of the code that is the
reference.  They are not recorded again when a fault is mended; ``mended.json`` says what differs
since, and why::

    python tests/golden/digests.py --only members_csv --mended "Figure 6 is by rank, not by id"
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from configurations import CONFIGURATIONS, write_inputs
from played_worlds import WORLDS, play_world, write_world_inputs
from recorded import Recorded, read_recorded, write_mended, write_recorded
from results import Columns, choose_columns, differences, read_results

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "data"

SMALL, PLAYED, PAPER = (HERE / f"{name}.json" for name in ("digests", "worlds", "paper_seed1"))
MENDED = HERE / "mended.json"

#: The runs of `scribe-spark paper --seeds 1`, and the folder of each in its OUT.
PAPER_RUNS = {f"paper_{name}": f"{name}/seed=1" for name in ("main", "small_groups", "internet")}

#: The flags of every run and world, by name.
FLAGS = CONFIGURATIONS | WORLDS


def run_config(name: str, folder: Path, spark: Any = None, partitions: int | None = None) -> Path:
    """Run a configuration or a world in a subfolder of `folder`, beside its input files; return it.

    Without a session, the active one is used, or one is made that stays open.
    """
    import scribe_spark
    from scribe_spark.core.progress import Silent

    inputs, out = folder / "inputs", folder / name
    inputs.mkdir(parents=True, exist_ok=True)
    write_inputs(inputs)
    write_world_inputs(inputs)
    flags = {
        flag: value.format(inputs=inputs, data=DATA) if isinstance(value, str) else value
        for flag, value in FLAGS[name].items()
    }
    if name in WORLDS:
        return play_world(name, flags, folder, spark, partitions)
    done = scribe_spark.run(
        scribe_spark.RunConfig(**flags), str(out), spark=spark, partitions=partitions,
        overwrite=True, progress=Silent(),
    )  # fmt: skip
    done.simulation.close()
    return out


def run_paper(out: Path) -> None:
    """Run the paper's experiments with seed 1, but those that are complete in `out`."""
    from scribe_spark.cli import main

    main(["paper", "--seeds", "1", "--out", str(out), "--resume"])


def _folder(name: str, options: argparse.Namespace, out: Path) -> Path:
    """The folder of the run `name`, which is made now unless it is one of the paper's."""
    if options.paper:
        return out / PAPER_RUNS[name]
    return run_config(name, out, partitions=options.partitions)


def golden_of(name: str) -> tuple[Path, Iterable[str]]:
    """The file in which the results of `name` are recorded, and all names that are."""
    if name in PAPER_RUNS:
        return PAPER, PAPER_RUNS
    return (PLAYED, WORLDS) if name in WORLDS else (SMALL, CONFIGURATIONS)


def record(options: argparse.Namespace, out: Path, package: Path) -> None:
    """Write the results of the runs asked for into the file that later code is compared with."""
    columns: dict[Path, Columns] = {}
    for name in options.names:
        started = time.monotonic()
        golden, names = golden_of(name)
        if golden not in columns:
            columns[golden] = read_recorded(golden, MENDED).columns if options.only else {}
        folder = _folder(name, options, out)
        columns[golden] = choose_columns(folder, columns[golden])
        results = {"flags": FLAGS.get(name)} | read_results(folder, columns[golden])
        # written at once, so that nothing is lost when a later run fails
        write_recorded(golden, Recorded(columns[golden], {name: results}), names, package)
        print(f"{name}: recorded ({time.monotonic() - started:.1f} s)", flush=True)


def check(options: argparse.Namespace, out: Path) -> list[str]:
    """Compare the results of the runs asked for with those recorded; the names of other ones."""
    wrong = []
    for name in options.names:
        started = time.monotonic()
        recorded = read_recorded(golden_of(name)[0], MENDED)
        before = recorded.results.get(name, {"flags": "(not recorded)"})
        if before["flags"] != FLAGS.get(name):
            print(f"{name}: is not recorded with these flags")
            wrong.append(name)
            continue
        try:
            found = read_results(_folder(name, options, out), recorded.columns)
        except Exception:  # the other runs are compared all the same
            traceback.print_exc()
            print(f"{name}: FAILED", flush=True)
            wrong.append(name)
            continue
        changes = list(differences(before, found))
        seconds = time.monotonic() - started
        print(f"{name}: {'DIFFERENT' if changes else 'same'} ({seconds:.1f} s)", flush=True)
        for change in changes:
            print(f"  {change}", flush=True)
        if changes and options.mended:
            write_mended(MENDED, name, changes, options.mended)
        elif changes:
            wrong.append(name)
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    options = _parse(arguments)
    import scribe_spark

    package = Path(scribe_spark.__file__).resolve().parent
    print(f"package: {package}", flush=True)
    if options.record and options.package.resolve() != package.parent:
        print(f"error: scribe_spark is not imported from {options.package}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        out, wrong = options.out or Path(temporary), []
        if options.remote:
            _connect(options.remote, options.refusing, Path(temporary))
        if options.paper:
            run_paper(out)
        if options.record:
            record(options, out, package)
        else:
            wrong = check(options, out)
    if wrong:
        print(f"{len(wrong)} of {len(options.names)} are not as recorded: {', '.join(wrong)}")
    elif not options.record:
        print(f"all {len(options.names)} are as recorded")
    return 1 if wrong else 0


def _connect(remote: str, refusing: bool, folder: Path) -> None:
    """Make the session that runs and worlds find."""
    from scribe_spark import Execution, session

    if refusing:
        import refusing_server

        refusing_server.refuse()
    session(Execution(out=str(folder), remote=remote, scratch=str(folder / "scratch")))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    text = __doc__.partition("\n")[0] if __doc__ else ""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--paper", action="store_true", help="the paper's experiments, seed 1")
    which.add_argument("--worlds", action="store_true", help="worlds alone")
    parser.add_argument("--partitions", type=int, help="results must not depend on them")
    parser.add_argument("--remote", metavar="URL", help="play in a session of Spark Connect")
    parser.add_argument("--refusing", action="store_true", help="and let it keep no tables")
    parser.add_argument("--out", type=Path, help="keep the runs in this folder")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--check", action="store_true", help="compare; what is done by default")
    does.add_argument("--record", action="store_true", help="write what is compared with")
    does.add_argument("--mended", metavar="REASON", help="note that what differs does so rightly")
    parser.add_argument("--package", type=Path, help="--record: folder that holds scribe_spark")
    options = parser.parse_args(arguments)
    known = list(PAPER_RUNS if options.paper else WORLDS if options.worlds else FLAGS)
    options.names = options.only or known
    for name in options.names:
        if name not in known:
            parser.error(f"--only {name}: is unknown; there are {', '.join(known)}")
    if options.record and options.package is None:
        parser.error("--record needs --package, the folder of the code that is the reference")
    return options


if __name__ == "__main__":
    sys.exit(main())
