"""The reference that is written from the code: every field, measure, table and command is there."""

import re
from pathlib import Path

from scribe_spark import schemas
from scribe_spark.cli.program import PURPOSES
from scribe_spark.config import REFERENCE_TREE_FIELDS, RUN_FIELDS, WORLD_FIELDS
from scribe_spark.measures.metrics import all_measures
from scribe_spark.worlds.summary import measure_of, summary_units
from tools import reference_pages

ROOT = Path(__file__).resolve().parents[1]


def page_of(name: str) -> str:
    """A page, which is as the code writes it: see `test_generated_pages_are_up_to_date`."""
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def _cells(page: str) -> dict[str, list[str]]:
    """Return the rows of a page by each name in their first cell."""
    rows = {}
    for line in re.findall(r"^\|.*\|$", page, re.M):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for name in re.findall(r"^`([^`]+)`|, `([^`]+)`", cells[0]):
            rows.setdefault("".join(name), cells[1:])
    return rows


def test_the_configuration_has_every_field_once():
    page = page_of("configuration")
    names = re.findall(r"^\| `(\w+)` \|", page, re.M)
    assert len(names) == len({*names})
    fields = {*RUN_FIELDS, *WORLD_FIELDS, *REFERENCE_TREE_FIELDS}
    assert fields < {*names}
    rows = _cells(page)
    for name in fields:
        marks = [bool(mark) for mark in rows[name][:3]]
        taken = [name in of for of in (RUN_FIELDS, WORLD_FIELDS, REFERENCE_TREE_FIELDS)]
        assert marks == taken, name
    assert rows["groups"][1:5] == ["•", "", "0..10000000", "`1500`, world: `0`"]
    assert rows["gossipsub_preset"][3] == "spec\\|go\\|ethereum"
    units = [rows[name][5] for name in ("lan_delay_ms", "lifetime", "uplink", "systems")]
    assert units == ["ms", "rounds", "bit/s", ""]


def test_every_metric_of_a_run_is_on_the_page_of_the_measures():
    page = page_of("measures_reference")
    rows = _cells(page.partition("## Of a world")[0])
    for measure in all_measures():
        for metric in measure.metrics:
            name, statistic = reference_pages._split(metric.name)
            cells = rows["SYSTEM." * (metric.systems is not None) + name]
            assert statistic in cells[0].split() or not statistic, metric.name
            assert metric.unit in cells[1].split(", "), metric.name
            assert cells[3].endswith("."), metric.name


def test_every_measure_of_a_world_has_a_meaning():
    page = page_of("measures_reference").partition("## Of a world")[2]
    rows, found = _cells(page), reference_pages.round_measures()
    as_of_runs = {*re.findall(r"`(SYSTEM\.[\w.]+)`", page.rpartition("those of a run:")[2])}
    assert "SYSTEM.rad" in as_of_runs
    assert {*found.index} == set(rows) | as_of_runs
    assert not set(rows) & as_of_runs
    assert all(cells[3].endswith(".") for cells in rows.values())
    assert len(summary_units()) > len(found) > 60
    # no meaning is left over
    names = {name.removeprefix("SYSTEM.") for name in found.index}
    assert {*reference_pages.MEASURES} <= names
    assert measure_of("lookups.hops.last") in names


def test_every_table_and_column_has_a_meaning():
    rows = _cells(page_of("tables"))
    for contract in schemas.CONTRACTS.values():
        for name, schema in contract.items():
            # a column may have the name of a table
            assert name in rows
            assert all(rows[column][-1] for column in schema.names), name


def test_every_command_is_on_the_page_with_options_of_its_own():
    page = page_of("commands")
    assert re.findall(r"^## (.*)$", page, re.M) == list(PURPOSES)
    for name, purpose in PURPOSES.items():
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert section.startswith(f"\n{purpose}\n")
        assert f"scribe-spark {name}" in section
    assert "| `--fail-above` | " in page.partition("## compare\n")[2].partition("\n## ")[0]
    assert "| `--nodes` | " not in page  # a field of the config
