"""The config of the experiments on the reference tree, and the command that reads it."""

import pytest
from click.testing import CliRunner

from scribe_spark.cli.commands import reference_tree
from scribe_spark.config import REFERENCE_TREE_FIELDS, ReferenceTreeConfig
from scribe_spark.config.reference_tree import TreePoint
from scribe_spark.core.errors import InputError


def test_defaults_are_the_papers():
    config = ReferenceTreeConfig()
    assert config.points() == [
        TreePoint("events", hosts, 8, 2, "chord") for hosts in range(10, 121, 10)
    ]
    assert config.reference_tree.connections == 2_000


def test_numbers_in_a_list_or_separated_by_commas():
    one = ReferenceTreeConfig(hosts="10, 20", children=[2, 3], scaling=1000)
    other = ReferenceTreeConfig(reference_tree={"hosts": [10, 20], "children": "2,3",
                                                "scaling": (1000,)})  # fmt: skip
    assert one == other
    assert [point.name for point in one.points()] == [
        *("hosts-10-children-2", "hosts-10-children-3", "hosts-20-children-2"),
        *("hosts-20-children-3", "scaling-1000-children-2", "scaling-1000-children-3"),
    ]
    assert {point.bits for point in one.points()} == {8, 128}
    assert ReferenceTreeConfig.of(one.flat()) == one
    assert REFERENCE_TREE_FIELDS["hosts"].typical.startswith("10,20,30")


ROUTED = {"dht": "routed", "scaling": 9, "assignment": "pastry"}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"hosts": "256"}, "hosts = 256: must be less than the number of keys, 256 with 8 bits"),
        ({"hosts": "x"}, "hosts = 'x': must be whole numbers, in a list or separated by commas"),
        ({"hosts": [True]}, "must be whole numbers"),
        ({"hosts": "10,10"}, "hosts = '10,10': has 10 twice; leave one of them out"),
        ({"hosts": [10, 20, 10]}, "hosts = [10, 20, 10]: has 10 twice; leave one of them out"),
        ({"children": "3,03"}, "children = '3,03': has 3 twice; leave one of them out"),
        ({"scaling": "9,9"}, "scaling = '9,9': has 9 twice; leave one of them out"),
        ({"hosts": "10,,20"}, "hosts = '10,,20': must be whole numbers"),
        ({"hosts": "\u0663"}, "hosts = '\u0663': must be whole numbers"),
        ({"hosts": 0}, "hosts = 0: must be from 1 to 10,000,000"),
        ({"hosts": []}, "must have at least one number"),
        ({"children": "2,1"}, "children = 1: must be from 2 to 1,048,576"),
        ({"children": ()}, "must have at least one number"),
        ({"bits": 3}, "bits = 3: must be at least 4"),
        ({"bits": 129}, "bits = 129: must be at most 128"),
        ({"connections": 0}, "connections = 0: must be at least 1"),
        ({"scaling": -1}, "scaling = -1: must be from 1"),
        ({"assignment": "can"}, "assignment = 'can': must be one of chord, pastry"),
        ({"host": 5}, "did you mean 'hosts'"),
        ({"dht": "routed"}, "dht = 'routed': applies to the networks of scaling only"),
        ({"dht": "routed", "scaling": 9}, "assignment = 'chord': does not assign keys as Pastry"),
        ({"dht": "kademlia"}, "dht = 'kademlia': must be one of abstract, routed"),
        ({"b": 2}, "b = 2: applies with --dht routed only; leave it out"),
        ({**ROUTED, "nodes": 9}, "nodes = 9: follows from scaling; leave it out"),
        ({**ROUTED, "node_ids": "sha1"}, "node_ids = 'sha1': must be uniform"),
    ],
)
def test_what_is_refused(given, line):
    with pytest.raises(InputError) as refused:
        ReferenceTreeConfig(**given)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_dry_run_prints_the_config(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("seed = 5\n[reference_tree]\nhosts = [10]\nconnections = 7\n")
    done = CliRunner().invoke(
        reference_tree, ["--config", str(file), "--connections", "9", "--dry-run"]
    )
    assert done.exit_code == 0, done.output
    assert "seed = 5\n" in done.output
    assert "connections = 9\n" in done.output
    assert 'out = "out/reference-tree"' in done.output
