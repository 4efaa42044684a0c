"""GML and GraphML: equal to NetworkX's reading, and refused where NetworkX guesses."""

import io
import random

import networkx as nx
import pytest

from scribe_spark.core.errors import InputError
from scribe_spark.topology.graph_files import read_gml, read_graphml

XMLNS = 'xmlns="http://graphml.graphdrawing.org/xmlns"'


def refusal(read, text) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        read(text)
    line = str(refused.value)
    assert "\n" not in line
    return line


# ---------------------------------------------------------------------------------- the oracle


def drawn(seed: int) -> nx.MultiGraph:
    """Return a random multigraph, with or without directions, with attributes of some elements."""
    rng = random.Random(seed)
    graph = nx.MultiDiGraph() if rng.random() < 0.5 else nx.MultiGraph()
    names = [f'a "{i}" [&ä]' if seed % 3 == 0 else i for i in range(rng.randint(1, 8))]

    def attributes() -> dict:
        some = {"latency": "5 ms", "share": rng.random(), "count": rng.randint(-9, 9),
                "label": "graph [ node ] # 'x' &amp; ö\n edge"}  # fmt: skip
        return {name: value for name, value in some.items() if rng.random() < 0.5}

    for name in names:
        graph.add_node(name, **attributes())
    for _ in range(rng.randint(0, 12)):
        graph.add_edge(rng.choice(names), rng.choice(names), **attributes())
    return graph


def elements_of(found) -> tuple:
    nodes = [(node.ends, node.values) for node in found.nodes]
    edges = [
        (edge.ends, {k: v for k, v in edge.values.items() if k != "key"}) for edge in found.edges
    ]
    return found.is_directed, nodes, sorted(edges, key=repr)


def expected_of(graph, ids=None) -> tuple:
    ids = ids or {name: str(name) for name in graph}

    def texts(values):
        return {name: str(value) for name, value in values.items()}

    nodes = [((ids[name],), texts(values)) for name, values in graph.nodes(data=True)]
    edges = [((ids[a], ids[b]), texts(values)) for a, b, values in graph.edges(data=True)]
    return graph.is_directed(), nodes, sorted(edges, key=repr)


@pytest.mark.parametrize("seed", range(12))
def test_graphs_that_networkx_writes(seed):
    graph, file = drawn(seed), io.BytesIO()
    nx.write_graphml(graph, file)
    assert elements_of(read_graphml(file.getvalue().decode())) == expected_of(graph)
    for _, values in graph.nodes(data=True):  # in GML, the name of a node is its label
        values.pop("label", None)
    ids = {name: str(number) for number, name in enumerate(graph)}
    found = elements_of(read_gml("\n".join(nx.generate_gml(graph))))
    for _, values in found[1]:
        values.pop("label")
    assert found == expected_of(graph, ids)


# ---------------------------------------------------------------------------------- numbers

#: Texts that are no number, or a number out of all bounds.
STRANGE = ["-500", "nan", "inf", "-Infinity", "1e999", "1" + "0" * 400, "1" * 5000, "1_0", "٣",
           "0x10", "1,5", "1e", "", "true", "1 ms", "1e99999999999999999999"]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["7", "3"], [3, 7]),
        (["7", "9223372036854775807"], [7, 2**63 - 1]),
        (["7", "9223372036854775808"], [0, 1]),
        (["7", "٣"], [0, 1]),
        (["7", "-1"], [0, 1]),
        (["7", "07"], [0, 1]),
    ],
)
def test_ids_of_graphml_are_router_numbers_or_names(graph_of, names, ids):
    one, other = names
    text = (
        f'<graphml {XMLNS}><key id="d" attr.name="delay_ms"/><graph><node id="{one}"/>'
        f'<node id="{other}"/><edge source="{one}" target="{other}"><data key="d">1</data></edge>'
        "</graph></graphml>"
    )
    assert graph_of(text, "a.graphml").vertices["id"].tolist() == ids


# ---------------------------------------------------------------------------------- GML

TWO = 'node [ id 0 ]\nnode [ id 1 ]\nedge [ source 0 target 1 latency "1 ms" ]\n'
BACK = 'edge [ source 1 target 0 latency "3 ms" ]\n'


