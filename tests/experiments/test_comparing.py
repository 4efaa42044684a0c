"""Runs and worlds beside each other, through the command line, with no Spark."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scribe_spark.core.errors import InputError
from scribe_spark.experiments import Limits
from scribe_spark.experiments.digests import file_digests, text_digest
from scribe_spark.runtime.filesystem import LocalFiles

#: Measures of a run; `rad.max` and `hops` are no headline measures.
VALUES = {
    "scribe.rad.median": 2.0, "scribe.rad.max": 4.0, "scribe.messages": 1000.0,
    "scribe.duplicates.mean": 0.0, "scribe.state.max": None,
}  # fmt: skip


@pytest.fixture
def call(call, no_spark):
    """Run the command line in this process, which may start no Spark."""
    return call


def table(out: Path, name: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Write a table as a command does; its record."""
    folder = out / "tables" / name
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "part-0.parquet")
    return {"rows": len(rows), "files": file_digests(LocalFiles(), f"file://{folder}")}


def run_folder(
    out: Path,
    values: dict[str, float | None] | None = None,
    version: str = "1",
    phases: tuple[str, ...] = ("measures", "report"),
    **resolved: Any,
) -> Path:
    """A folder as a run leaves it; Scribe has these values beside :data:`VALUES`."""
    out.mkdir()
    metrics = [
        {"name": name, "value": value, "unit": "x", "figure": None, "paper": None}
        for name, value in {**VALUES, **(values or {})}.items()
    ]
    (out / "metrics.json").write_text(text := json.dumps(metrics))
    rad = (values or {}).get("scribe.rad.median", 2.0)
    rows = pd.DataFrame(
        [
            ("7", "scribe", "rad", 1.0, 3),
            ("7", "scribe", "rad", rad, 4),
            ("10", "ip_multicast", "link_stress", 1.0, 3),
        ],
        columns=["figure", "system", "measure", "value", "count"],
    )
    first = {"tables": {"distributions": table(out, "distributions", rows)}}
    first["texts"] = {"metrics.json": text_digest(text)}
    entries = [{"name": name, "tables": {}, "texts": {}, "seconds": 1} for name in phases]
    entries[0] |= first
    manifest = {"seed": 1, "config": {}, "resolved": {"nodes": 10} | resolved}
    manifest |= {"versions": {"scribe_spark": version}, "phases": entries}
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


def world_folder(out: Path, hops: list[float], more: Mapping[str, float] | None = None) -> Path:
    """A folder as a world leaves it: a number of hops and `more` measures in each round."""
    out.mkdir()
    same = {"nodes.live": 9.0, "cells.filled": 2.0, **(more or {})}
    rows = [
        (number, "pastry", name, value)
        for number, one in enumerate(hops)
        for name, value in (*same.items(), ("lookups.hops", one))
    ]
    frame = pd.DataFrame(rows, columns=["round", "system", "measure", "value"])
    world = {"tables": {"rounds": table(out, "rounds", frame)}, "saved": None}
    manifest = {"seed": 1, "config": {}, "resolved": {"lookups": 5}, "world": world}
    manifest |= {"versions": {"scribe_spark": "1"}}
    (out / "manifest.json").write_text(json.dumps(manifest))
    return out


@pytest.fixture
def base(tmp_path):
    return run_folder(tmp_path / "base")


