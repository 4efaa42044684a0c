"""The config: the paper's defaults, sections and flat names, one line for bad values, TOML."""

import datetime
import json
import pickle
import subprocess
import sys
import time

import pytest
from pydantic import ValidationError

from scribe_spark.config import (
    EXPERIMENTS,
    Execution,
    GroupsConfig,
    OverlayConfig,
    Paper,
    ReferenceTreeConfig,
    RunConfig,
    TopologyConfig,
    WorldConfig,
    documentation,
    read_toml,
    write_toml,
)
from scribe_spark.config.toml import MOST_BYTES, MOST_PARTS
from scribe_spark.core.errors import InputError

# ------------------------------------------------------------------------------ fields and sections


def test_defaults_are_the_papers():
    config = RunConfig()
    assert (config.overlay.nodes, config.overlay.b, config.overlay.leaf_set) == (100_000, 4, 16)
    assert (config.groups.count, config.groups.zipf_exponent) == (1_500, 1.25)
    assert config.trees.variants == ()
    assert config.topology.routers == 5_050
    model = TopologyConfig(transit_domains=2, transit_size=3, stubs_per_transit=4, stub_size=5)
    assert model.routers == 2 * 3 * (1 + 4 * 5)


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": 5, "groups": 2, "topology": "power-law", "variants": "collapse,lazy"},
        {"overlay": {"nodes": 5}, "groups": {"count": 2}, "topology": {"kind": "power-law"},
         "trees": {"variants": ["collapse", "lazy"]}},
        {"overlay.nodes": 5, "groups.count": 2, "topology.kind": "power-law",
         "trees.variants": "lazy, collapse, plain"},
        {"overlay.nodes": 5, "groups": {"groups": 2}, "topology": {"topology": "power-law"},
         "trees.variants": "lazy, collapse"},
        {"overlay": OverlayConfig(nodes=5), "groups": GroupsConfig(count=2),
         "topology": TopologyConfig(kind="power-law"), "variants": ("collapse", "lazy")},
    ],
)  # fmt: skip
def test_fields_are_given_flat_dotted_or_by_section(given):
    config = RunConfig(**given)
    assert config == RunConfig.of({"nodes": 5, "groups": 2}, {"topology": "power-law"}).replace(
        variants=["collapse", "lazy"]
    )
    assert config.flat()["topology"] == "power-law"
    assert config.flat()["variants"] == ["collapse", "lazy"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"nodes": 5, "overlay": {"nodes": 5}}, "nodes = 5: is given twice; leave one of them out"),
        ({"trees": 5}, "trees = 5: must be a table of fields, such as variants"),
        (
            {"overlay": {"nods": 5}},
            "config key = 'overlay.nods': is unknown; did you mean 'overlay.n",
        ),
        ({"groups": {"group_size": 5, "size": 6}}, "group_size = 6: is given twice; leave one of"),
        ({"gossipsub": {"group_size": 5}}, "config key = 'gossipsub.group_size': is unknown"),
        ({"overlay": {"clock": 5}}, "config key = 'overlay.clock': is unknown"),
        ({"groups": {"size": 0}}, "group_size = 0: must be at least 1"),
        ({"run": {"nodes": 5}}, "config key = 'run': is unknown"),
        ({"groups": [5]}, "groups = [5]: must be a whole number"),
    ],
)
def test_what_sections_refuse(given, line):
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert str(refused.value).startswith(line)


def test_a_config_is_frozen_and_holds_plain_values():
    config = RunConfig(nodes=7, variants="lazy")
    with pytest.raises(ValidationError):
        config.seed = 1
    with pytest.raises(ValidationError):
        config.overlay.nodes = 1
    assert RunConfig(**json.loads(json.dumps(config.flat()))) == config
    assert hash(config) == hash(RunConfig(**config.flat()))
    assert pickle.loads(pickle.dumps(config)) == config


def test_documentation_has_a_line_for_every_field():
    rows = list(documentation())
    first = {field.flat: field for row in rows for field in [next(iter(row.values()))]}
    assert len(first) == len(rows)
    world, trees = WorldConfig(), ReferenceTreeConfig()
    others = {*world.flat(), *trees.reference_tree.flat()}
    assert set(first) == {*RunConfig().flat(), *others, *Execution(out="o").flat()}
    for field in first.values():
        assert field.description, field.flat
        assert not field.description.endswith("."), field.flat


def test_a_field_of_two_commands_has_one_description():
    """A field that another command reads from another section is the same field there."""
    for row in documentation():
        first, *others = row.values()
        if first.flat not in ("systems", "variants"):
            assert {field.description for field in others} <= {first.description}, first.flat


# --------------------------------------------------------------------------------------- bad values

