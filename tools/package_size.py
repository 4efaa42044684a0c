"""Count the lines of the package by kind: the table in DESIGN.md.

    python -m tools.package_size

*Code* is lines that are neither docstring, comment nor blank; *statements* are those of the syntax,
definitions and imports included, docstrings not.
"""

import ast
from collections import Counter
from pathlib import Path

import scribe_spark
from tools.pages import table, write_part

ROOT = Path(__file__).parents[1]

#: What it is for -> the rooms.
PARTS = {
    "Pastry, and any overlay": "pastry overlay overlays",
    "Scribe: trees, rounds, variants": "scribe",
    "worlds in rounds": "worlds rounds",
    "Bayeux, CAN, flooding, GossipSub and the other systems": "bayeux can flooding gossipsub "
    "narada nice overcast plumtree splitstream dissemination bandwidth clock",
    "Costa and Frey's reference tree": "reference_tree",
    "topologies and unicast routes": "topology underlay",
    "measures and what systems hand over": "measures systems multicast",
    "figures and pages": "report",
    "engine, Spark sessions, files": "engine runtime core",
    "experiments, resuming, saved runs": "experiments",
    "settings, command line, users' tables": "config cli notebook schemas __init__",
}

COLUMNS = ("files", "lines", "code", "docstrings", "comments", "blank", "statements")


def main() -> None:
    """Count, and write the table into DESIGN.md."""
    package = Path(scribe_spark.__file__).parent
    counted = {name: Counter[str]() for name in PARTS}
    part_of = {room: name for name, rooms in PARTS.items() for room in rooms.split()}
    for file in package.rglob("*.py"):
        first, *below = file.relative_to(package).parts
        room = (below[0] if first == "systems" and len(below) > 1 else first).removesuffix(".py")
        counted[part_of[room]] += lines_of(file)
    counted["all"] = sum(counted.values(), Counter())
    rows = ([name, *(f"{of[column]:,}" for column in COLUMNS)] for name, of in counted.items())
    write_part(ROOT / "DESIGN.md", "package_size", table(["part", *COLUMNS], rows))


def lines_of(file: Path) -> Counter[str]:
    """Return how many lines of each kind a file has, and how many statements."""
    text = file.read_text("utf-8")
    lines, nodes = [line.strip() for line in text.splitlines()], [*ast.walk(ast.parse(text))]
    places = [
        (node.body[0].lineno - 1, node.body[0].end_lineno or 0)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    ]
    docstrings = {line for place in places for line in range(*place)}
    others = [line for number, line in enumerate(lines) if number not in docstrings]
    comments, blank = sum(line.startswith("#") for line in others), others.count("")
    return Counter(
        files=1,
        lines=len(lines),
        code=len(others) - comments - blank,
        docstrings=len(docstrings),
        comments=comments,
        blank=blank,
        statements=sum(isinstance(node, ast.stmt) for node in nodes) - len(places),
    )


if __name__ == "__main__":
    main()
