"""The whole paper, tiny: its runs, what they are together, and that it goes on where it was."""

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
from damage import assert_all_damage_is_told

from scribe_spark import config
from scribe_spark.config import Execution, Paper, PaperExperiment
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import check_sweep, run_sweep, stages
from scribe_spark.experiments.paper import PaperSweep

from .conftest import SMALL, Notes, content, left, manifest

pytestmark = pytest.mark.slow

NETWORK = {name: v for name, v in SMALL.items() if name not in ("nodes", "groups")}
TINY = {
    "main": PaperExperiment(dict(nodes=120, groups=4, **NETWORK)),
    "small_groups": PaperExperiment(dict(nodes=60, groups=5, group_size=6, **NETWORK), seeds=1),
}
BOTH = ",".join(TINY)
WHOLE = Paper(seeds=2, experiments=BOTH)
RUNS = ["main/seed=1", "small_groups/seed=1", "main/seed=2"]


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """Experiments of the same names, small enough to be run here."""
    with pytest.MonkeyPatch.context() as patch:
        for name, experiment in TINY.items():
            patch.setitem(config.EXPERIMENTS, name, experiment)
        yield


@pytest.fixture(scope="module")
def done(spark, tmp_path_factory) -> Path:
    """Two topologies, of the first two experiments; whole, not to be changed."""
    seeds = []

    def counted(spark, routers, links, tie, seed):
        seeds.append(seed)
        return compute(spark, routers, links, tie, seed)

    def held() -> set[int]:
        return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())

    compute, before = stages.compute_routes, held()
    out = tmp_path_factory.mktemp("paper") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "compute_routes", counted)
        page = run_sweep(
            spark, PaperSweep(WHOLE), Execution(out=str(out), partitions=2), Notes()
        ).page
    assert page == f"{out}/report.html"
    assert seeds == [1, 2]
    assert not held() - before  # nothing piles up from seed to seed
    return out


@pytest.fixture
def copy(done, tmp_path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "out"))


@pytest.mark.slow
def test_all_that_a_paper_left_can_be_verified(copy):
    assert_all_damage_is_told(copy)


def go_on(spark, out: Path, whole: Paper = WHOLE) -> list[str]:
    """What a resumed paper told."""
    notes = Notes()
    sweep, how = PaperSweep(whole), Execution(out=str(out), partitions=2, resume=True)
    check_sweep(sweep, how)
    run_sweep(spark, sweep, how, notes)
    return notes.lines


def numbers(out: Path) -> list[dict[str, Any]]:
    return json.loads((out / "metrics.json").read_text())


def made(out: Path) -> dict[str, dict[str, float]]:
    """Seconds of each phase of each run, but for the report, which is always drawn again."""
    return {
        run: {e["name"]: e["seconds"] for e in manifest(out / run)["phases"] if e["tables"]}
        for run in RUNS
    }


def together(out: Path) -> dict[str, Any]:
    """What the runs are together: records of the tables and texts, and the figures."""
    record = manifest(out)
    figures = {file.name: file.read_bytes() for file in (out / "figures").iterdir()}
    tables = {name: content(table) for name, table in record["tables"].items()}
    return {**tables, **record["texts"], **figures}


# ----------------------------------------------------------------------------------- what is left


def test_numbers_are_those_of_the_runs(done, spark):
    ours = {(row["experiment"], row["name"]): row for row in numbers(done)}
    assert len(ours) == len(numbers(done))
    one, small, other = ({row["name"]: row for row in numbers(done / run)} for run in RUNS)
    for metric, row in one.items():
        mean = ours["main", metric]
        values = [row["value"], other[metric]["value"]]
        assert mean["seeds"] == dict(zip("12", values, strict=True))
        assert all(mean[key] == row[key] for key in ("unit", "paper", "figure", "check"))
        if None not in values:
            assert mean["value"] == pytest.approx(sum(values) / 2)
            assert mean["std"] == pytest.approx(statistics.stdev(values))
        if row["paper"] and mean["value"] is not None:
            apart = 100 * (mean["value"] - row["paper"]) / row["paper"]
            assert mean["difference"] == pytest.approx(apart)
    for metric, row in small.items():
        assert ours["small_groups", metric]["value"] == row["value"]
        assert ours["small_groups", metric]["std"] is None
    assert ours["main", "scribe.rad.average_std"]["paper"] == 62


# --------------------------------------------------------------------------------------- going on


def test_only_what_is_not_whole_is_made_again(spark, copy, done):
    """A run is gone, another's last table is cut off, and so is what they are together."""
    shutil.rmtree(copy / "main" / "seed=2")
    (part,) = (copy / "small_groups/seed=1/tables/distributions").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:100])
    shutil.rmtree(copy / "tables")
    (copy / "metrics.json").unlink()
    before = made(done)
    lines = go_on(spark, copy)
    assert [line for line in lines if "run" in line] == [
        f"{run.replace('/seed=', ', seed ')}: run {number} of 3"
        for number, run in enumerate(RUNS, start=1)
    ]
    # 4 + 3 + 0 phases were whole
    assert sum(line.endswith("complete, skipped") for line in lines) == 7
    after = made(copy)
    assert after["main/seed=1"] == before["main/seed=1"]
    assert after["small_groups/seed=1"]["trees"] == before["small_groups/seed=1"]["trees"]
    assert after["small_groups/seed=1"]["measures"] != before["small_groups/seed=1"]["measures"]
    assert after["main/seed=2"] != before["main/seed=2"]
    for run in RUNS:
        assert left(copy / run) == left(done / run)
    assert together(copy) == together(done)


# --------------------------------------------------------------------------------------- refusals


def refusal(out: Path, whole: Paper = WHOLE, **how: bool) -> str:
    with pytest.raises(InputError) as caught:
        check_sweep(PaperSweep(whole), Execution(out=str(out), **how))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_scale_or_config_is_refused(done, monkeypatch):
    text = refusal(done, Paper(seeds=2, experiments=BOTH, scale=0.5), resume=True)
    assert text == f"scale = 0.5: {done} was made with scale = 1.0; use that or another OUT"
    other = PaperExperiment(dict(nodes=60, groups=5, group_size=6, b=2, **NETWORK))
    monkeypatch.setitem(config.EXPERIMENTS, "small_groups", other)
    text = refusal(done, resume=True)
    assert text.startswith(f"b = 2: {done}/small_groups/seed=1 was made with b = 4")


# ---------------------------------------------------------------------------------------- sharing