#: Field -> bad values.
BAD = {
    "nodes": [0, -1, 2**31, 10.0, True, "10", {"a": 1}],
    "seed": [1.5, 2**63, None],
    "topology": [" ", 3, "a\0b"],
    "lan_delay_ms": [0, float("nan"), float("inf"), datetime.date(2026, 1, 1)],
    "b": [3, True, 16, 4.0],
    "leaf_set": [15, 0],
    "group_size": [0, 100_001],
    "variants": [5, {"lazy": True}],
    "p_top": [0.0],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, some in BAD.items() for value in some]
)
def test_bad_value_names_field_and_value(field, value):
    with pytest.raises(InputError) as refused:
        RunConfig(**{field: value})
    assert str(refused.value).startswith(f"{field} = {value!r}: must be ") or field == "group_size"
    assert "\n" not in str(refused.value)


# ------------------------------------------------------------------------ sizes that cannot be run


@pytest.mark.parametrize(
    ("given", "field", "bound"),
    [
        ({"transit_size": 3_000}, "transit_size", "at most 10,000"),
        ({"transit_domains": 50}, "transit_domains", "at most 10,000"),
        ({"stub_size": 16**5_000}, "stub_size", "at most 10,000"),
        ({"transit_domains": 1, "transit_size": 1, "stubs_per_transit": 1, "stub_size": 9_000},
         "stub_size", "at most 1,000,000"),
        ({"transit_domains": 1, "transit_size": 3_000, "stubs_per_transit": 1, "stub_size": 1},
         "transit_size", "at most 1,000,000"),
        ({"topology": "power-law", "power_law_routers": 3, "power_law_links": 100},
         "power_law_links", "at most 3"),
        ({"power_law_routers": 10, "power_law_links": 46}, "power_law_links", "at most 45"),
        ({"power_law_routers": 200_000}, "power_law_links", "at least 199,999"),
        ({"groups": 10**7, "group_size": 10**4}, "groups", "at most 10,000,000,000"),
        ({"groups": 10**7, "zipf_exponent": 0.0}, "groups", "at most 10,000,000,000"),
    ],
)  # fmt: skip
def test_sizes_are_bounded(given, field, bound):
    began = time.process_time()
    with pytest.raises(InputError) as refused:
        RunConfig(**given)
    assert time.process_time() - began < 1
    assert str(refused.value).startswith(f"{field} = ")
    assert bound in str(refused.value)


def test_the_largest_sizes_are_allowed():
    RunConfig(transit_domains=99, transit_size=1)
    RunConfig(power_law_routers=10, power_law_links=45)
    RunConfig(power_law_routers=1, power_law_links=0)
    RunConfig(nodes=2**31 - 1, groups=1, limit=2**63 - 1)
    RunConfig(nodes=10_000_000)
    RunConfig(nodes=5, groups=10_000_000, group_size=5)


# ----------------------------------------------------------------------------- members of a table


def test_with_members_no_groups_are_drawn():
    config = RunConfig(members="m.csv", nodes=9)
    assert (config.groups.count, config.groups.zipf_exponent) == (None, None)
    assert config == RunConfig(**config.flat())
    assert RunConfig(nodes=9).replace(members="m.csv") == config
    assert config.replace(members=None) == RunConfig(nodes=9)
    assert config.groups.memberships(9) == 0


# --------------------------------------------------------------------------------------------- TOML


def test_written_toml_reads_back(tmp_path):
    file = tmp_path / "run.toml"
    values = RunConfig(topology='a "b"\\ \x7f é\t', variants="lazy", p_stub=0.25).flat()
    file.write_text(write_toml(values), "utf-8")
    assert read_toml(file) == {name: v for name, v in values.items() if v is not None}


PART = 'ab.\'c.d\'."e\\".f".'
LONG = f"a key has more than {MOST_PARTS} parts"

#: What is no config, and what is said of it; a key of many parts once took more than a minute.
NO_CONFIGS = [
    *((text, "is not TOML") for text in ("nodes = ", "[a\n", "n = " + "9" * 5_000)),
    *((text, "is not TOML") for text in (b"\xff\xfe", "n = 1979-13-01", 'x = "' + '\\"' * 99_000)),
    *((f"a = {text}", "nested too deeply") for text in ("[" * 5_000, "{a=" * 5_000)),
    ("a." * 100_000 + "a = 1", LONG),
    ("[" + "a." * 100_000 + "a]", LONG),
    ("x = {" + "a . " * 60_000 + "a = 1}", LONG),
    (PART * 10_000 + "a = 1", LONG),
    ("x = {y = '''a'b\"c''', " + '"z".' * 50_000 + '"z" = 1}', LONG),
    ('x = """a\'b"c""" # \'\n' + "'z'." * 50_000 + "'z' = 1", LONG),
]


