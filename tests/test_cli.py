"""The command line, as a user types it."""

import contextlib
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest
from command_line import code_of

from scribe_spark import cli
from scribe_spark.cli import commands
from scribe_spark.cli.flags import resolve
from scribe_spark.cli.program import PURPOSES
from scribe_spark.config import Execution, RunConfig
from scribe_spark.config.execution import PHASES
from scribe_spark.core.errors import InputError
from scribe_spark.experiments.paper import PaperSweep
from scribe_spark.experiments.verifying import check_verify

ROOT = Path(__file__).resolve().parent.parent


def shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scribe_spark.cli", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ bad input

BAD = {
    "run --nods 5": "flag = '--nods': is unknown; did you mean '--nodes'?",
    "--hlep": "flag = '--hlep': is unknown; did you mean '--help'?",
    "rnu": "command = 'rnu': is unknown; did you mean 'run'?",
    "run --seed one": "seed = 'one': must be a whole number",
    "run --seed": "flag = '--seed': Option '--seed' requires an argument.",
    "run --seed --nodes 5": "seed = '': needs a value; --nodes is the next flag",
    "run --resume=1": "flag = '--resume=1': Option '--resume' does not take a value.",
    "run --seed \u0663": "seed = '\u0663': must be a whole number",
    "reference-tree --hosts 10,10": "hosts = '10,10': has 10 twice; leave one of them out",
    "run --config=": "config = '': must name a file",
    "run --out=": "out = '': must be a non-empty text",
    "report --out /nowhere": "out = '/nowhere': has no manifest.json: it holds no results",
    "run out": "argument = 'out': is not expected",
    "run --phase tree": "phase = 'tree': is unknown; did you mean 'trees'?",
    "paper --experiments main,smal": "experiments = 'smal': is unknown; give one of main, small_",
    "paper --resume --overwrite": "overwrite = True: use either --resume or --overwrite",
    "sweep": "sweep = '': sweeps no field; name one, such as --set b=1,2,4",
    "sweep --set b": "set = 'b': must be FIELD=VALUE,VALUE,..., such as b=1,2,4",
    "sweep --set b=": "b = '': needs at least one value",
    "sweep --set gtitm_quirk=yes": "gtitm_quirk = 'yes': must be true or false",
    "sweep --set b=2 --set b=4": "set = 'b=4': sweeps b again",
    "sweep --set b=2,4 --b 4": "b = 4: is in --set too; leave one of them out",
    "sweep --set nodes=99,9 --group-size 50": "group_size = 50: a group cannot have more members",
    "sweep --set b=2 --set overlay.b=4": "set = 'overlay.b=4': sweeps b again",
    "sweep --set members=/nowhere.csv": "members = '/nowhere.csv': does not exist",
    'sweep --set topology="a': "topology = '\"a': must be values separated by commas",
    "sweep --systems gossipsub --set gossipsub_loss=nan,0": "gossipsub_loss = nan: must be a numbe",
    "sweep --set members=token=abc.csv,m.csv": "members = 'token=***': contains a secret",
    "world --set nodes=99,9 --initial 50": "initial = 50: must be at most the 9 nodes",
    "topology --capacities x.csv": "capacities = 'x.csv': has no effect on the network",
    "topology --no-introduce": "introduce = False: has no effect on the network",
    "report --master local": "master = 'local': applies only if OUT is on another machine",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_line_and_exit_2(refused, line):
    assert refused(*line.split()).startswith(BAD[line])


#: The command, its TOML file, and what the line says of it.
BAD_FILES = [
    ("run", "leafset = 8", "config key = 'leafset': is unknown; did you mean 'leaf_set'?"),
    ("run", "nodes = 2026-01-01", "nodes = datetime.date(2026, 1, 1): must be a whole number"),
    ("run", "members = {a = 1}", "members = {'a': 1}: must be a non-empty text"),
    ("run", "resume = 2026-01-01T00:00:00Z", "resume = datetime.datetime("),
    ("run", "[execution]\noverwrite = 'no'", "overwrite = 'no': must be true or false"),
    ("run", "nodes = 5\n[overlay]\nnodes = 5", "nodes = 5: is given twice"),
    ("run", "overlay = 5", "overlay = 5: must be a non-empty text"),
    ("run", "members = 'm.csv'\ngroups = 5", "groups = 5: contradicts the table of members"),
    ("run", 'topology = "a\\u0000b"', "topology = 'a\\x00b': must be a non-empty text"),
    ("sweep", "b = [2026-01-01]", "b = datetime.date(2026, 1, 1): must be one of 1, 2, 4, 8"),
    ("sweep", "seed = [{a = 1}]", "seed = {'a': 1}: must be a whole number"),
    ("sweep", "b = {c = [1]}", "b = {'c': [1]}: must be a list in [sweep]"),
    ("sweep", "variants = [['lazy', 'lasy']]", "variants = 'lasy': is unknown"),
    ("sweep", "variants = [[], 'plain']", "variants = 'plain': is swept twice"),
    ("sweep", "b = [2]\noverlay.b = [4]", "b = [4]: is given twice"),
    ("sweep", "overwrite = [true, false]", "sweep field = 'overwrite': is unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "text", "error"), BAD_FILES)
def test_bad_config_file(refused, tmp_path, command, text, error):
    (tmp_path / "c.toml").write_text("[sweep]\n" * (command == "sweep") + text)
    assert refused(command, "--config", tmp_path / "c.toml").startswith(error)


@pytest.mark.parametrize("given", [("run", "--seed", "x"), ("sweep", "--set", "seed=1,x")])
def test_bad_input_starts_no_java(given):
    done = shell(*given, JAVA_HOME="/nowhere", PATH="")
    assert done.returncode == 2
    assert done.stderr == "scribe-spark: error: seed = 'x': must be a whole number\n"


#: A command line for each command with OUT, but for OUT itself.
WRITING = (
    "run --nodes 9 --groups 2",
    "sweep --nodes 9 --groups 2 --set b=2",
    "world --nodes 9",
    "world --nodes 9 --set b=2",
    "paper --scale 0.01",
    "reference-tree",
    "topology --stub-size 3",
    "compare a b",
)
READING = ("report", "verify")

#: An OUT that no command takes -> what the line says of it.
NO_OUT = {
    "": "must be a non-empty text",
    " ": "must be a non-empty text",
    "file": "is a file, or below one; name a folder",
    "file/below": "is a file, or below one; name a folder",
    "link-to-file": "is a file, or below one; name a folder",
}
NOT_NEW = {
    "theirs": r"is not empty \(thesis.tex\); name a new folder",
    "link-to-theirs": r"is not empty \(thesis.tex\); name a new folder",
    "page": r"is not empty \(compare.html\); name a new folder",
    "network": r"is not empty \(links\); name a new folder",
    "link-to-nowhere": r"cannot be written \(",
    "a": r"holds a run, not .*; name a new folder|exists; use --resume|is not empty \(manifest",
}
NOTHING_THERE = "has no manifest.json"


@pytest.mark.parametrize(
    ("line", "out", "says"),
    [
        *((line, out, says) for line in WRITING for out, says in (NO_OUT | NOT_NEW).items()),
        *((line, out, says) for line in READING for out, says in NO_OUT.items()),
        *((line, out, NOTHING_THERE) for line in READING for out in NOT_NEW if out != "a"),
    ],
)
def test_no_command_takes_a_folder_of_others(refused, tmp_path, monkeypatch, line, out, says):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "file": "mine",
        "theirs/thesis.tex": "mine",
        "page/compare.html": "mine",
        "network/links/part-00000.parquet": "mine",
        "a/manifest.json": '{"resolved": {}, "phases": []}',
        "b/manifest.json": '{"resolved": {}, "phases": []}',
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    for name, target in (("file", "file"), ("theirs", "theirs"), ("nowhere", "nowhere/at/all")):
        Path(f"link-to-{name}").symlink_to(target)
    before = {path: path.is_file() and path.read_text() for path in Path().rglob("*")}
    told = refused(*line.split(), f"--out={out}")
    assert re.match(rf"out = {re.escape(repr(out))}: ({says})", told), told
    assert {path: path.is_file() and path.read_text() for path in Path().rglob("*")} == before


# ------------------------------------------------------------------------------ help and dry run


def test_every_field_is_a_flag_with_a_text(call):
    options = {option.name: option for option in commands._RUN_FLAGS if not option.hidden}
    assert set(options) == {*RunConfig().flat(), *Execution(out="o").flat()}
    for option in options.values():
        assert option.help is not None
        assert option.help.split("[default")[0].strip(), option.name
    out = call("run", "--help")[1]
    assert "--leaf-set INT" in out
    assert "[default: 100000]" in out


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"pydantic", "scribe_spark.config", "pyspark", "rich"}),
        (["paper", "--help"], {"pyspark", "pandas", "numpy", "rich"}),
        (["paper", "--scale", "x"], {"pyspark", "pandas", "numpy", "rich"}),
    ],
)
def test_help_and_bad_flags_load_nothing_heavy(arguments, heavy):
    code = (
        "import sys; from scribe_spark.cli import main\n"
        f"try: main({arguments})\n"
        f"finally: assert not {heavy} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == (0 if "--help" in arguments else 2), done.stderr
    assert "Error" not in done.stderr


def test_dry_run_reads_back(call, tmp_path):
    file = tmp_path / "c.toml"
    out = 'a "b"\\ \x7f é\t'
    flags = ("--nodes", "500", "--b", "2", "--no-gtitm-quirk", "--p-stub", "0.25", "--out", out)
    code, text, _ = call("run", *flags, "--seed", "-5", "--dry-run")
    assert code == 0
    file.write_text(text, encoding="utf-8")
    assert call("run", "--config", str(file), "--dry-run") == (0, text, "")
    given = {"nodes": 500, "b": 2, "gtitm_quirk": False, "p_stub": 0.25, "seed": -5}
    config, execution = resolve({"config": str(file)})
    assert config == RunConfig(**given)
    assert execution.out == out


def test_dry_runs_take_what_is_there_or_elsewhere(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = {
        "links.csv": "src,dst,delay_ms\n0,1,1\n",
        "members.csv": "group,node\n1,0\n1,4\n",
        "access.csv": "group,node,right\n1,0,create\n1,0,join\n1,4,join\n",
        "events.csv": "round,node,event\n2,3,fail\n",
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
    for line in (
        "run --members members.csv --topology links.csv --out s3a://bucket/run --master spark://h:7",
        "run --members hdfs://h/m.csv --topology hdfs://h/links.csv --knowledge s3a://bucket/run",
        "world --events events.csv --members members.csv --access access.csv --out new/folder",
    ):
        code, out, err = call(*line.split(), "--nodes", "5", "--dry-run")
        assert (code, err) == (0, "")
        assert tomllib.loads(out)
    assert {path.name for path in tmp_path.iterdir()} == {*tables}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run --out /proc/nowhere", "out = '/proc/nowhere': cannot be written"),
        ("run --members none.csv", "members = 'none.csv': does not exist; give a CSV or Parquet"),
        ("run --variants bottleneck --capacities none", "capacities = 'none': does not exist"),
        ("run --knowledge .", "knowledge = '.': has no manifest.json"),
        ("run --topology nowhere", "topology = 'nowhere': does not exist; give transit-stub, "),
        ("world --events none.csv", "events = 'none.csv': does not exist; give a CSV or Parquet"),
        ("sweep --set members=none.csv,file", "members = 'none.csv': does not exist"),
        ("run --master here", "master = 'here': is not a Spark master; use local[*], "),
        ("world --master local[0]", "master = 'local[0]': threads must be 1 to 10,000"),
        ("world --set b=2,4 --master spark:host", "master = 'spark:host': is not a Spark master"),
        ("reference-tree --master local[x]", "master = 'local[x]': is not a Spark master"),
        ("world --systems reference_tree --groups 2", "systems = 'reference_tree': is for runs"),
        ("world --systems gossipsub", "systems = 'gossipsub': has no effect without groups"),
        ("run --overlay finger", "overlay = 'finger': is unknown; give one of perfect, arrivals"),
        ("world --overlay can", "overlay = 'can': cannot start a world; give one of perfect"),
        ("world --generator chrun", "generator = 'chrun': is unknown; give one of mass-failure"),
        ("world --generator mass-failure --event-round 99", "event_round = 99: is not a round"),
        ("world --generator adjacent-failure --adjacent 9", "adjacent = 9: leaves none of 9 nodes"),
        ("world --groups 2 --generator root-failure --holders 9", "holders = 9: leaves none of 9"),
        ("sweep --set variants=plain,lasy", "variants = 'lasy': is unknown; did you mean 'lazy'?"),
        ("run --buckets 2", "buckets = 2: applies to worlds and to runs with rounds"),
        ("run --systems bayeux --overlay can", "systems = 'bayeux': contains bayeux, which needs"),
        ("run --members twice.csv", "members = 'twice.csv': group=1, node=0 occurs twice"),
        ("run --topology loop.csv", "topology = 'loop.csv': a link must join two different"),
        ("run --p-stub 0.00001 --stub-size 9", "p_stub = 1e-05: "),
        ("reference-tree --scaling 9 --hosts= --dht routed --assignment pastry --overlay can",
         "overlay = 'can': is not Pastry"),
    ],
)  # fmt: skip
def test_dry_runs_refuse_what_the_command_refuses(refused, tmp_path, monkeypatch, line, says):
    """The very check of the command, before it starts Spark."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.csv").write_text("group,node\n1,0\n1,0\n")
    (tmp_path / "loop.csv").write_text("src,dst,delay_ms\n1,1,5\n")
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    nodes = [] if line.startswith("reference") else ["--nodes", "9"]
    asked = [*line.split(), *nodes, *([] if "--out" in line else ["--out", "out"])]
    if "--groups" not in asked and "--members" not in asked and asked[0] == "run":
        asked += ["--groups", "2"]
    told = refused(*asked)
    assert told.startswith(says)
    assert refused(*asked, "--dry-run") == told
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_tells_that_out_exists(call, refused, tmp_path):
    (tmp_path / "manifest.json").write_text('{"resolved": {}, "phases": []}')
    code, out, err = call("run", "--out", str(tmp_path), "--dry-run")
    assert (code, tomllib.loads(out)["out"]) == (0, str(tmp_path))
    says = "exists: without --dry-run, --resume or --overwrite is needed"
    assert err == f"{str(tmp_path)!r} {says}\n"
    assert call("run", "--out", str(tmp_path), "--overwrite", "--dry-run")[2] == ""
    unreadable = "its manifest.json cannot be read; use --overwrite"
    assert unreadable in call("run", "--out", str(tmp_path), "--resume", "--dry-run")[2]
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.png").touch()
    found = refused("run", "--out", tmp_path, "--overwrite", "--dry-run")
    assert "holds 'figures/mine.png', which scribe-spark did not write" in found


# ----------------------------------------------------------------------------- what a run calls


class StandIn(types.SimpleNamespace):
    """A stand-in for a session, to which weak references are possible, as to a session."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.fixture
def experiments(monkeypatch):
    """Stand-ins for the experiments and the session: what they were called with."""
    calls: list[tuple] = []
    stand_in = types.ModuleType("scribe_spark.experiments")
    stand_in.check = lambda config, execution: calls.append(("check", config, execution))

    def run(spark, config, execution, phases, progress, *, end_session):
        calls.append(("run", config, execution, phases))
        end_session()  # beside the drawing of the page
        return types.SimpleNamespace(close=lambda: calls.append(("close",)))

    def run_sweep(spark, sweep, execution, progress):
        calls.append(("run_sweep", sweep, execution))
        return types.SimpleNamespace(out=execution.out, page=f"{execution.out}/report.html")

    stand_in.run, stand_in.run_sweep = run, run_sweep
    stand_in.check_sweep = lambda sweep, how: calls.append(("check_sweep", sweep, how))
    paper = types.SimpleNamespace(PaperSweep=PaperSweep)
    monkeypatch.setitem(sys.modules, "scribe_spark.experiments.paper", paper)
    stand_in.report = lambda spark, out, note: (
        note("verified") or calls.append(("report", out)) or f"{out}/report.html"
    )
    monkeypatch.setitem(sys.modules, "scribe_spark.experiments", stand_in)
    monkeypatch.setattr("scribe_spark.experiments", stand_in, raising=False)

    session = types.ModuleType("scribe_spark.runtime.session")
    session.session = lambda execution, nodes, effort, worlds: StandIn(
        stop=lambda: calls.append(("stop",)),
        sparkContext=types.SimpleNamespace(_gateway=None),  # no JVM of its own
    )

    @contextlib.contextmanager
    def warmed_up(spark):
        yield
        calls.append(("warm",))

    session.warmed_up = warmed_up
    monkeypatch.setitem(sys.modules, "scribe_spark.runtime.session", session)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return calls


def test_run(call, experiments):
    assert call("run", "--nodes", "9", "--out", "o", "--overwrite") == (0, "o\n", "")
    config, execution = RunConfig(nodes=9), Execution(out="o", overwrite=True)
    assert experiments == [
        ("check", config, execution),
        ("run", config, execution, PHASES),
        ("warm",),  # a session that ends under a running job logs an error
        ("stop",),
        ("close",),
    ]


@pytest.mark.parametrize(
    ("phases", "resume"),
    [
        (("topology",), False),
        (("overlay",), True),
        (("trees", "measures"), True),
        (("overlay", "topology"), False),
    ],
)
def test_phases_run_in_order_and_go_on_with_out(call, experiments, phases, resume):
    assert call("run", *(f"--phase={phase}" for phase in phases))[0] == 0
    _, _, execution, ran = experiments[1]
    assert ran == tuple(phase for phase in PHASES if phase in phases)
    assert execution.resume is resume


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("members", 7, "names no node"), 2, "error: members = 7: names no node\n"),
        (KeyboardInterrupt(), 130, "interrupted; the same command with --resume continues after"),
    ],
)
def test_an_error_of_a_run_is_one_line_and_stops_the_session(
    call, experiments, monkeypatch, error, code, line
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(sys.modules["scribe_spark.experiments"], "run", fail)
    found, _, err = call("run")
    assert (found, err.count("\n")) == (code, 1)
    assert err.startswith(f"scribe-spark: {line}")
    assert experiments[-2:] == [("warm",), ("stop",)]


#: A command line -> its exit code: a success returns, every failure is a SystemExit.
EXITS = {
    "": 0,
    "--help": 0,
    "--version": 0,
    "run --help": 0,
    "run --nodes 9": 0,
    "run --nodes 9 --groups 2 --dry-run": 0,
    "completion bash": 0,
    "run --nodes x": 2,
    "nosuch": 2,
    "verify nosuch": 2,
}


@pytest.mark.parametrize("line", EXITS)
def test_a_success_returns_and_a_failure_exits(experiments, capsys, line):
    if line.startswith("verify"):
        sys.modules["scribe_spark.experiments"].check_verify = check_verify
    if EXITS[line]:
        with pytest.raises(SystemExit) as ended:
            cli.main(line.split())
        assert ended.value.code == EXITS[line]
    else:
        cli.main(line.split())
    assert capsys.readouterr().err.count("\n") == bool(EXITS[line])


def test_no_java_is_one_line(refused, experiments, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert refused("run").startswith("JAVA_HOME = '/nowhere': cannot be run (No such file")


def submit(command: str, monkeypatch, *flags: str) -> int:
    """The exit code of the script for ``spark-submit``."""
    path = ROOT / "jobs" / "submit.py"
    monkeypatch.setattr(sys, "argv", [str(path), command, *flags])
    code = compile(path.read_text(), str(path), "exec")
    return code_of(lambda: exec(code, {"__name__": "__main__"}))


@pytest.mark.parametrize("command", PURPOSES)
def test_a_submitted_command_is_that_of_the_console(monkeypatch, capsys, command):
    assert submit(command, monkeypatch, "--help") == 0
    assert capsys.readouterr().out.startswith(f"Usage: scribe-spark {command} ")


# ---------------------------------------------------------------------------------- topology


def test_a_reader_that_goes_away_is_no_error():
    """As with ``scribe-spark topology FILE | head -1``."""
    program = "from scribe_spark.cli.parsing import tell; input(); tell('a'); tell('b')"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(b"\n", timeout=60)
    assert (process.returncode, err) == (0, b"")
