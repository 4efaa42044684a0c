"""The answers of ``data/*.toml`` about deadlines and quorums: the tables of ``docs/questions.md``.

``python -m tools.questions OUT PAGE`` runs each config that has no complete folder in OUT (two
minutes each), and writes the answers between the marks of PAGE.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scribe_spark.core.paths import replace_file
from scribe_spark.report.style import label_of
from tools.pages import table, with_lines

ROOT = Path(__file__).resolve().parents[1]
MARKS = ("<!-- answers: begin -->\n", "<!-- answers: end -->\n")

#: Config -> head of a column, metric, and True for a share.
QUESTIONS: dict[str, dict[str, tuple[str, bool]]] = {
    "aggregators": {
        "within 400 ms": ("within_400ms", True),
        "within 800 ms": ("within_800ms", True),
        "worst message, 800 ms": ("within_800ms.min", True),
        "within 1,600 ms": ("within_1600ms", True),
    },
    "stake_quorum": {
        "stake within 1 s": ("within_1s.weight", True),
        "two thirds, median": ("quorum.median", False),
        "99th percentile": ("quorum.p99", False),
        "votes of two thirds, median": ("replies.median", False),
        "99th percentile of votes": ("replies.p99", False),
        "blocks without votes": ("replies.never", False),
    },
}


def question_of(config: Path) -> str:
    """Return the question in the first comment of a config."""
    lines = config.read_text().splitlines()
    first = " ".join(line.removeprefix("# ") for line in lines[: lines.index("")])
    return first.partition("?")[0] + "?"


def answers(name: str, out: Path) -> Iterator[str]:
    """Yield the question of a config, and its answers by system."""
    metrics = json.loads((out / name / "metrics.json").read_text())
    values = {row["name"]: row["value"] for row in metrics}
    columns = QUESTIONS[name]
    first = next(iter(columns.values()))[0]
    systems = [one.removesuffix(f".{first}") for one in values if one.endswith(f".{first}")]
    rows = [
        [label_of(system), *(_cell(values[f"{system}.{metric}"], share, metric)
                             for metric, share in columns.values())]
        for system in systems
    ]  # fmt: skip
    config = f"data/{name}.toml"
    yield from ("", f"[`{config}`](../{config}): {question_of(ROOT / config)}", "")
    yield from table(("system", *columns), rows)


def _cell(value: float | None, share: bool, metric: str) -> str:
    if value is None:
        return "never"
    if share:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if metric.endswith("never") else f"{value:,.0f} ms"


def main(arguments: Sequence[str]) -> int:
    """Run what is missing, and write the page."""
    from scribe_spark.cli import main as command

    out, page = (Path(one) for one in arguments)
    for name in QUESTIONS:
        if not (out / name / "metrics.json").exists():
            command(["run", "--config", f"data/{name}.toml", "--out", str(out / name), "--resume"])
    lines = [line for name in QUESTIONS for line in answers(name, out)]
    replace_file(page, with_lines(page.read_text("utf-8"), MARKS, [*lines, ""]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
