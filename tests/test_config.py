"""The config: the paper's defaults, one line for bad values, TOML."""

from __future__ import annotations

import dataclasses

import pytest

from scribe_spark.config import Execution, RunConfig, TransitStub, check_names, read_toml
from scribe_spark.errors import InputError


def test_defaults_are_the_papers():
    config = RunConfig()
    assert (config.nodes, config.groups, config.b, config.leaf_set) == (100_000, 1_500, 4, 16)
    assert config.routers == 5_050


def test_routers_of_the_model():
    model = TransitStub(transit_domains=2, transit_size=3, stubs_per_transit=4, stub_size=5)
    assert model.routers == 2 * 3 * (1 + 4 * 5)


def test_a_config_is_frozen_and_holds_plain_values():
    config = RunConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.nodes = 1
    assert RunConfig(**config.as_dict()) == config
    assert hash(config) == hash(RunConfig())


BAD = [
    ("nodes", 0),
    ("nodes", -1),
    ("nodes", 2**31),
    ("nodes", 10.0),
    ("nodes", True),
    ("nodes", "10"),
    ("groups", -1),
    ("seed", 1.5),
    ("seed", 2**63),
    ("seed", None),
    ("topology", " "),
    ("topology", 3),
    ("tie", "fastest"),
    ("lan_delay_ms", 0),
    ("lan_delay_ms", float("nan")),
    ("lan_delay_ms", float("inf")),
    ("b", 3),
    ("b", True),
    ("b", 16),
    ("leaf_set", 15),
    ("leaf_set", 0),
    ("node_ids", "md5"),
    ("group_ids", ""),
    ("zipf_exponent", -1),
    ("group_size", 0),
    ("group_size", 100_001),
    ("members", ""),
    ("source", "leaf"),
    ("write_routing_table", 1),
    ("transit_domains", 0),
    ("stub_size", 0),
    ("p_top", 0.0),
    ("p_stub", 1.5),
    ("extra_stub_stub", -1),
    ("gtitm_quirk", "yes"),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_bad_value_names_field_and_value(field, value):
    with pytest.raises(InputError) as refused:
        RunConfig(**{field: value})
    assert str(refused.value).startswith(f"{field} = {value!r}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("b", [1, 2, 4, 8])
@pytest.mark.parametrize("leaf_set", [2, 16, 128])
def test_edges_of_what_is_allowed(b, leaf_set):
    RunConfig(nodes=1, groups=0, b=b, leaf_set=leaf_set, seed=-(2**63), group_size=1)


def test_later_sources_win():
    assert RunConfig.of({"nodes": 5, "seed": 2}, {"nodes": 7}) == RunConfig(nodes=7, seed=2)


def test_unknown_key_gets_the_nearest():
    with pytest.raises(InputError, match=r"leafset.*did you mean 'leaf_set'"):
        RunConfig.of({"leafset": 8})
    with pytest.raises(InputError, match="did you mean"):
        check_names({"qqq": 1}, ["alpha", "beta"], "key")


def test_execution():
    assert Execution(out="x").master == "local[*]"
    for bad in ({"out": ""}, {"out": "x", "partitions": 0}, {"out": "x", "master": ""}):
        with pytest.raises(InputError):
            Execution(**bad)
    with pytest.raises(InputError, match="not both"):
        Execution(out="x", resume=True, overwrite=True)


def test_read_toml(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('nodes = 5\ntopology = "transit-stub"\n')
    assert read_toml(file) == {"nodes": 5, "topology": "transit-stub"}


@pytest.mark.parametrize("content", [b"nodes = ", b"\xff\xfe", b"[a\n"])
def test_malformed_toml(tmp_path, content):
    file = tmp_path / "run.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match="is not TOML"):
        read_toml(file)


def test_missing_toml(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read"):
        read_toml(tmp_path)