@pytest.mark.parametrize(
    "head",
    [
        'Creator "drawn with graph [beta] 2.1"\ngraph [\n',
        '# graph [ multigraph 0\ngraph [\ncomment "node [ id 0 ]"\n',
        'Creator "several\nmultigraph 0\nlines"\ngraph [\n',
        "graph [ graphics [ x 1 multigraph 0 directed 1 graph [ ] ]\n",
        "Version 1 graph\n\n[ directed 0\r\n",
    ],
)
def test_texts_and_comments_are_no_blocks(graph_of, head):
    graph = graph_of(head + TWO + BACK + "]", "a.gml")
    assert graph.edges[["src", "dst", "delay_ms"]].to_numpy().tolist() == [[0, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"graph [\nmultigraph 0\n{TWO}{BACK}]",
         "edge 1 to 0 (line 6) joins the nodes of the edge in line 5, but line 2 says multigraph "
         "0; delete one of the edges, or change the line: multigraph 1 allows parallel edges, and "
         "directed 1 an edge for each direction"),
        ("graph [\ndirected 0\ndirected 1\n]", "line 2: directed must be 0 or 1, and occur once"),
        ("graph [ ]\ngraph [ ]", "has 2 graphs; needs one, graph [ ... ]"),
        ("graph 5", "line 1: graph must be a block, graph [ ... ]"),
        ("graph [ node [ id 1 id 2 ] ]", "the node in line 1 needs one number or text as its id"),
        ("graph [ node [ id 1 ]\nnode [ id 01 ] ]", "node 1 (line 2) has the id of the node in li"),
        ("graph [ node [ id 1 ]\nedge [ source 1 ] ]", "the edge in line 2 has no target"),
        ("graph [\n node [\n id 1", "ends within node, which begins in line 2"),
        ("graph [ ] ]", "line 1: ']' is not expected there; an entry of GML is a name and a"),
        ("graph [ node [ id 1\n edge [ source 1 target 1 ] ] ]",
         "the edge in line 2 is inside the node in line 1; a bracket ] is missing before the edge"),
        ("graph [ node [ id 1 share0.5 ] ]", "line 1: 'share0.5 ] ]' is not expected"),
        ("", "has 0 graphs"),
    ],
)  # fmt: skip
def test_bad_gml(text, says):
    assert says in refusal(read_gml, text)


@pytest.mark.parametrize("twice", ['latency "1 ms" latency "2 ms"', "latency [ ms 1 ]"])
def test_an_attribute_has_one_value(graph_of, twice):
    text = f"graph [ {TWO} ]".replace('latency "1 ms"', twice)
    with pytest.raises(
        InputError, match=r"edge 0 to 1 \(line 3\): latency must be one value, not "
    ):
        graph_of(text, "a.gml")


# ---------------------------------------------------------------------------------- GraphML


def xml(keys: str, graph: str, edgedefault: str = "undirected") -> str:
    return (
        f'<?xml version="1.0"?>\n<graphml {XMLNS}>\n{keys}\n<graph edgedefault="{edgedefault}">\n'
        f"{graph}\n</graph>\n</graphml>"
    )


NODES = '<node id="0"/><node id="1"/>'
EDGE = '<edge source="0" target="1"/>'


def key(id_: str, name: str, of: str = "edge", default: str = "") -> str:
    told = f"<default>{default}</default>" if default else ""
    return f'<key id="{id_}" attr.name="{name}" for="{of}">{told}</key>\n'


@pytest.mark.parametrize("of", ["edge", "all"])
def test_the_default_of_a_key_counts(graph_of, of):
    own = '<edge source="1" target="2"><data key="d">7 ms</data></edge>'
    text = xml(key("d", "latency", of, "5 ms"), f'{NODES}<node id="2"/>{EDGE}{own}')
    graph = graph_of(text, "a.graphml")
    assert graph.edges["delay_ms"].tolist() == [5, 5, 7, 7]


def test_a_key_for_nodes_and_a_key_for_edges_may_have_one_name():
    keys = key("d1", "label", "node") + key("d2", "label", "edge") + key("d3", "label", "graph")
    edge = '<edge source="0" target="1"><data key="d2">b</data></edge>'
    found = read_graphml(
        xml(keys, f'<node id="0"><data key="d1">a</data></node><node id="1"/>{edge}')
    )
    assert [one.values for one in (*found.nodes, *found.edges)] == [
        {"label": "a"}, {}, {"label": "b"}]  # fmt: skip


def test_other_names_of_the_namespace_and_late_keys(graph_of):
    text = xml("", f'{NODES}<edge source="0" target="1"><data key="d">2</data></edge>')
    text = text.replace("</graphml>", key("d", "delay_ms") + "</graphml>")
    prefixed = text.replace("<", "<g:").replace("<g:/", "</g:").replace("<g:?", "<?")
    for one in (text, text.replace(XMLNS, ""), prefixed.replace("xmlns=", "xmlns:g=")):
        assert graph_of(one, "a.graphml").edges["delay_ms"].tolist() == [2, 2]


