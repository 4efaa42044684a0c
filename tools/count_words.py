"""Count the words of the documentation that are written by hand, as `wc -w` counts them.

Pages of the reference, parts between marks and blocks of code do not count: commands write the
first two, and tests run the last.

python -m tools.count_words
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Pages of the reference, most of whose lines commands write.
GENERATED = {
    *("api.md", "attributes.md", "combinations.md", "commands.md", "configuration.md"),
    *("measures_reference.md", "results.md", "tables.md"),
}

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
    """Return the number of words of each page of docs/ that is written by hand, by its name."""
    pages = (page for page in sorted(ROOT.glob("docs/*.md")) if page.name not in GENERATED)
    return {page.name: words_in(page.read_text("utf-8")) for page in pages}


if __name__ == "__main__":
    found = words_of_pages()
    for words, name in sorted((words, name) for name, words in found.items()):
        print(f"{words:>7,} {name}")
    print(f"{sum(found.values()):>7,} in all")
