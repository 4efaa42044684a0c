"""What the environment says to Spark: nonsense is refused in one line, before a JVM starts."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
import pytest

from scribe_spark.core.errors import InputError
from scribe_spark.runtime.environment import (
    check_environment,
    given_environment,
    jvm_locale,
)

NAMES = ("SPARK_HOME", "SPARK_LOCAL_DIRS", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (*NAMES, "LC_ALL", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("SPARK_HOME", "/nowhere", "holds no bin/spark-submit"),
        ("SPARK_HOME", "", "holds no bin/spark-submit"),
        ("SPARK_LOCAL_DIRS", "/dev/null/x", "'/dev/null/x' cannot be written (Not a directory)"),
        ("SPARK_LOCAL_DIRS", "{tmp},/dev/null", "'/dev/null' cannot be written"),
        ("PYSPARK_SUBMIT_ARGS", "'unclosed", "No closing quotation; give flags of spark-submit"),
        ("PYSPARK_SUBMIT_ARGS", "--name x", "starts no session; give flags of spark-submit, then"),
        ("PYSPARK_SUBMIT_ARGS", "--version pyspark-shell", "starts no session"),
    ],
)  # fmt: skip
def test_nonsense_is_refused(monkeypatch, tmp_path, name, value, remedy):
    monkeypatch.setenv(name, value.replace("{tmp}", str(tmp_path)))
    with pytest.raises(InputError) as refused:
        check_environment()
    assert refused.value.field == name
    assert remedy in str(refused.value)
    assert "\n" not in str(refused.value)


def unknown(uid: int) -> None:
    raise KeyError(f"getpwuid(): uid not found: {uid}")


def test_a_user_without_a_name_is_refused(monkeypatch):
    monkeypatch.setattr("os.getuid", lambda: 12345)
    monkeypatch.setattr("os.getgid", lambda: 7)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(InputError) as refused:
        check_environment()
    line = str(refused.value)
    assert line.startswith("uid = 12345: has no entry in /etc/passwd, from which Java takes")
    assert f"such as spark:x:12345:7::{tempfile.gettempdir()}:/bin/sh, or" in line


def test_another_spark_is_refused(monkeypatch, tmp_path):
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(InputError, match="is Spark without jars"):
        check_environment()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    with pytest.raises(InputError, match=r"is Spark 3\.5\.1; name the folder of Spark 4"):
        check_environment()
    (tmp_path / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar").touch()
    check_environment()


def test_sense_is_not(monkeypatch, tmp_path):
    check_environment()
    monkeypatch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{tmp_path / 'made'}")
    arguments = "--jars 'a b.jar' -v --name=x --conf a=b -c spark.driver.memory=4g pyspark-shell -x"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    check_environment()
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize(("given", "made"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("x", "x")])
def test_java_names_files_as_python_does(monkeypatch, given, made):
    monkeypatch.setenv("LC_ALL", given)
    with given_environment(jvm_locale()):
        assert os.environ["LC_ALL"] == made
    assert os.environ["LC_ALL"] == given


@pytest.mark.slow
def test_letters_beyond_ascii_in_a_locale_without(tmp_path):
    """All of the run is in the one folder that Python and Java both name."""
    out = tmp_path / "é ü"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "scribe_spark.cli", "run", "--nodes=60", "--groups=3"),
            *("--transit-domains=2", "--transit-size=2", "--stubs-per-transit=1", "--stub-size=4"),
            *("--phase=topology", "--master=local[1]", f"--out={out}"),
        ],
        env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["é ü"]
    assert (out / "tables" / "links" / "_SUCCESS").exists()
