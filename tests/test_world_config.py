"""What configs refuse in one line; the config of a world: its section, flat names, ready worlds."""

from pathlib import Path

import pytest

from scribe_spark.config import (
    RUN_FIELDS,
    WORLD_FIELDS,
    RunConfig,
    WorldConfig,
    read_toml,
)
from scribe_spark.core.errors import InputError

DATA = Path(__file__).parents[1] / "data"

WORLD, RUN = WorldConfig, RunConfig
FAST, SIZED = {"message_size": "1GB"}, {"message_size": "128KB"}
CAN = SIZED | {"systems": "can"}
#: Fields that contradict each other, that the other kind of config has, or that have no effect.
REFUSED = [
    (WORLD, dict(groups=3, leaf_set=8), "replicas = 5: must be at most 4, half of leaf_set"),
    (WORLD, dict(groups=3, group_size=10, nodes=9), "group_size = 10: a group cannot h"),
    (WORLD, dict(groups=1000, group_size=90000), "groups = 1000: makes 90,000,000 membe"),
    (WORLD, dict(groups=3, refresh=4), "child_timeout = 4: must be more than refresh, whi"),
    (WORLD, dict(groups=3, members="m.csv"), "groups = 3: contradicts the table of member"),
    (WORLD, dict(publish_source="root", publish_rate=2.0), "publish_rate = 2.0: is more t"),
    (WORLD, dict(groups=4, generator="root-failure", roots=5), "roots = 5: must be at "),
    (WORLD, dict(publishers=3, publish_rate=3.5), "publish_rate = 3.5: is more than one pu"),
    (WORLD, dict(lifetime=5.0, lifetime_seconds=9.0), "lifetime = 5.0: means the same as l"),
    (WORLD, dict(publish_rate=0.5, publish_seconds=9.0), "publish_rate = 0.5: means the sa"),
    (WORLD, dict(publish_source="root", publishers=2), "publishers = 2: must be 0 or 1: a "),
    (WORLD, dict(events="e.csv", generator="churn"), "generator = 'churn': cannot be combined "),
    (WORLD, dict(size=5), "config key = 'size': is unknown; did you mean "),
    (WORLD, dict(world=dict(rouns=5)), "config key = 'world.rouns': is unknown; did you mean 'w"),
    (RUN, dict(node=5), "config key = 'node': is unknown; did you mean 'nodes'"),
    (RUN, dict(lookups=5), "lookups = 5: applies to worlds only: a run measures its last round"),
    (RUN, dict(measures="delay"), "measures = 'delay': applies to worlds only: a run measures its"),
    (WORLD, dict(variants="collapse"), "variants = 'collapse': has no effect without groups; "),
    (WORLD, dict(trees=dict(variants=["lazy"])), "variants = 'lazy': has no effect without gro"),
    (WORLD, dict(variants="reference_tree"), "variants = 'reference_tree': applies to runs on"),
    (WORLD, dict(variants="steiner"), "variants = 'steiner': is not a variant of worlds; give"),
    (WORLD, dict(variants="bottleneck"), "variants = 'bottleneck': has no effect without grou"),
    (WORLD, dict(reference_children=1), "reference_children = 1: must be at least 2"),
    (WORLD, dict(reference_assignment="can"), "reference_assignment = 'can': must be one of p"),
    (WORLD, dict(reference_tree=1), "reference_tree = 1: must be true or false"),
    # sections of a run
    (RUN, dict(nodes=5, overlay=dict(nodes=5)), "nodes = 5: is given twice; leave one of them out"),
    (RUN, dict(trees=5), "trees = 5: must be a table of fields, such as variants"),
    (RUN, dict(overlay=dict(nods=5)), "config key = 'overlay.nods': is unknown; did you mean 'ov"),
    (RUN, dict(groups=dict(group_size=5, size=6)), "group_size = 6: is given twice; leave one of"),
    (
        RUN,
        dict(gossipsub=dict(group_size=5)),
        "config key = 'gossipsub.group_size': is unknown; did you mean 'groups.gr",
    ),
    (RUN, dict(overlay=dict(clock=5)), "config key = 'overlay.clock': is unknown"),
    (RUN, dict(groups=dict(size=0)), "group_size = 0: must be at least 1"),
    (RUN, dict(run=dict(nodes=5)), "config key = 'run': is unknown"),
    (RUN, dict(groups=[5]), "groups = [5]: must be a whole number"),
    # systems beside Scribe, and bandwidth
    (RUN, dict(gossipsub_d_low=7), "gossipsub_d_low = 7: must be at most gossipsub_d, which is 6"),
    (RUN, dict(gossipsub_d=13), "gossipsub_d_high = 12: must be at least gossipsub_d, which is 13"),
    (RUN, dict(gossipsub_d_out=4), "gossipsub_d_out = 4: must be at most half of gossipsub_d"),
    (RUN, dict(gossipsub_d_low=2, gossipsub_d_out=2), "gossipsub_d_out = 2: must be less than go"),
    (RUN, dict(bayeux_recreate=3), "bayeux_recreate = 3: applies to worlds"),
    (RUN, dict(can_dimensions=1, can_bits=31), "can_bits = 31: must be at most 30 with can_dimen"),
    (RUN, dict(systems="can", nodes=1025, can_bits=10), "can_bits = 10: gives 2^10 zones at "),
    (RUN, FAST | dict(uplink="1bit/s"), "message_size"),
    (RUN, FAST | dict(downlink="1bit/s"), "message_size"),
    (RUN, FAST | dict(classes=[dict(name="a", share=1.0, up="1bit/s")]), "message_size"),
    (RUN, SIZED | dict(systems="gossipsub", gossipsub_clock="hops"), "gossipsub_clock"),
    (RUN, CAN | dict(can_clock="hops"), "can_clock"),
    (RUN, CAN | dict(can_processing_ms=1.0, validation="5ms"), "can_processing_ms"),
]

