"""Flags that would change nothing are refused: of each field it is known when it is used."""

import re
import shlex
from pathlib import Path

import click
import pytest
from command_line import exit_code

from scribe_spark import experiments, overlays
from scribe_spark.cli import commands
from scribe_spark.cli.program import CommandLine
from scribe_spark.config import (
    REFERENCE_TREE_FIELDS,
    RUN_FIELDS,
    WORLD_FIELDS,
    TopologyConfig,
)
from scribe_spark.config.section import GENERATORS, OVERLAYS, VARIANTS
from scribe_spark.systems.registry import all_systems, is_built_in
from scribe_spark.worlds.generators import generators

ROOT = Path(__file__).resolve().parents[1]

#: Fields that every run, or every world, uses whatever the others are.
ALWAYS = {
    *("seed", "topology", "tie", "lan_delay_ms", "overlay", "nodes", "b", "leaf_set", "node_ids"),
    *("node_routers", "regions", "routes", "nodes_file", "edges_file"),
}
OF_RUNS = ALWAYS | {
    *("groups", "group_size", "custody", "group_ids", "members", "source", "variants", "systems"),
    *("classes", "message_size", "schedule", "publications"),
    *("write_routing_table", "write_knowledge", "knowledge"),
    # each of them makes rounds
    *("events", "generator", "initial", "access", "delivery"),
}
OF_WORLDS = ALWAYS | {
    *("events", "generator", "initial", "lookups", "groups", "members", "classes"),
    # the config refuses these itself
    *("reference_tree", "access"),
    *("measures", "variants", "systems", "message_size", "schedule", "publications"),
}
#: The config refuses those of the network itself.
OF_REFERENCE_TREES = ALWAYS | {"hosts", "connections", "children", "assignment", "scaling", "dht"}


@pytest.mark.parametrize(
    ("fields", "always"),
    [(RUN_FIELDS, OF_RUNS), (WORLD_FIELDS, OF_WORLDS), (REFERENCE_TREE_FIELDS, OF_REFERENCE_TREES)],
)
def test_of_every_field_it_is_known_when_it_is_used(fields, always):
    assert {name for name, field in fields.items() if not field.rules} <= always
    assert always <= fields.keys()


def test_rules_know_all_names_of_the_package():
    """Any other name is a user's, whose extension may use any field."""
    own = {system.name for system in all_systems() if is_built_in(system)}
    variants = {system.variant for system in all_systems() if is_built_in(system)} - {None}
    assert {*VARIANTS} == variants - {"reference_tree"}
    assert own >= {f"scribe_{variant}" for variant in VARIANTS}
    assert {*GENERATORS} == {*generators()}
    assert {*OVERLAYS} == {*overlays._KINDS}


#: The command, a flag that it would not use, and what makes it used.
UNUSED = [
    ("topology", "--region-jitter 5ms", "--regions azure"),
    ("topology", "--region-latency round-trip", "--regions azure"),
    ("topology", "--regions azure --stub-size 5", None),
    ("run", "--pair-delay constant:5ms", "--topology pairs"),
    ("run", "--message-jitter 10%", "--topology pairs"),
    ("run", "--topology pairs --lan-delay-ms 5", None),
    ("world", "--groups 3 --topology pairs --link-stress-period 5", None),
    ("run", "--overlay perfect --growth 2", "--overlay arrivals"),
    ("run", "--limit 5", "--variants bottleneck"),
    ("run", "--capacities x.csv", "--systems splitstream"),
    ("run", "--systems splitstream --capacities x.csv --splitstream-bound 20", None),
    ("run", "--shed-child random", "--variants lazy,bottleneck"),
    ("run", "--reference-children 3", "--variants reference_tree"),
    ("run", "--power-law-links 200000", "--topology power-law"),
    ("run", "--topology power-law --stub-size 3", None),
    ("run", "--topology topohub:backbone/africa --no-gtitm-quirk", None),
    ("run", "--topology x.csv --p-stub 0.1", None),
    ("run", "--zipf-exponent 2 --group-size 5", None),
    ("run", "--systems gossipsub --gossipsub-join-waves 3", "--gossipsub-joins waves"),
    ("run", "--withhold-kind all", "--withhold 20%"),
    ("run", "--systems gossipsub --message-size 9KB --gossipsub-announce publication", "--parts 4"),
    ("world", "--groups 4 --systems gossipsub --parts 4 --gossipsub-announce part", None),
    ("run", "--rounds 9", "--generator churn"),
    ("run", "--detection 2 --delivery reliable", "--events x.csv"),
    ("run", "--membership 9", "--generator churn+group-churn"),
    ("run", "--buffer 9", "--delivery reliable"),
    ("run", "--overlay perfect --growth 2 --delivery reliable", "--generator flash-crowd"),
    ("run", "--variants bottleneck --capacities x.csv --limit 5", None),
    ("run", "--generator flash-crowd --repair none", None),
    ("world", "--systems gossipsub --groups 4 --bayeux-hops leaf_set", "--systems bayeux"),
    ("world", "--growth 2 --groups 4", "--generator flash-crowd"),
    ("world", "--generator mass-failure --contact random", "--overlay arrivals"),
    ("world", "--detection 2", "--generator mass-failure"),
    ("world", "--groups 4 --generator mass-failure --no-rejoin", None),
    ("world", "--groups 4 --generator churn+group-churn --no-rejoin", None),
    ("world", "--groups 4 --no-rejoin", "--generator churn"),
    ("world", "--groups 4 --systems gossipsub --lookups 50", "--systems gossipsub,bayeux"),
    ("world", "--groups 4 --systems flooding --lookups 50", "--flooding-over overlay"),
    ("world", "--groups 4 --lost-after 3", "--generator publications"),
    ("world", "--groups 4 --publish-seconds 60", "--generator publications"),
    ("world", "--share 0.3", "--generator mass-failure"),
    ("world", "--adjacent 3", "--generator adjacent-failure"),
    ("world", "--lifetime 9", "--generator churn"),
    ("world", "--generator churn --weibull-shape 2", "--lifetime-distribution weibull"),
    ("world", "--groups 4 --membership 9", "--generator group-churn"),
    ("world", "--groups 4 --publish-rate 2", "--generator publications"),
    ("world", "--replicas 3", "--groups 4"),
    ("world", "--members x.csv --buffer 9", "--delivery reliable"),
    ("world", "--reference-children 3", "--reference-tree"),
    ("world", "--groups 4 --reference-assignment chord", "--reference-tree"),
    ("sweep", "--set b=2,4 --limit 5", "--set variants=plain,bottleneck"),
    ("world", "--set b=2,4 --lifetime 5", "--set generator=mass-failure,churn"),
    ("sweep", "--set gossipsub_d=6,8", "--systems gossipsub"),
    ("sweep", "--set growth=1.5,2 --overlay perfect", None),
    ("sweep", "--set p_stub=0.1,0.2 --topology x.csv", None),
    ("world", "--set share=0.2,0.3 --generator churn", None),
    ("reference-tree", "--scaling 9 --bits 9 --hosts=", "--hosts 9"),
    ("reference-tree", "--scaling 9 --dht routed --assignment pastry --growth 2",
     "--overlay arrivals"),
]  # fmt: skip


