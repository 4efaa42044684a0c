"""Count the words of the documentation that are written by hand, as `wc -w` counts them.

Parts between marks and the page of combinations are written by commands and tests, and blocks of
code are run by tests: none of them counts.

python -m tools.count_words
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: A part that a command writes, and a block of code.
_PARTS = re.compile(
    r"<!-- ([\w ]+): (?:written by|begin).*?<!-- (?:end of \1|\1: end) -->|^```.*?^```", re.S | re.M
)


def words_in(text: str) -> int:
    """Return the number of words of a page.

    Examples
    --------
    >>> words_in("two words <!-- a: written by `make docs` -->\\nthree more words<!-- end of a -->")
    2
    >>> words_in("```sh\\nmake run\\n```\\none")
    1
    """
    return len(_PARTS.sub("", text).split())


def words_of_pages() -> dict[str, int]:
    """Return the number of words of each page of docs/, by its name."""
    pages = {page.name: page.read_text("utf-8") for page in sorted(ROOT.glob("docs/*.md"))}
    return {name: words_in(text) for name, text in pages.items()} | {"combinations.md": 0}


if __name__ == "__main__":
    found = words_of_pages()
    for words, name in sorted((words, name) for name, words in found.items()):
        print(f"{words:>7,} {name}")
    print(f"{sum(found.values()):>7,} in all")