#: What is refused of a run with rounds: one with reliable delivery.
REFUSED += [
    (RunConfig, {"delivery": "reliable", **given}, line)
    for given, line in (
        ({"replicas": 9}, "replicas = 9: must be at most 8, half of leaf_set"),
        ({"initial": 200_000}, "initial = 200000: must be at most the 100000 nodes"),
        ({"refresh": 4}, "child_timeout = 4: must be more than refresh, which is 4"),
        ({"generator": "root-failure", "roots": 9, "groups": 3}, "roots = 9: must be at most 3"),
    )
]


@pytest.mark.parametrize(("kind", "given", "line"), REFUSED)
def test_what_a_config_cannot_have_is_refused_in_one_line(kind, given, line):
    with pytest.raises(InputError) as refused:
        kind.of(given)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_a_world_has_no_groups_unless_it_is_told():
    assert not WorldConfig(leaf_set=2).groups.has_groups
    assert WorldConfig(groups=1).groups.has_groups
    read = WorldConfig(members="m.csv").groups
    assert (read.has_groups, read.count, read.zipf_exponent) == (True, None, None)
    assert WorldConfig(groups={"count": 4, "size": 1}) == WorldConfig(groups=4, group_size=1)
    assert WorldConfig(generator="churn + publications").world.generators == (
        "churn",
        "publications",
    )


def test_flags_are_the_fields_and_some_are_of_one_command():
    assert set(WORLD_FIELDS) == set(WorldConfig().flat())
    assert all(field.description for field in WORLD_FIELDS.values())
    assert WORLD_FIELDS.keys() - RUN_FIELDS.keys() == {
        *("lookups", "link_stress_period", "measures", "reference_tree", "bayeux_recreate")
    }
    assert not RUN_FIELDS.keys() - WORLD_FIELDS.keys()
    shared = {*WORLD_FIELDS} & {*RUN_FIELDS}
    assert {name for name in shared if WORLD_FIELDS[name] != RUN_FIELDS[name]} == {
        *("groups", "overlay", "systems", "variants")
    }


@pytest.mark.parametrize(
    "given",
    [{"delivery": "reliable"}, {"access": "a.csv"}, {"events": "e.csv"}, {"generator": "churn"},
     {"initial": 50_000}],
)  # fmt: skip
def test_a_run_with_rounds_has_the_groups_and_timers_of_its_world(given):
    config = RunConfig(seed=3, leaf_set=8, replicas=2, child_timeout=7, source="direct", **given)
    world = WorldConfig.of_run(config, "lazy")
    assert config.has_rounds
    assert (
        not config.replace(**dict.fromkeys(given)).has_rounds if "delivery" not in given else True
    )
    assert (world.seed, world.groups.count, world.groups.source) == (3, 1_500, "direct")
    assert (world.scribe.replicas, world.scribe.child_timeout, world.world.lookups) == (2, 7, 0)
    assert (world.trees.variants, world.trees.systems) == (("lazy",), ("scribe",))
    shared = {name: value for name, value in given.items() if value is not None}
    assert shared.items() <= world.flat().items()


@pytest.mark.parametrize("path", sorted(DATA.glob("world_*.toml")), ids=lambda path: path.stem)
def test_ready_worlds_load(path):
    given = read_toml(path)
    swept = given.pop("sweep", {})
    config = WorldConfig.of(given)
    if not swept:
        assert path.stem == "world_" + config.world.generator.replace("-", "_")
