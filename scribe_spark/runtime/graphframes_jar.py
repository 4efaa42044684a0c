"""GraphFrames' JVM half, fetched once from Maven Central by Spark's own Ivy.

PyPI carries only the Python half.  No run needs the jar, only ``graphframe()`` does, so
where it cannot be had (a closed network) set-up says so in one line and goes on.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from scribe_spark.core.paths import replace_file

COORDINATES = "io.graphframes:graphframes-spark4_2.13:0.12.3"

#: Where ``make setup`` puts the jars: beside the package in a clone.
FOLDER = Path(__file__).resolve().parents[2] / ".jars"

#: Seconds after which a look-up is given up: a blocked network may never answer.
PATIENCE = 120


def jars(folder: str | Path = FOLDER) -> list[str]:
    """The jars in `folder`, in order; empty where they were never fetched."""
    return sorted(str(path) for path in Path(folder, "jars").glob("*.jar"))


def fetch(folder: str | Path = FOLDER, patience: float = PATIENCE) -> str:
    """Fetch the jar and what it needs into `folder`; say in one line how that went.

    A failed look-up is an answer too.  It is written to ``folder/asked``, which the Makefile takes
    as its stamp, so that it is not repeated by every ``make`` (``make graphframes`` asks again).
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if not jars(folder):
        why = _resolve(folder, patience)
    if found := jars(folder):
        line = f"GraphFrames: {len(found)} jar(s) in {folder}"
    else:
        line = (
            f"GraphFrames: {COORDINATES} cannot be fetched ({why}); everything but "
            f"graphframe() works. Later: `make graphframes`, or put the jars in {folder / 'jars'}"
        )
    replace_file(folder / "asked", f"{line}\n".encode())
    return line


def _resolve(folder: Path, patience: float) -> str:
    """Let spark-submit resolve :data:`COORDINATES` into `folder`; why it failed, or ''."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return "pyspark is not installed"
    home = Path(spec.origin).parent
    command = [
        str(home / "bin" / "spark-submit"),
        *("--packages", COORDINATES),
        *("--conf", f"spark.jars.ivy={folder}"),
        # something that is on Spark's class path and does nothing: only the look-up is wanted
        *("--class", "org.apache.hadoop.util.VersionInfo", "spark-internal"),
    ]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=patience,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer in {patience:g} s"
    except OSError as error:
        return f"spark-submit: {error.strerror}"
    if done.returncode == 0:
        return ""
    return "not found" if "not found" in done.stderr else f"spark-submit exit {done.returncode}"


if __name__ == "__main__":
    print(fetch(sys.argv[1] if sys.argv[1:] else FOLDER), file=sys.stderr)
