"""GraphFrames' JVM half, downloaded once from Maven Central by Spark's own Ivy.

PyPI has only the Python half.  Only ``graphframe()`` needs the jar, so if the download fails (on a
closed network), set-up prints one line and continues.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from scribe_spark.core.paths import replace_file

COORDINATES = "io.graphframes:graphframes-spark4_2.13:0.12.3"

#: The folder in which ``make setup`` puts the jars: beside the package in a clone.
FOLDER = Path(__file__).resolve().parents[2] / ".jars"

#: The longest time of a download in seconds, as a blocked network may never answer.
PATIENCE = 120


def jars(folder: str | Path = FOLDER) -> list[str]:
    """Return the paths of the jars in `folder`, in order; empty if there are none."""
    return sorted(str(path) for path in Path(folder, "jars").glob("*.jar"))


def fetch(folder: str | Path = FOLDER, patience: float = PATIENCE) -> str:
    """Download GraphFrames' jars into `folder`; return the result as a line, also in ``asked``."""
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
    # the stamp of the Makefile: not every ``make`` tries again after a failure
    replace_file(folder / "asked", f"{line}\n".encode())
    return line


def _resolve(folder: Path, patience: float) -> str:
    """Let spark-submit download the jars into `folder`; return the reason of a failure, or ''."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return "pyspark is not installed"
    home = Path(spec.origin).parent
    command = [
        str(home / "bin" / "spark-submit"),
        *("--packages", COORDINATES),
        *("--conf", f"spark.jars.ivy={folder}"),
        # a class on Spark's class path that does nothing: only the download is wanted
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
