"""The environment that Spark reads, with checks, and its scratch folders.

Spark's own errors have a hundred lines.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from scribe_spark.core.errors import InputError, RunError, listed, one_line, shown

#: The environment variable that names Spark's scratch folders, separated by commas.
SCRATCH = "SPARK_LOCAL_DIRS"

_HOME, _ARGUMENTS = "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"

#: Further reasons why a session may not start, the most likely first.
_SUSPECTS = (
    *("SPARK_REMOTE", _ARGUMENTS, "SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
    *(SCRATCH, _HOME),
)

#: The variable that names the address on which all parts of Spark listen, and the one that only
#: this machine reaches.
_ADDRESS, LOOPBACK = "SPARK_LOCAL_IP", "127.0.0.1"

#: Locales whose letters are ASCII for Java; Python takes the names of files for UTF-8 there.
_ASCII = ("C", "POSIX")


def check_environment() -> None:
    """Refuse a user without a name, and environment variables that Spark cannot use."""
    try:
        with tempfile.TemporaryFile():
            pass
    except OSError as error:
        remedy = f"no folder for temporary files can be written ({one_line(error)}); name one"
        raise InputError("TMPDIR", os.environ.get("TMPDIR"), remedy) from None
    _check_user()
    if _HOME in os.environ:
        _check_home(os.environ[_HOME])
    if os.environ.get(SCRATCH):
        _check_scratch(os.environ[SCRATCH])
    if _ARGUMENTS in os.environ:
        _check_arguments(os.environ[_ARGUMENTS])


def blame_environment(error: Exception) -> InputError | None:
    """Return an error that names the variable that keeps a session from starting, if one does."""
    for name in _SUSPECTS:
        if os.environ.get(name):
            remedy = f"no session can start with it ({one_line(error)}); correct it, or unset it"
            return InputError(name, os.environ[name], remedy)
    return None


def spark_failure(error: Exception) -> RunError:
    """Return a one-line error for a session that cannot start although its environment is good."""
    return RunError(
        f"Spark cannot start ({one_line(error)}); check JAVA_HOME, the memory that is left, the "
        "folders for temporary files (SPARK_LOCAL_DIRS, TMPDIR), the name and address of this "
        "machine (/etc/hosts, SPARK_LOCAL_IP), and the user's entry in /etc/passwd"
    )


def environment_of_machine() -> dict[str, str]:
    """Return the environment of a JVM whose tasks all run on this machine, on its loopback."""
    values = {"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"} | jvm_locale()
    if not names_address():
        values[_ADDRESS] = LOOPBACK
    package = Path(__file__).parents[2]
    if package == Path().absolute():  # perhaps it is not installed, and workers need it, too
        paths = [os.environ.get("PYTHONPATH", ""), str(package)]
        values["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return values


def names_address() -> bool:
    """Return True if an environment variable names the address on which Spark listens."""
    return any(os.environ.get(name) for name in (_ADDRESS, "SPARK_LOCAL_HOSTNAME"))


def jvm_locale() -> dict[str, str]:
    """Return the environment variables with which the JVM names files as Python does."""
    return {"LC_ALL": "C.UTF-8"} if os.environ.get("LC_ALL") in _ASCII else {}


@contextmanager
def given_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Return a context manager in which new processes have `values` in their environment."""
    before = {name: os.environ[name] for name in values if name in os.environ}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update(before)


def _check_user() -> None:
    """Refuse a user without a name, which Java asks for before all else."""
    if sys.platform == "win32":
        return
    import pwd

    uid = os.getuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        line = f"spark:x:{uid}:{os.getgid()}::{tempfile.gettempdir()}:/bin/sh"
        remedy = (
            "has no entry in /etc/passwd, from which Java takes the user's name and home; add one, "
            f"such as {line}, or start as another user"
        )
        raise InputError("uid", uid, remedy) from None


def _check_home(home: str) -> None:
    import pyspark  # imported here: `doctor` works without it

    ours = pyspark.__version__
    remedy = f"name the folder of Spark {ours}, or unset it: pyspark brings one"
    if not os.access(Path(home, "bin", "spark-submit"), os.X_OK):
        raise InputError(_HOME, home, f"holds no bin/spark-submit; {remedy}")
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    found = [re.sub(r"spark-core_[^-]*-|\.jar$", "", jar.name) for jar in jars]
    if not any(version.split(".")[:2] == ours.split(".")[:2] for version in found):
        what = listed(found) if found else "without jars"
        raise InputError(_HOME, home, f"is Spark {what}; {remedy}")


def _check_scratch(folders: str) -> None:
    """Refuse scratch folders that cannot be made or written, by a test file in each."""
    for folder in folders.split(","):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"room")
        except (OSError, ValueError) as error:
            remedy = f"{shown(folder)} cannot be written ({one_line(error)}); name other folders"
            raise InputError(SCRATCH, folders, remedy) from None


def _check_arguments(text: str) -> None:
    """Refuse arguments that start no session; Spark itself refuses unknown flags and values."""
    remedy = "give flags of spark-submit, then pyspark-shell; or unset it"
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(_ARGUMENTS, text, f"{one_line(error)}; {remedy}") from None
    if "pyspark-shell" not in words or {"--help", "--version"} & {*words}:
        raise InputError(_ARGUMENTS, text, f"starts no session; {remedy}")


# --- folders for files that the driver and its tasks share


def scratch_folder() -> Path:
    """Return a new folder in the user's first scratch folder, deleted when the process ends."""
    first = os.environ.get(SCRATCH, "").split(",")[0] or None
    if first is not None:
        with suppress(OSError):  # Spark makes it, too; it may exist on executors only
            os.makedirs(first, exist_ok=True)
        first = first if os.access(first, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="scribe_spark-", dir=first))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
