"""Only `runtime/` goes behind Spark's public interface."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import scribe_spark

PACKAGE = Path(scribe_spark.__file__).parent

#: Attributes of PySpark's objects that lead into the JVM.
PRIVATE = {
    *("_gateway", "_jconf", "_jdf", "_jrdd", "_jsc", "_jschema", "_jsparkSession", "_jvm"),
    "_ssql_ctx",
}

#: What a session of Spark Connect has not: `runtime` asks for it where a session is classic.
CLASSIC = {"RDD", "SparkContext", "rdd", "sparkContext"}

#: Names of sessions and contexts, of which nothing that begins with an underscore is to be used.
SESSIONS = {"SparkContext", "SparkSession", "context", "spark", "sparkContext", "sparkSession"}


def violations(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a module that use what is private to Spark, and what they use."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = {ast.Name: "id", ast.Attribute: "attr"}.get(type(owner), "")
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            if node.attr in PRIVATE | CLASSIC or (private and getattr(owner, name, "") in SESSIONS):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in PRIVATE | CLASSIC:
            yield node.lineno, str(node.value)  # getattr(spark, "_jvm")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                if module.partition(".")[0] == "py4j":
                    yield node.lineno, module
            for name in {alias.name for alias in node.names} & CLASSIC:
                yield node.lineno, name


@pytest.mark.parametrize(
    "line",
    [
        "spark._jvm.System",
        "frame._jdf.queryExecution()",
        "frame.sparkSession.sparkContext._conf",
        "SparkContext._active_spark_context",
        "getattr(spark, '_jsc')",
        "from py4j.java_gateway import JavaObject",
        "import py4j",
        "spark.sparkContext.defaultParallelism",
        "frame.rdd.getNumPartitions()",
        "from pyspark import SparkContext",
    ],
)
def test_what_counts_as_private(line):
    assert list(violations(line))


@pytest.mark.parametrize("line", ["self._spark", "spark.conf", "context.__dict__", "world._jobs"])
def test_what_does_not(line):
    assert not list(violations(line))


def test_only_runtime_goes_behind_sparks_public_interface():
    """And only there is anything used that classic sessions alone have; notebooks do without it."""
    files = [*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "jobs").rglob("*.py")]
    found = [
        f"{file.relative_to(PACKAGE.parent)}:{line}: {name}"
        for file in sorted(files)
        if file.relative_to(PACKAGE.parent).parts[:2] != (PACKAGE.name, "runtime")
        for line, name in violations(file.read_text("utf-8"))
    ]
    assert len(files) > 300
    assert not found


def test_runtime_does():
    """What it looks for is what there is."""
    sources = [path.read_text("utf-8") for path in (PACKAGE / "runtime").glob("*.py")]
    assert {"_jdf", "_jvm"} <= {name for source in sources for _, name in violations(source)}