def test_a_key_named_all_is_no_key_for_all_elements(graph_of):
    keys = key("n", "all", "node") + key("e", "all") + key("d", "delay_ms", "edge", "3")
    assert graph_of(xml(keys, f"{NODES}{EDGE}"), "a.graphml").edges["delay_ms"].tolist() == [3, 3]


def test_nested_graphs_and_figures_of_yed(graph_of):
    keys = '<key id="g" for="node" yfiles.type="nodegraphics"/>' + key("d", "delay_ms", "edge", "3")
    inner = f"<graph><node id='1'/>{EDGE}</graph>"
    figure = "<data key='g'><y:ShapeNode xmlns:y='y'><node id='9'/>x</y:ShapeNode></data>"
    graph = graph_of(xml(keys, f"<node id='0'>{figure}{inner}</node>"), "a.graphml")
    assert graph.vertices["id"].tolist() == [0, 1]
    assert graph.edges["delay_ms"].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (xml(key("d1", "Latitude", "node") + key("d2", "Latitude", "node"), NODES),
         "the keys d1 (line 3) and d2 (line 4) have one name, Latitude; rename or delete one"),
        (xml(key("d1", "latency", "all") + key("d2", "latency"), NODES),
         "the keys d1 (line 3) and d2 (line 4) have one name, latency"),
        (xml(key("d1", "latency") + key("d1", "delay_ms"), NODES),
         "the keys d1 (line 3) and d1 (line 4) have one id"),
        (xml(key("d1", "latency", "node") + key("d2", "latency"),
             f'{NODES}<edge source="0" target="1">\n<data key="d1">1 ms</data>\n<data key="d2">2 ms'
             "</data></edge>"),
         "line 9: the edge has latency twice; keep one"),
        (xml(key("d1", "latency"), '<node id="0"><data key="d2">1</data></node>'),
         "line 6: the key 'd2' is not declared"),
        (xml("", f'{NODES}\n<node id="0"/>'), "node 0 (line 6) has the id of the node in line 5"),
        (xml("", f'<node id="0"/>{EDGE}'), "edge 0 to 1 (line 5) needs a node 1, which the"),
        (xml("<key><default>5</default></key>", NODES), "the key in line 3 has no id"),
        (xml('<key id="d1"/>', NODES), "the key in line 3 has no attr.name"),
        (xml("", f'{NODES}<edge source="0"/>'), "the edge in line 5 has no target"),
        (xml("", "<hyperedge/>"), "line 5: a hyperedge is no link; give an edge for each pair"),
        (xml("", NODES, "Directed"), "line 4: edgedefault = 'Directed' must be one of directed, "),
        (xml("", f'{NODES}<edge source="0" target="1" directed="true"/>'),
         "line 5: an edge has directed = 'true', but the graph is undirected by its edgedefault"),
        (f"<graphml {XMLNS}><graph/><graph/></graphml>", "has 2 graphs; needs one"),
        ("<svg/>", "line 1: the file begins with svg, not graphml"),
        ("", "no element found: line 1, column 0"),
        ("<graphml>" * 10_000, "no element found"),
    ],
)  # fmt: skip
def test_bad_graphml(text, says):
    assert says in refusal(read_graphml, text)


# ---------------------------------------------------------------------------------- damaged files

FILES = {
    "a.gml": f'Creator "graph [ x"\ngraph [ directed 0\n{TWO}{BACK}\n]',
    "a.graphml": xml(key("d1", "share", "node", "0.5") + key("d2", "latency", "all", "5 ms"),
                     f'{NODES}\n<edge source="0" target="1"><data key="d2">1 s</data></edge>'),
    "a.txt": "# a list\n1\t2\t-1\n2\t3\t0\tbgp\n",
    "a.csv": "src,dst,delay_ms,weight\n0,1,4,1\n1,2,6.5,1e-3\n",
}  # fmt: skip

PIECES = [*STRANGE, "\0", "\r", "\n", '"', "[", "]", "<", "&a;", "|", ",", "#", "-0", "</graph>",
          "node", "<key/>", "<key id='d1'><default/></key>", "<data key='d1'>", "graph [",
          "multigraph 0"]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_a_graph_or_refused_in_one_line(graph_of, name):
    rng = random.Random(46)
    for _ in range(60):
        text = FILES[name]
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text) + 1)
            end = min(len(text), at + rng.choice([0, 0, 1, 5, 30]))
            text = text[:at] + rng.choice([*PIECES, text[at:end] * 2]) + text[end:]
        refused = ""
        try:
            assert len(graph_of(text, name).vertices)
        except InputError as error:
            refused = str(error)
        assert "\n" not in refused