CHECKS = [(experiments, "check"), (experiments, "check_sweep"), (experiments, "check_world_run")]


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").touch()
    # what flags say together is refused before any input is looked at
    for module, check in CHECKS:
        monkeypatch.setattr(module, check, lambda *given: None)

    def run(*arguments: str) -> tuple[int, str]:
        return exit_code(arguments), capsys.readouterr().err

    return run


@pytest.mark.parametrize(("command", "flag", "more"), UNUSED)
def test_a_flag_that_changes_nothing_is_refused(call, command, flag, more):
    dry = () if command == "topology" else ("--dry-run",)
    code, err = call(command, *flag.split(), *dry)
    assert (code, err.count("\n")) == (2, 1)
    assert "; give " in err or "leave " in err
    if more is not None:
        assert call(command, *flag.split(), *more.split(), *dry) == (0, "")


def test_a_swept_setting_of_a_file_that_changes_nothing_is_refused(call, tmp_path):
    (tmp_path / "c.toml").write_text("[sweep]\ngossipsub_d = [6, 8]\n")
    code, err = call("sweep", "--config", "c.toml", "--dry-run")
    assert (code, err.count("\n")) == (2, 1)
    assert "gossipsub_d = '6,8': has no effect without " in err
    assert call("sweep", "--config", "c.toml", "--systems", "gossipsub", "--dry-run") == (0, "")


def test_a_topology_takes_no_flag_of_anything_else(call):
    network = {"seed", *TopologyConfig.flat_names().values()}
    flags = {flag.name: flag for flag in commands.topology.params}
    for name, field in RUN_FIELDS.items():
        assert flags[name].hidden is (name not in network)
        if name not in network:
            word = ("--" + name).replace("_", "-")
            given = [] if field.kind.name == "bool" else [field.typical or "1"]
            code, err = call("topology", word, *given)
            assert code == 2, name
            assert err.startswith(f"scribe-spark: error: {name} = ")
            assert "has no effect on the network" in err


PROGRAM = "scribe-spark"
#: The commands of the pages that are only parsed: they read folders, or take hours.
WITHOUT_SPARK = ("compare", "completion", "doctor", "paper", "report", "topology", "verify")


def test_commands_of_the_pages_are_taken(call, monkeypatch, tmp_path):
    # A new user's checkout has an OUT of `make run`; these commands begin without one.
    for name in ("data", "examples", "docs"):
        if (ROOT / name).is_dir():
            (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    pages = [ROOT / "README.md", ROOT / "DESIGN.md", *(ROOT / "docs").glob("*.md")]
    found = re.compile(r"scribe-spark ((?:run|world|sweep|reference-tree) [^`\n#]*)")
    texts = [page.read_text().replace("\\\n", "") for page in pages]
    commands = {line for text in texts for line in found.findall(text)}
    assert len(commands) > 10
    for line in sorted(commands):
        words = [word for word in shlex.split(line) if word != "--resume"]
        # `test_extending` plays the commands that need a file of their page
        if not {"...", "--import", "events.csv"} & set(words):
            assert call(*words, "--dry-run") == (0, ""), line
    others = re.compile(rf"{PROGRAM} ((?:{'|'.join(WITHOUT_SPARK)})(?: [^`|)\n#]*)?)")
    commands = {line for text in texts for line in others.findall(text)}
    assert {line.split()[0] for line in commands} == {*WITHOUT_SPARK}
    for line in commands:
        name, *words = shlex.split(line)
        command = CommandLine().get_command(click.Context(click.Command(PROGRAM)), name)
        assert command is not None
        command.make_context(name, words)  # an error for an unknown option or argument
