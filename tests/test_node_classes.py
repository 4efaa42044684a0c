"""Classes of nodes: what configs take, which node is in which, and what their classes say."""

import numpy as np
import pytest

from scribe_spark.config import RunConfig, WorldConfig, read_toml, write_toml
from scribe_spark.core.errors import InputError
from scribe_spark.core.node_classes import NodeClasses

FAST = {"name": "fast", "share": 0.2, "up": "1Gbit/s", "degree": 12}
SLOW = {"name": "slow", "share": 0.8, "down": "50Mbit/s", "validation": "5ms"}


@pytest.mark.parametrize("kind", [RunConfig, WorldConfig])
def test_a_config_has_the_classes_of_its_file_or_of_another_file(tmp_path, kind):
    given = kind(classes=[FAST, SLOW])
    assert given.classes[1].validation == "5ms"
    path = tmp_path / "classes.toml"
    path.write_text(write_toml(given.flat()))
    assert kind(**read_toml(path)) == given
    assert kind(classes=str(path)) == given
    assert given.replace(seed=2).classes == given.classes
    assert kind().flat()["classes"] == []


@pytest.mark.parametrize(
    ("classes", "line"),
    [
        (
            [FAST, {**SLOW, "share": 0.7}],
            "classes.share = '0.2 + 0.7': must sum to 1, but sums to 0.9",
        ),
        ([{**FAST, "share": 0.0}, SLOW], "classes.share of class fast = 0.0: must be above 0.0"),
        ([{**FAST, "share": 10**400}], "0000: must be a number"),
        ([{**FAST, "share": "x"}], "classes.share of class fast = 'x': must be a number"),
        ([{"name": "fast"}], "classes.share of class fast = '': must be given"),
        ([{"share": 1}], "classes.name of class 1 = '': must be given"),
        (
            [{**FAST, "up": 50}, SLOW],
            "classes.up of class fast = 50: must have a unit, such as 50Mbit/s",
        ),
        (
            [{**FAST, "uplink": "1Gbit/s"}],
            "classes = 'uplink': is unknown; give one of name, share, up, down, validation, "
            "degree, custody",
        ),
        ([FAST, {**SLOW, "name": "fast"}], "is the name of two classes; rename one"),
        (
            [{**FAST, "name": "a b", "share": 1}],
            "classes.name = 'a b': must be 1 to 40 letters, digits, dots, underscores or hyphens",
        ),
        (["fast"], "must be tables, such as [[classes]]"),
        ([{"name": f"c{i}", "share": 0.001} for i in range(101)], "must be at most 100 classes"),
    ],
)
def test_bad_classes_are_refused_in_one_line(classes, line):
    with pytest.raises(InputError) as refused:
        RunConfig(classes=classes)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_without_classes_is_refused(tmp_path):
    path = tmp_path / "none.toml"
    path.write_text("nodes = 5\n")
    with pytest.raises(InputError, match="has no classes; needs"):
        RunConfig(classes=str(path))
    for name in ("nosuch.csv", "", ".", "/dev/zero"):
        with pytest.raises(InputError, match=f"^classes = '{name}': "):
            RunConfig(classes=name)


def test_shares_are_met_and_a_node_keeps_its_class():
    classes = NodeClasses.of(RunConfig(seed=3, classes=[FAST, SLOW]))
    nodes = np.arange(20_000)
    index = classes.of_nodes(nodes)
    assert abs(np.mean(index == 0) - 0.2) < 0.01
    some = np.array([17, 4, 19_999])
    assert (classes.of_nodes(some) == index[some]).all()
    other = NodeClasses.of(RunConfig(seed=4, classes=[FAST, SLOW])).of_nodes(nodes)
    assert (other != index).any()


def test_rates_are_of_the_class_or_else_of_all_nodes():
    classes, nodes = NodeClasses.of(RunConfig(classes=[FAST, SLOW])), np.arange(200)
    fast = classes.of_nodes(nodes) == 0
    rates = classes.rates(nodes, up=7, down=nodes, validation_us=9)
    assert (rates.up == np.where(fast, 10**9, 7)).all()
    assert (rates.down == np.where(fast, nodes, 50_000_000)).all()
    assert (rates.validation_us == np.where(fast, 9, 5_000)).all()
    assert (classes.values("degree", nodes, 4) == np.where(fast, 12, 4)).all()
