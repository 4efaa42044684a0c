"""Count the lines of the package by kind: the table in DESIGN.md.

    python -m tools.package_size

*Code* is lines with a token that is neither comment nor docstring; *statements* are the logical
lines of it, however many lines each is laid out on, definitions and imports included.
"""

import ast
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import scribe_spark
from tools.pages import table, write_part

ROOT = Path(__file__).parents[1]

#: What it is for -> the rooms.
PARTS = {
    "Pastry, and any overlay": ("pastry", "overlay", "overlays"),
    "Scribe: trees, rounds, variants": ("scribe",),
    "worlds in rounds": ("worlds", "rounds"),
    "Bayeux, CAN, flooding, GossipSub and the other systems": (
        *("bayeux", "can", "flooding", "gossipsub", "narada", "nice", "overcast", "plumtree"),
        "splitstream",
        *("dissemination", "bandwidth", "clock"),
    ),
    "Costa and Frey's reference tree": ("reference_tree",),
    "topologies and unicast routes": ("topology", "underlay"),
    "measures and what systems hand over": ("measures", "systems", "multicast"),
    "figures and pages": ("report",),
    "engine, Spark sessions, files": ("engine", "runtime", "core"),
    "experiments, resuming, saved runs": ("experiments",),
    "settings, command line, users' tables": (
        *("config", "cli", "notebook", "schemas", "__init__"),
    ),
}

COLUMNS = ("part", "files", "lines", "code", "docstrings", "comments", "blank", "statements")

_LAYOUT = (
    *(tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def main() -> None:
    """Count, and write the table into DESIGN.md."""
    package = Path(scribe_spark.__file__).parent
    counted = {name: Counter[str]() for name in PARTS}
    part_of = {room: name for name, rooms in PARTS.items() for room in rooms}
    for file in package.rglob("*.py"):
        first, *below = file.relative_to(package).parts
        room = (below[0] if first == "systems" and len(below) > 1 else first).removesuffix(".py")
        counted[part_of[room]] += lines_of(file)
    rows = [_row(name, counts) for name, counts in counted.items()]
    rows.append(_row("all", sum(counted.values(), Counter())))
    write_part(ROOT / "DESIGN.md", "package_size", table(COLUMNS, rows))


def lines_of(file: Path) -> Counter[str]:
    """Return how many lines of each kind a file has, and how many statements."""
    text = file.read_text("utf-8")
    docstrings = set(_docstring_lines(ast.parse(text)))
    code: set[int] = set()
    comments: set[int] = set()
    statements = 0
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                comments.add(token.start[0])
            elif token.type not in _LAYOUT:
                code.update(range(token.start[0], token.end[0] + 1))
            elif token.type == tokenize.NEWLINE:
                statements += token.start[0] not in docstrings
    lines = len(text.splitlines())
    code -= docstrings
    comments -= code
    found = {"code": len(code), "docstrings": len(docstrings), "comments": len(comments)}
    return Counter(
        {
            **{"files": 1, "lines": lines, "statements": statements},
            **found,
            "blank": lines - sum(found.values()),
        }
    )


def _docstring_lines(tree: ast.Module) -> Iterable[int]:
    """Return the lines of all docstrings."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def _row(name: str, counts: Counter[str]) -> list[str]:
    return [name, *(f"{counts[column]:,}" for column in COLUMNS[1:])]


if __name__ == "__main__":
    main()
