"""What a run leaves is what other people's scripts were promised."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pyspark
import pytest
from pyarrow.dataset import dataset

import scribe_spark
from scribe_spark import schemas
from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import PHASES

from .conftest import SMALL

#: The contract's words, kept here apart from the code that must keep to it.
PROMISED = """
| `routers` | router BIGINT, kind STRING, domain BIGINT, x DOUBLE, y DOUBLE |
| `links` | src BIGINT, dst BIGINT, delay_ms DOUBLE, weight DOUBLE |
| `nodes` | node BIGINT, id_hi BIGINT, id_lo BIGINT, router BIGINT |
| `routing_table` | node BIGINT, row INT, col INT, entry BIGINT |
| `groups` | group BIGINT, key_hi BIGINT, key_lo BIGINT, size BIGINT, root BIGINT |
| `members` | group BIGINT, node BIGINT |
| `tree_edges` | system STRING, group BIGINT, parent BIGINT, child BIGINT |
| `deliveries` | system STRING, group BIGINT, node BIGINT, hops INT, delay_ms DOUBLE |
| `node_stress` | system STRING, node BIGINT, children_tables BIGINT, children_entries BIGINT |
| `link_stress` | system STRING, kind STRING, src BIGINT, dst BIGINT, packets BIGINT |
| `group_delay` | system STRING, group BIGINT, size BIGINT, rad DOUBLE, rmd DOUBLE |
"""
PROMISED += (
    "| `latency` | system STRING, group BIGINT, publication BIGINT, unit STRING, "
    "expected BIGINT, reached BIGINT, "
    "mean DOUBLE, p50 DOUBLE, p90 DOUBLE, p95 DOUBLE, p99 DOUBLE, max DOUBLE, "
    "t50 DOUBLE, t90 DOUBLE, t95 DOUBLE, t99 DOUBLE, t100 DOUBLE |\n"
    "| `latency_counts` | system STRING, unit STRING, value DOUBLE, count BIGINT |\n"
)

SYSTEMS = {"scribe", "ip_multicast", "naive_unicast"}


def documented(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Tables and their columns out of a Markdown table."""
    for name, columns in re.findall(r"^\| `(\w+)` \| (.*?) \|$", text, re.M):
        yield name, re.findall(r"(\w+) (BIGINT|INT|DOUBLE|STRING)\b", columns)


TABLES = dict(documented(PROMISED))


def columns(schema) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString().upper()) for field in schema.fields]


def test_schemas_say_what_was_promised():
    assert {name: columns(schema) for name, schema in schemas.CONTRACTS["run"].items()} == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_columns_first(small, name):
    kept = columns(small.table(name).schema)
    assert kept[: len(TABLES[name])] == TABLES[name]


@pytest.fixture(scope="module")
def tables(small):
    return {name: small.table(name).toPandas() for name in TABLES}


def test_latencies_and_arrivals(small, tables):
    heard, edges, latency = (tables[name] for name in ("deliveries", "tree_edges", "latency"))
    assert len(latency) == len(SYSTEMS) * SMALL["groups"]
    assert set(latency["unit"]) == {"ms"}
    assert (latency["expected"] == latency["reached"]).all()
    groups = heard.groupby(["system", "group"])["delay_ms"]
    last = latency.set_index(["system", "group"])
    assert last["max"].to_dict() == last["t100"].to_dict() == groups.max().to_dict()
    counts = tables["latency_counts"].groupby("system")["count"].sum()
    assert counts.to_dict() == heard.groupby("system").size().to_dict()
    values = {row["name"]: row["value"] for row in small.metrics()}
    assert values["scribe.latency.max"] == heard.query("system == 'scribe'")["delay_ms"].max()
    first = small.arrivals().toPandas()
    assert first.columns.tolist() == [
        *("system", "group", "publication", "node", "arrival_us", "hops", "from")
    ]
    assert len(first) == len(heard)
    above = edges.set_index(["system", "group", "child"])["parent"]
    assert first.set_index(["system", "group", "node"])["from"].to_dict() == {
        key: above[key] for key in zip(heard["system"], heard["group"], heard["node"], strict=True)
    }
    assert sorted(first["arrival_us"] / 1000) == sorted(heard["delay_ms"])


def test_manifest(small):
    manifest = small.manifest()
    given = {**SMALL, "write_routing_table": True}
    assert manifest["config"] == given
    assert manifest["resolved"] == RunConfig(**given).flat()
    assert manifest["seed"] == 1
    libraries = ("numpy", "pandas", "pyarrow", "pydantic", "scipy", "topohub")
    assert manifest["versions"] == {
        **{library: version(library) for library in libraries},
        "scribe_spark": scribe_spark.__version__,
        "spark": pyspark.__version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "java": manifest["versions"]["java"],
    }
    assert re.match(r"\d+\.", manifest["versions"]["java"])
    phases = manifest["phases"]
    assert [phase["name"] for phase in phases] == list(PHASES)
    counted = {}
    for phase in phases:
        assert phase["seconds"] > 0
        assert phase["rows"] == sum(record["rows"] for record in phase["tables"].values())
        counted |= {name: record["rows"] for name, record in phase["tables"].items()}
    assert set(TABLES) <= set(counted)
    rows = {name: dataset(Path(small.out, "tables", name)).count_rows() for name in counted}
    assert counted == rows


def test_report_and_figures(small):
    out = Path(small.out)
    page = (out / "report.html").read_text()
    # nothing is fetched from elsewhere
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert not re.search(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=", page)
    figures = sorted((out / "figures").glob("figure-*.svg"))
    assert [figure.name[7:9] for figure in figures] == ["06", "07", "08", "09", "10", "co", "ra"]
    assert page.index("Figure 7. ") < page.index("RAD by group size") < page.index("Figure 8. ")
    for figure in figures:
        assert ElementTree.parse(figure).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert figure.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert len(figure.with_suffix(".csv").read_text().splitlines()) > 1


def test_nothing_else_is_left(small):
    names = {path.name for path in Path(small.out).iterdir()}
    assert names == {"manifest.json", "metrics.json", "report.html", "figures", "tables"}
    assert not list(Path(small.out).rglob("*.tmp"))


def test_a_phase_over_nothing(make, tmp_path):
    with pytest.raises(InputError, match="needs the tables of topology"):
        make(phases=("overlay",), resume=True)
    assert not (tmp_path / "out").exists()
