"""How a session is made: whose settings win, which Python its workers run, what is refused."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from listening import LOOPBACK, listening
from pyspark.sql import SparkSession

from scribe_spark.config import Execution
from scribe_spark.core.errors import InputError, RunError
from scribe_spark.runtime import master as remote
from scribe_spark.runtime import session as sessions
from scribe_spark.runtime.jvm_process import user_jars
from scribe_spark.runtime.master import check_remote, reach_remote
from scribe_spark.runtime.session import session
from scribe_spark.runtime.sessions import _zipped

ROOT = Path(__file__).resolve().parents[2]


def test_local_workers_run_our_own_interpreter(spark):
    """The fixture's session was made with PYSPARK_PYTHON=/no/such/python."""

    def interpreter(batches):
        for batch in batches:
            python = pa.array([sys.executable] * batch.num_rows)
            yield pa.RecordBatch.from_arrays([python], names=["python"])

    row = spark.range(1).mapInArrow(interpreter, "python string").collect()[0]
    assert row["python"] == sys.executable


def test_no_other_machine_reaches_a_local_session(spark):
    """Its JVM, its Python workers at their work, and this process."""

    def look(batches):
        for batch in batches:
            time.sleep(1)
            yield batch

    with ThreadPoolExecutor(1) as beside:
        job = beside.submit(spark.range(2).repartition(2).mapInArrow(look, "id bigint").collect)
        found = set[tuple[str, int]]()
        while not job.done():
            found |= listening()
            time.sleep(0.2)
        job.result()
    assert len(found) >= 4  # py4j's, Spark's two, the daemon's
    assert {address for address, _ in found} <= LOOPBACK


@pytest.mark.parametrize("named", [{}, {"SPARK_LOCAL_IP": "10.1.1.1"}])
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1024]", "spark://host:7077"])
def test_who_may_reach_a_session(monkeypatch, named, master):
    for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    made: dict[str, str] = {}

    def start(settings):
        made.update(os.environ)
        raise RuntimeError("far enough")

    monkeypatch.setattr(sessions, "start_jvm", start)
    with pytest.raises(RuntimeError, match="far enough"):
        sessions._create({}, master)
    usual = None if master.startswith("spark:") else "127.0.0.1"
    assert made.get("SPARK_LOCAL_IP") == named.get("SPARK_LOCAL_IP", usual)
    assert os.environ.get("SPARK_LOCAL_IP") == named.get("SPARK_LOCAL_IP")
    settings = sessions._settings_of_machine(master)  # of a JVM that runs already
    loopback = not named and master == "local[2]"
    assert ("spark.driver.bindAddress" in settings) == loopback
    assert settings.get("spark.driver.host", "127.0.0.1") == "127.0.0.1"


def test_files_in_the_working_directory_replace_no_module(spark, folder_of_modules):
    """The session's processes are in a folder with a file for each module of Python's."""

    def look(batches):
        import importlib

        import module_of_the_user

        where = [importlib.import_module(name).__file__ for name in ("tokenize", "sched")]
        for _ in batches:
            columns = [os.getcwd(), *where, str(module_of_the_user.VALUE)]
            yield pa.RecordBatch.from_arrays([pa.array([value]) for value in columns], list("abcd"))

    look_around = (
        spark.range(1).coalesce(1).mapInArrow(look, "a string, b string, c string, d string")
    )
    (row,) = look_around.collect()
    assert row["a"] == str(folder_of_modules)
    assert (folder_of_modules / "tokenize.py").exists()
    assert {str(Path(row[name]).parent) for name in "bc"} == {str(Path(os.__file__).parent)}
    assert row["d"] == "5"


