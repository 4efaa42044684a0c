"""The worked examples of `docs/extending.md`, as a reader would run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"


def run_examples(heading: str) -> dict[str, Any]:
    """Execute the Python blocks under a heading of the guide; the names that they leave."""
    _, found, rest = GUIDE.read_text().partition(f"\n## {heading}\n")
    assert found, f"{GUIDE.name} has no section {heading!r}"
    section = rest.partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    assert blocks, f"{heading!r} has no example"
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, f"{GUIDE.name}: {heading}", "exec", dont_inherit=True), names)
    return names