def test_a_run_beside_another(call, base, tmp_path):
    changed = {"scribe.rad.median": 2.5, "scribe.rad.max": 4.4, "scribe.duplicates.mean": 0.5}
    other = run_folder(tmp_path / "other", changed, nodes=20)
    code, told, err = call("compare", base, other, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert told == (
        "3 headline measures; greatest difference: scribe.duplicates.mean from 0 "
        f"(0.5 in {other}, 0 in {base})\n{tmp_path}/out/compare.html\n"
    )
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "2 of 3 headline measures differ by more than 10\xa0%; 1 is equal." in page
    assert "+25.0\xa0%" in page
    assert "RAD: Scribe</h3>" in page
    assert "<p>Link stress: IP multicast.</p>" in page
    assert '<th scope="row">nodes</th><td class="number">10</td><td class="number">20</td>' in page
    assert 'href="../base/report.html"' in page
    rows = pd.read_csv(tmp_path / "out" / "compare.csv").set_index(["measure", "folder"])
    rad = rows.loc["scribe.rad.median", str(other)]
    assert (rad["value"], rad["difference"], rad["percent"]) == (2.5, 0.5, 25.0)
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert [one["folder"] for one in found["folders"]] == [str(base), str(other)]
    most = next(row for row in found["measures"] if row["measure"] == "scribe.rad.max")
    assert (most["headline"], most["values"], most["differences"][0]) == (False, [4.0, 4.4], 0)


#: Values of the other run, limits -> the exit code, and the words of the line.
LIMITS = [
    ({"scribe.rad.median": 2.1}, ["5%"], 0, ""),
    ({"scribe.rad.median": 2.11}, ["5%"], 1, "scribe.rad.median +5.5% (2.11 in OTHER, 2 in BASE); "
     "the limit is 5%; see OUT/compare.html"),
    ({"scribe.rad.median": 1.8}, ["5%"], 1, "scribe.rad.median -10% (1.8 in OTHER"),
    ({"scribe.rad.max": 9.0}, ["scribe.rad.max=100%"], 1, "scribe.rad.max +125%"),
    ({"scribe.rad.median": 3.0}, ["5%", "scribe.rad.median=50%"], 0, ""),
    ({"scribe.rad.median": 3.0, "scribe.messages": 1600.0}, ["5%"], 1, "scribe.messages +60% (1,600"
     " in OTHER, 1,000 in BASE); the limit is 5%; 1 more above their limits; see"),
    ({"scribe.duplicates.mean": 1e-9}, ["5%"], 1, "scribe.duplicates.mean from 0"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "limits", "code", "words"), LIMITS)
def test_the_worst_difference_above_a_limit_is_exit_1(
    call, base, tmp_path, values, limits, code, words
):
    other, out = run_folder(tmp_path / "other", values), tmp_path / "out"
    flags = [text for limit in limits for text in ("--fail-above", limit)]
    found, told, err = call("compare", base, other, "--out", out, *flags)
    names = {"OTHER": str(other), "BASE": str(base), "OUT": str(out)}
    for name, path in names.items():
        words = words.replace(name, path)
    assert (found, err.count("\n")) == (code, code)
    assert words in err
    assert told.endswith(f"{out}/compare.html\n")


def test_worlds_are_compared_by_their_means_over_the_rounds(call, tmp_path):
    one, two = (world_folder(tmp_path / n, hops) for n, hops in (("a", [2, 4]), ("b", [2, 7])))
    flags = "--fail-above", "lookups.hops=20%"
    code, _, err = call("compare", one, two, "--out", tmp_path / "out", *flags)
    assert (code, err.count("\n")) == (1, 1)
    assert "lookups.hops +50% (4.5 in " in err
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "Lookups, hops (hops)</h3>" in page
    assert "<p>Nodes, live (nodes).</p>" in page


def test_an_earlier_comparison_is_replaced_and_nothing_else(call, base, tmp_path):
    other = run_folder(tmp_path / "other", {"scribe.rad.median": 2.5})
    out = tmp_path / "out"
    assert call("compare", base, other, "--out", out)[0] == 0
    assert call("verify", out)[1] == f"{out}: a comparison; tables: 0, texts: 2, all as written\n"
    (out / "notes.txt").write_text("mine")
    assert (out / "figures" / "rad-scribe.svg").exists()
    worlds = [world_folder(tmp_path / name, hops) for name, hops in (("w", [2, 4]), ("v", [2, 7]))]
    assert call("compare", *worlds, "--out", out)[0] == 0
    assert not (out / "figures" / "rad-scribe.svg").exists()
    assert (out / "notes.txt").read_text() == "mine"
    assert json.loads((out / "compare.json").read_text())["kind"] == "world"
    (out / "figures" / "mine.svg").write_text("<svg/>")
    code, _, err = call("compare", *worlds, "--out", out)
    assert (code, err.count("\n")) == (2, 1)
    assert "holds 'figures/mine.svg', which scribe-spark did not write" in err
    assert (out / "figures" / "mine.svg").exists()


def damaged(folder: Path) -> Path:
    (folder / "tables" / "distributions" / "part-0.parquet").write_bytes(b"PAR1")
    return folder


#: The other folder, flags -> what the line says.
REFUSED = {
    "nothing": (lambda path: path / "none", "has no manifest.json"),
    "a world": (lambda path: world_folder(path / "o", [1]), "holds a world, and BASE a run; give"),
    "version": (lambda path: run_folder(path / "o", version="2"),
                "was made by scribe_spark 2, and BASE by 1; give --any-version"),
    "damaged": (lambda path: damaged(run_folder(path / "o")),
                "is damaged: tables/distributions: part-0.parquet has changed; `scribe-spark ver"),
    "unfinished": (lambda path: run_folder(path / "o", phases=("measures",)), "is not finished"),
    "no value": (lambda path: run_folder(path / "o", {"scribe.messages": None}),
                 "has no value of measures with a limit in --fail-above: scribe.messages"),
    "the same": (lambda path: path / "base" / ".." / "base", "is given twice"),
    "a URL": (lambda path: "s3a://bucket/run", "is not on this machine"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_one_line_and_exit_2(call, base, tmp_path, name):
    make, words = REFUSED[name]
    out = tmp_path / "out"
    code, told, err = call("compare", base, make(tmp_path), "--out", out, "--fail-above", "5%")
    assert (code, told, err.count("\n")) == (2, "", 1)
    assert err.startswith("scribe-spark: error: folder = ")
    assert words.replace("BASE", str(base)) in err
    assert not (out / "compare.html").exists()


def test_other_versions_and_missing_measures_on_request(call, base, tmp_path):
    other = run_folder(tmp_path / "other", {"scribe.messages": None}, version="2")
    flags = "--any-version", "--fail-above", "scribe.rad.median=0%"
    code, _, err = call("compare", base, other, "--out", tmp_path / "out", *flags)
    assert (code, err) == (0, f"{other} lacks measures of the others: scribe.messages\n")


@pytest.mark.parametrize("text", ["5", "-5%", "five%", "a=5", "%", "5%%"])
def test_a_limit_is_a_percentage(text):
    with pytest.raises(InputError, match="must be a percentage, such as 5%"):
        Limits.of([text])


@pytest.mark.parametrize(
    ("floors", "code", "words"),
    [
        (["scribe.within_1s=97%"], 0, ""),
        (["scribe.within_1s=98%"], 1, "scribe.within_1s is 0.97 in BASE; the limit is 0.98"),
        (["scribe.rad.max=4.1", "scribe.within_1s=99%"], 1, "; 1 more below their limits"),
        (["scribe.quorum.median=1"], 1, "scribe.quorum.median has no value in BASE"),
        (["scribe.within_2s=1%"], 2, "not a measure of these settings; did you mean"),
        (["scribe.within_1s"], 2, "must be a measure and a number"),
        (["scribe.within_1s=1%", "scribe.within_1s=2%"], 2, "gives a second limit"),
    ],
)
def test_one_folder_below_a_limit_is_exit_1(call, tmp_path, floors, code, words):
    base = run_folder(tmp_path / "one", {"scribe.within_1s": 0.97, "scribe.quorum.median": None})
    flags = [text for floor in floors for text in ("--fail-below", floor)]
    found, told, err = call("compare", base, *flags)
    assert (found, err.count("\n")) == (code, int(code > 0))
    assert words.replace("BASE", str(base)) in err
    assert told == (f"{base}: no measure is below its limit\n" if code == 0 else "")


def test_floors_hold_for_all_folders_and_for_means_of_rounds(call, tmp_path):
    shares = [{"scribe.within_1s": share} for share in (0.97, 0.99)]
    one, two = (run_folder(tmp_path / f"run{n}", of) for n, of in enumerate(shares))
    floor = "--fail-below", "scribe.within_1s=98%", "--out", tmp_path / "out"
    code, _, err = call("compare", two, one, *floor)
    assert (code, f"is 0.97 in {one};" in err) == (1, True)
    code, _, err = call("compare", one, two, "--fail-above", "scribe.within_1s=1%", *floor[2:])
    assert (code, "scribe.within_1s +2.06%" in err) == (1, True)
    world = world_folder(tmp_path / "world", [2, 4], {"scribe.within_1s": 0.5})
    assert call("compare", world, "--fail-below", "scribe.within_1s=51%")[0] == 1
    assert call("compare", world, "--fail-below", "scribe.within_1s=50%")[0] == 0


@pytest.mark.parametrize("command", ["run", "world"])
def test_floors_of_unknown_measures_are_refused_first(call, tmp_path, command):
    flags = f"--groups 2 --deadline 1s --fail-below scribe.within_2s=1% --out {tmp_path}/out"
    code, _, err = call(command, *flags.split())
    assert (code, err.count("\n")) == (2, 1)
    assert "fail_below = 'scribe.within_2s': is not a measure" in err
    assert not (tmp_path / "out").exists()