@pytest.fixture
def none_active(monkeypatch):
    """As in a process without a session."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(sessions, "_create", lambda *_: pytest.fail("a session is made"))


@pytest.mark.parametrize("master", ["local[0]", "nonsense", "spark://127.0.0.1:1"])
def test_a_bad_master_is_refused_before_a_session_is_made(none_active, master):
    with pytest.raises(InputError, match=r"^master = "):
        session(Execution(out="out", master=master))


def test_what_keeps_a_session_from_being_made_is_one_line(monkeypatch):
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    away = RuntimeError("All masters are unresponsive!\nat org.apache.spark ...")
    found = str(sessions._refusal(away, "spark://host:7077"))
    assert re.fullmatch(r"master = .*All masters are unresponsive!\)", found)
    stopped = RuntimeError("Cannot call methods on a stopped SparkContext.\nThis stopped ...")
    assert "does not answer as a Spark master" in str(
        sessions._refusal(stopped, "spark://host:7077")
    )
    here = sessions._refusal(RuntimeError("BindException: in use\n  at x"), "local[2]")
    assert isinstance(here, RunError)
    assert str(here).startswith("Spark cannot start (BindException: in use); check JAVA_HOME")
    monkeypatch.setenv("SPARK_CONF_DIR", "/conf")
    assert sessions._refusal(away, "local[2]").field == "SPARK_CONF_DIR"
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert sessions._refusal(away, "local[2]").field == "JAVA_HOME"


def test_jars_of_the_user_stay_and_ours_come_after(monkeypatch, tmp_path):
    monkeypatch.setattr(sessions, "jars", lambda: ["/ours/graphframes.jar"])
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert sessions._jars() == ["/ours/graphframes.jar"]
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.jars no.jar\nspark.jars.ivy /x\nspark.jars  a.jar, b.jar \nspark.ui.port=1\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert sessions._jars() == ["a.jar", "b.jar", "/ours/graphframes.jar"]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars 'c d.jar' pyspark-shell")
    assert user_jars() == ["c d.jar"]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.jars=my-graphframes.jar pyspark-shell")
    assert sessions._jars() == ["my-graphframes.jar"]


#: Run by spark-submit: makes our session, does some work in Python, and says what it found.
SUBMITTED = """
import json, sys
from scribe_spark.config import Execution
from scribe_spark.runtime.session import session

spark = session(Execution(out="out"), nodes=10)
context = spark.sparkContext
count = spark.range(3).mapInArrow(lambda batches: batches, "id bigint").count()
print(json.dumps({
    "count": count,
    "master": context.master,
    "settings": dict(context.getConf().getAll()),
    "checkpoints": context.getCheckpointDir() is not None,
}))
spark.stop()
"""


@pytest.mark.slow
def test_what_spark_submit_was_given_wins(tmp_path):
    jar, script = tmp_path / "own.jar", tmp_path / "job.py"
    zipfile.ZipFile(jar, "w").close()
    script.write_text(SUBMITTED)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    given = [
        *("--master", "local[1]", "--jars", str(jar), "--conf", "spark.shuffle.compress=true"),
        *("--conf", "spark.sql.codegen.cache.maxEntries=77"),
    ]
    done = subprocess.run(
        [str(submit), *given, str(script)],
        env=os.environ | {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": "/no/such/python",
        },
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["count"] == 3
    assert found["master"] == "local[1]"
    assert found["checkpoints"]
    settings = found["settings"]
    assert settings["spark.jars"] == jar.as_uri()
    assert settings["spark.shuffle.compress"] == "true"
    assert settings["spark.sql.codegen.cache.maxEntries"] == "77"
    assert settings["spark.locality.wait"] == "0"


# --- servers of Spark Connect ---------------------------------------------------------------------


pytest.importorskip("grpc", reason="the extra `connect` is not installed")


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("spark://host:7077", "is not a Spark Connect server"),
        ("http://host", "is not a Spark Connect server"),
        ("sc://", "is not a Spark Connect server"),
        ("sc://host:70000", "port must be 1 to 65,535"),
        ("sc://host/path", "is not a Spark Connect server"),
        ("local[0]", "threads must be 1 to 10,000"),
        ("local-cluster[2,1,1024]", "is not a Spark Connect server"),
    ],
)
def test_what_is_none(url, remedy):
    with pytest.raises(InputError, match=remedy) as refused:
        check_remote(url)
    assert refused.value.field == "remote"


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setattr(remote, "_LIBRARIES", ("grpc", "no_such_library.at_all"))
    with pytest.raises(InputError, match=r"needs no_such_library.at_all; pip install 'scribe-"):
        check_remote("sc://host")


def test_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
        reach_remote(f"sc://127.0.0.1:{port}")
    with pytest.raises(InputError, match=r"cannot be reached \(Connection refused\)"):
        reach_remote(f"sc://127.0.0.1:{port}")


def test_the_package_is_imported_from_its_archive(tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import scribe_spark.engine.on_spark as m"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(m.__file__)", str(_zipped(tmp_path))],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path / "scribe_spark.zip")), done.stderr