@pytest.mark.parametrize(("content", "says"), NO_CONFIGS)
def test_malformed_toml(tmp_path, content, says, monkeypatch):
    if says == LONG:  # before it is parsed
        monkeypatch.setattr("tomllib.loads", lambda text: pytest.fail("would be parsed"))
    file = tmp_path / "run.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=says):
        read_toml(file)


def test_a_text_of_too_many_bytes_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    file = tmp_path / "run.toml"
    head = "[sweep]\nseed = ["
    file.write_text(head + "1" * (MOST_BYTES - len(head) - 1) + "]")
    with pytest.raises(InputError, match="is not TOML: Exceeds the limit"):
        read_toml(file)
    monkeypatch.setattr("tomllib.loads", lambda text: pytest.fail("would be parsed"))
    file.write_text(file.read_text() + "\n")
    with pytest.raises(InputError, match="is no file of settings: it has more than 262,144 bytes"):
        read_toml(file)
    with pytest.raises(InputError, match="is no file of settings: it is a device, not a file"):
        read_toml("/dev/zero")


# ---------------------------------------------------------------------------------------- the paper


def test_experiments_of_the_paper():
    assert Paper().experiments == tuple(EXPERIMENTS)
    assert Paper(experiments="internet, main,main").experiments == ("internet", "main")
    runs = Paper(seeds=2, scale=0.001).runs()
    assert {seed: list(of) for seed, of in runs.items()} == {
        1: ["main", "small_groups", "internet", "arrivals"],
        2: ["main", "small_groups", "arrivals"],
    }
    tiny = runs[2]["small_groups"]
    assert (tiny.seed, tiny.overlay.nodes, tiny.groups.count, tiny.groups.size) == (2, 50, 30, 11)
    assert RunConfig(**EXPERIMENTS["main"].config.flat()) == Paper().runs()[1]["main"]
    with pytest.raises(InputError, match="is unknown; give one of main"):
        Paper(experiments=["smal"])


def test_configs_of_all_systems_import_nothing_heavy_in_any_order():
    """A fork of an interpreter that has pydantic alone begins with each of the modules."""
    firsts = ["scribe_spark.config", "scribe_spark.can.config"]
    systems = "bayeux", "flooding", "gossipsub", "nice", "plumtree", "reference_tree"
    firsts += [f"scribe_spark.systems.{system}.config" for system in systems]
    program = f"""
import importlib, os, pydantic, sys
for first in {firsts}:
    if os.fork() == 0:
        importlib.import_module(first)
        from scribe_spark.config import RunConfig, WorldConfig
        for kind in (RunConfig, WorldConfig):
            assert kind(systems="gossipsub", gossipsub_d=8).gossipsub.d == 8
        heavy = {{"pyspark", "py4j", "pandas", "numpy", "scipy", "click"}} & set(sys.modules)
        print(first, *heavy, flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split("\n") == [*firsts, ""], done.stderr


PATHS = [
    *("events", "members", "access", "capacities", "knowledge", "topology", "regions"),
    "node_routers",
]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("kind", [RunConfig, WorldConfig])
def test_paths_may_begin_at_home(tmp_path, monkeypatch, kind, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "c.toml").write_text(f'{name} = "~/x"\n')
    groups = {} if name == "members" else {"groups": 2}
    assert kind(**read_toml("~/c.toml"), **groups).flat()[name] == f"{tmp_path}/x"
    assert kind(**{name: "./~/x"}, **groups).flat()[name] == "./~/x"
    assert Execution(out="~/out", scratch="~").flat()["scratch"] == str(tmp_path)


def test_a_section_keeps_its_own_defaults():
    """A section of a run, which begins with arrivals, keeps them in a world, which does not."""
    assert RunConfig(overlay=WorldConfig(nodes=7).overlay) == RunConfig(nodes=7, overlay="perfect")
    world = WorldConfig(overlay=RunConfig(nodes=7).overlay)
    assert world == WorldConfig(nodes=7, overlay="arrivals")
    assert world.replace(rounds=3).overlay.kind == "arrivals"
    assert WorldConfig.of_run(RunConfig(delivery="reliable")).overlay.kind == "arrivals"


@pytest.mark.parametrize("config", [RunConfig(), WorldConfig()])
def test_tasks_read_sections_without_the_config(config):
    """docs/cluster.md: executors need no pydantic."""
    for name in config.sections:
        section = getattr(config, name)
        packed = pickle.dumps(section.for_tasks())
        assert b"scribe_spark.config" not in packed
        assert b"pydantic" not in packed
        record = pickle.loads(packed)
        assert {one: getattr(record, one) for one in type(section).model_fields} == dict(section)
        with pytest.raises(AttributeError, match="cannot be changed"):
            record.kind = "other"
    ours = config.gossipsub
    assert ours.for_tasks().heartbeat_us == ours.heartbeat_us == 1_000_000  # a property
