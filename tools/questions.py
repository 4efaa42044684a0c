"""Answers of configs in data/: the tables of ``docs/questions.md``."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from scribe_spark.report.style import label_of
from tools.folders import COUNTS, Folder
from tools.pages import table
from tools.results import Page, Part

ROOT = Path(__file__).resolve().parents[1]

#: Head of a column -> metric, and True for a share.
_TIMES = {
    "delivered": ("reached", True),
    "time until half of the deliveries": ("latency.p50", False),
    "until 99 %": ("latency.p99", False),
    "until all": ("latency.max", False),
    "duplicates per delivery": ("duplicates.mean", False),
}
_WITHHELD = {head: of for head, of in _TIMES.items() if head != "until all"}

#: Config -> the columns of its answers.
COLUMNS: dict[str, dict[str, tuple[str, bool]]] = {
    "aggregators": {
        "within 400 ms": ("within_400ms", True),
        "within 800 ms": ("within_800ms", True),
        "within 800 ms, worst publication": ("within_800ms.min", True),
        "within 1,600 ms": ("within_1600ms", True),
    },
    "stake_quorum": {
        "stake within 1 s": ("within_1s.weight", True),
        "two thirds, median": ("quorum.median", False),
        "99th percentile": ("quorum.p99", False),
        "votes of two thirds, median": ("replies.median", False),
        "99th percentile of votes": ("replies.p99", False),
        "blocks that never get the votes of two thirds": ("replies.never", False),
    },
    "ethereum_block": _TIMES,
    "waku": _TIMES,
    "peerdas": _TIMES,
}

#: Config -> what its answers show.
READ = {
    "aggregators": (
        "Yes: with each system, all members have the attestations within 800 ms. Only Scribe "
        "needs more than 400 ms for some members."
    ),
    "stake_quorum": (
        "With GossipSub, the proposer has the votes after a quarter of a second, with Scribe "
        "after half a second. A block has 128 KB; in Scribe, a [hub](networks.md#regions) sends "
        "it to all its children over one uplink."
    ),
    "ethereum_block": (
        "With GossipSub, all nodes have the block after 0.8 s. Scribe takes almost a minute, "
        "because the copies for all children of a hub share one uplink."
    ),
    "waku": (
        "All pairs of nodes are 80 ms apart. In Scribe, nearly all nodes are children of one "
        "hub; the copies for them share its uplink and end together, so most deliveries take "
        "the same time."
    ),
    "peerdas": (
        "With GossipSub, yes: the last column arrives after 1.1 s. With Scribe, no: more than "
        "half of the deliveries take longer."
    ),
    "withhold": (
        "In a tree, the nodes below a node that withholds get nothing; so do nodes of CAN "
        "multicast and flooding whose only senders withhold. In GossipSub, a node has several "
        "senders, and asks further nodes by IWANT. In Plumtree, too, nearly all members of most "
        "groups get the message. But a root that is no member sends the message to a single "
        "member ([K10](rules.md#K10)); if this member withholds, the whole group gets nothing. "
        "Nodes that announce nothing (`all`) delay nobody here, since a node hears of a message "
        "from others. With `all`, GossipSub has more duplicates, since these nodes send no "
        "IDONTWANT."
    ),
}

#: The kinds of `--withhold-kind` -> the experiment; in all systems but the meshes, they are equal.
KINDS = {"payload": "withhold", "all": "withhold-all"}
_MESHES = ("gossipsub", "plumtree")

#: Scribe's delivery -> its world.
DELIVERIES = {"best-effort": "withhold-world", "reliable": "withhold-reliable"}
_WORLD = (
    "world --config data/withhold.toml --systems scribe --nodes 2000 --groups 20 "
    "--generator publications --rounds 10 --lookups 0"
)


def question_of(config: Path) -> str:
    """Return the question in the first comment of a config."""
    lines = config.read_text().splitlines()
    first = " ".join(line.removeprefix("# ") for line in lines[: lines.index("")])
    return first.partition("?")[0] + "?"


def answers(name: str, out: Path) -> Iterator[str]:
    """Yield the question of a config, its answers by system, and what these show."""
    values, columns = _values(out / name), COLUMNS[name]
    systems = _systems(values, next(iter(columns.values()))[0])
    rows = [
        [label_of(system), *(_cell(values.get(f"{system}.{metric}"), share, metric)
                             for metric, share in columns.values())]
        for system in systems
    ]  # fmt: skip
    yield from _asked(name)
    yield from (*table(("system", *columns), rows), "", READ[name])


def withheld(out: Path) -> Iterator[str]:
    """Yield what systems deliver if some nodes forward nothing, or announce nothing, either."""
    rows = []
    for kind, name in KINDS.items():
        values = _values(out / name)
        for system in _systems(values, "duplicates.mean"):
            cells = (_cell(values[f"{system}.{metric}"], share, metric)
                     for metric, share in _WITHHELD.values())  # fmt: skip
            rows.append([label_of(system), f"`{kind}`", *cells])
    yield from _asked("withhold")
    rows.sort(key=lambda row: row[0])
    yield from (*table(("system", "`--withhold-kind`", *_WITHHELD), rows), "", READ["withhold"])


def delivered(out: Path) -> Iterator[str]:
    """Yield what Scribe delivers in worlds in which some nodes forward nothing."""
    rows = []
    for delivery, name in DELIVERIES.items():
        told = Folder(out / name).told
        sums = told[list(COUNTS)].sum()
        cells = (f"{100 * sums[what] / sums['due']:.1f} %" for what in ("in_time", "late", "lost"))
        rows.append([f"`{delivery}`", *cells])
    yield from ("", *table(("Scribe's `--delivery`", "in time", "late", "lost"), rows), "")


def _systems(values: Mapping[str, float | None], metric: str) -> list[str]:
    """Return the systems that have a metric."""
    return [one.removesuffix(f".{metric}") for one in values if one.endswith(f".{metric}")]


def _values(folder: Path) -> dict[str, float | None]:
    rows = json.loads((folder / "metrics.json").read_text())
    return {row["name"]: row["value"] for row in rows}


def _asked(name: str) -> tuple[str, str, str]:
    """Return the lines with the question of a config."""
    config = f"data/{name}.toml"
    return "", f"[`{config}`](../{config}): {question_of(ROOT / config)}", ""


def _cell(value: float | None, share: bool, metric: str) -> str:
    if value is None:
        return "0" if metric.startswith("duplicates") else "never"  # of trees and IP multicast
    if share:
        return f"{100 * value:.1f} %"
    if metric.startswith("duplicates"):
        return f"{value:.2f}"
    return f"{value:,.0f}" if metric.endswith("never") else f"{value:,.0f} ms"


def _answers(out: Path) -> list[str]:
    """Return the lines of the page, of all configs."""
    return [*(line for name in COLUMNS for line in answers(name, out)), ""]


QUESTIONS = Page(
    {
        **{name: f"run --config data/{name}.toml" for name in COLUMNS},
        "withhold": "run --config data/withhold.toml",
        "withhold-all": "run --config data/withhold.toml --withhold-kind all "
        f"--systems {','.join(_MESHES)}",
        **{name: f"{_WORLD} --delivery {delivery}" for delivery, name in DELIVERIES.items()},
    },
    {
        "answers": Part("stake_quorum/metrics.json", _answers),
        "withheld": Part("withhold-all/metrics.json", lambda out: [*withheld(out), ""]),
        "delivered": Part("withhold-reliable/tables/rounds", lambda out: list(delivered(out))),
    },
)
