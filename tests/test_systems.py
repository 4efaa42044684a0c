"""The registry of multicast systems."""

import re
import subprocess
import sys
from importlib import import_module
from pkgutil import resolve_name

import pytest

from scribe_spark.can.multicast import LiveCan
from scribe_spark.core.errors import InputError
from scribe_spark.measures.metrics import metric_definitions
from scribe_spark.multicast import PAYLOAD
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.systems.bayeux.live import LiveBayeux
from scribe_spark.systems.flooding.flood import LiveFlooding
from scribe_spark.systems.gossipsub.round import LiveGossipSub
from scribe_spark.systems.nice.overlay import Nice
from scribe_spark.systems.plumtree.overlay import PlumtreeKernel
from scribe_spark.systems.registry import (
    IP,
    TREE,
    System,
    all_systems,
    register_system,
    systems_of_run,
    unregister_system,
)
from scribe_spark.worlds.summary import summary_units


def names(variants: list[str]) -> list[str]:
    return [system.name for system in systems_of_run(variants)]


def test_the_systems_of_a_run_come_in_one_order():
    assert names(["plain"]) == ["scribe", "ip_multicast", "naive_unicast"]
    every = ["scribe", "scribe_bottleneck", "scribe_collapse", "scribe_lazy"]
    assert names(["lazy", "bottleneck", "collapse"]) == [*every, "ip_multicast", "naive_unicast"]


def test_a_run_may_name_its_systems():
    """Whatever it names, it has what delays are compared with."""

    def named(*systems: str, variants: tuple[str, ...] = ()) -> list[str]:
        return [system.name for system in systems_of_run(variants, systems)]

    assert named("naive_unicast") == ["ip_multicast", "naive_unicast"]
    assert named("scribe_lazy", "scribe") == ["scribe", "scribe_lazy", "ip_multicast"]
    assert named("lazy") == ["scribe_lazy", "ip_multicast"]
    assert named("scribe", variants=("reference_tree",)) == [
        *("scribe", "reference_tree", "ip_multicast")
    ]
    assert named(variants=("scribe_collapse",)) == names(["collapse"])
    with pytest.raises(InputError, match=r"systems = 'bayou': is unknown; did you mean "):
        named("scribe", "bayou")


def test_a_variant_that_nothing_is_registered_for_is_refused():
    with pytest.raises(InputError, match=r"variants = 'colapse': is unknown; did you mean 'colla"):
        names(["lazy", "colapse"])


@pytest.fixture
def mine():
    yield register_system(System("mine", "Mine", TREE, lambda config: None))
    unregister_system("mine")


def test_what_cannot_be_registered(mine):
    with pytest.raises(ValueError, match="'scribe' is a system of the package"):
        register_system(System("scribe", "Mine", TREE, lambda config: None))
    with pytest.raises(ValueError, match="ip_multicast is what delays are compared with"):
        register_system(System("other", "Other", IP, lambda config: None))
    with pytest.raises(ValueError, match="mine has the label 'Mine'; take another one"):
        register_system(System("other", "Mine", TREE, lambda config: None))
    assert register_system(System("mine", "Mine", TREE, lambda config: None)) is not mine


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "My tree"}, "'My tree' is no name of a system"),
        ({"name": "pastry"}, "'pastry' is the name of other measures; take another name"),
        ({"family": "forest"}, "family 'forest' must be one of tree, mesh, unicast, ip"),
        ({"label": " "}, "label ' ' of other must be words in one line"),
        ({"label": "a\nb"}, "must be words in one line"),
        ({"label": None}, "label None of other"),
        ({"clock": "rounds"}, "clock 'rounds' of other must be one of time, hops"),
        ({"world": None}, "world of other must be a function, not None"),
        ({"world": 3}, "world of other must be a function, not 3"),
    ],
)
def test_a_system_that_cannot_be(changes, words):
    good = {"name": "other", "label": "Other", "family": TREE, "world": lambda config: None}
    with pytest.raises(ValueError, match=re.escape(words)):
        System(**good | changes)


def test_measures_of_no_system_keep_their_names():
    """A system of such a name would hide them."""
    systems = {system.name for system in all_systems()}
    measures = {name.partition(".")[0] for name in (*metric_definitions(), *summary_units())}
    for name in measures - systems:
        with pytest.raises(ValueError, match="is the name of other measures"):
            System(name, "Other", TREE, lambda config: None)


#: The folder of a protocol -> the kinds of its messages that are counted.
COUNTED = {
    "pastry": MESSAGE_KINDS,
    "systems.scribe": (),  # its handlers have other names for some kinds
    "systems.bayeux": (*LiveBayeux.payload, *LiveBayeux.control),
    "systems.flooding": (*LiveFlooding(4, 16).payload, *LiveFlooding.building),
    "systems.gossipsub": (*LiveGossipSub.payload, *LiveGossipSub.control),
    "systems.nice": (PAYLOAD, *Nice.control),
    "systems.plumtree": tuple(PlumtreeKernel.messages),
    "systems.reference_tree": (),
    "can": (PAYLOAD, *LiveCan.building),
}


@pytest.mark.parametrize("folder", COUNTED)
def test_the_head_of_a_protocol_names_the_handler_of_each_message(folder):
    package = import_module(f"scribe_spark.{folder}")
    table = [row for row in package.__doc__.splitlines() if re.match(r"\S.*`\w+\.\w", row)]
    named = {name for row in table for name in re.split(r", | {2,}", row.split("`")[0])}
    assert {*COUNTED[folder]} <= named
    handlers = {name for row in table for name in re.findall(r"`([\w.]+)`", row)}
    assert handlers
    for handler in handlers:
        assert resolve_name(f"scribe_spark.{folder}.{handler}") is not None


def test_the_registry_and_the_report_load_no_spark():
    code = (
        "import sys, scribe_spark.report, scribe_spark.systems.registry\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
