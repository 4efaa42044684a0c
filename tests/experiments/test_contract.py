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
from scribe_spark.topology.registry import load

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
    assert {name: columns(schema) for name, schema in schemas.CONTRACT.items()} == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_columns_first(small, name):
    kept = columns(small.table(name).schema)
    assert kept[: len(TABLES[name])] == TABLES[name]


@pytest.fixture(scope="module")
def tables(small):
    return {name: small.table(name).toPandas() for name in TABLES}


def test_rows_of_the_network(tables):
    graph = load(RunConfig(**SMALL))
    routers, links, nodes = (tables[name] for name in ("routers", "links", "nodes"))
    assert sorted(routers["router"]) == sorted(graph.vertices["id"])
    assert routers[["kind", "domain", "x", "y"]].notna().all(axis=None)
    ways = set(zip(links["src"], links["dst"], links["delay_ms"], links["weight"], strict=True))
    assert len(ways) == len(links) == len(graph.edges)
    assert ways == {(dst, src, delay, weight) for src, dst, delay, weight in ways}
    assert sorted(nodes["node"]) == list(range(SMALL["nodes"]))
    assert set(nodes["router"]) <= set(routers["router"])
    assert not nodes.duplicated(["id_hi", "id_lo"]).any()


def test_rows_of_the_overlay(tables):
    table = tables["routing_table"]
    assert not table.duplicated(["node", "row", "col"]).any()
    assert table["col"].between(0, 15).all()
    assert (table["node"] != table["entry"]).all()
    # 200 nodes have all 16 first digits: row 0 is full but for the node's own digit
    assert (table[table["row"] == 0].groupby("node").size() == 15).all()
    assert table["node"].nunique() == SMALL["nodes"]


def test_rows_of_the_trees(tables):
    groups, members = tables["groups"], tables["members"]
    assert sorted(groups["group"]) == list(range(1, SMALL["groups"] + 1))
    sizes = members.groupby("group").size()
    assert groups.set_index("group")["size"].to_dict() == sizes.to_dict()
    assert not members.duplicated().any()
    rooted = members.merge(groups, on="group")
    others = rooted[rooted["node"] != rooted["root"]]
    heard, edges = tables["deliveries"], tables["tree_edges"]
    assert set(heard["system"]) == set(edges["system"]) == SYSTEMS
    for system in SYSTEMS:
        of = heard[heard["system"] == system]
        assert len(of) == len(others)
        assert len(of.merge(others, on=["group", "node"])) == len(others)
    for system in SYSTEMS - {"scribe"}:
        of = edges[edges["system"] == system]
        assert (
            len(of.merge(others.rename(columns={"node": "child"}), on=["group", "child"]))
            == (len(of))
            == len(others)
        )
        assert (of.merge(groups, on="group").eval("parent == root")).all()
    ours = edges[edges["system"] == "scribe"]
    assert not ours.duplicated(["group", "child"]).any()
    assert (heard["delay_ms"] >= 2).all()
    assert (heard["hops"] >= 1).all()


def test_rows_of_the_measures(tables):
    stress, links, delay = tables["node_stress"], tables["link_stress"], tables["group_delay"]
    assert len(stress) == len(SYSTEMS) * SMALL["nodes"]
    assert not stress.duplicated(["system", "node"]).any()
    ours = tables["tree_edges"].query("system == 'scribe'")
    of = stress.query("system == 'scribe'")
    assert of["children_entries"].sum() == len(ours)
    assert of["children_tables"].sum() == len(ours[["group", "parent"]].drop_duplicates())
    assert set(links["kind"]) == {"core", "lan_up", "lan_down"}
    assert (links["packets"] > 0).all()
    assert not links.duplicated(["system", "kind", "src", "dst"]).any()
    places = set(zip(tables["nodes"]["node"], tables["nodes"]["router"], strict=True))
    core = set(zip(tables["links"]["src"], tables["links"]["dst"], strict=True))
    for kind, known in (("lan_up", places), ("core", core)):
        found = links[links["kind"] == kind]
        assert set(zip(found["src"], found["dst"], strict=True)) <= known
    found = links[links["kind"] == "lan_down"]
    assert set(zip(found["dst"], found["src"], strict=True)) <= places
    assert len(delay) == len(SYSTEMS) * SMALL["groups"]
    flat = delay[delay["system"] != "scribe"]
    assert (flat["rad"] == 1).all()
    assert (flat["rmd"] == 1).all()


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
