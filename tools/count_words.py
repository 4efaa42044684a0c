"""Count the words of the documentation, as `wc -w` counts them, in two ways.

Words by hand: pages of the reference, parts between marks and blocks of code do not count, since
commands write the first two, and tests run the last.  Words of whole pages: all that stands on a
page counts, but neither the reference nor pages of which commands write three quarters.

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

#: Pages of results, of which commands write at least three quarters of the words.
MEASURED = {"groups_results.md", "peers.md", "peers_living.md", "questions.md"}

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


def words_of_pages() -> dict[str, tuple[int, int]]:
    """Return the numbers of words by hand and of all words of the pages outside the reference."""
    pages = {page.name: page.read_text("utf-8") for page in sorted(ROOT.glob("docs/*.md"))}
    return {
        name: (words_in(text), len(text.split()))
        for name, text in pages.items()
        if name not in GENERATED
    }


if __name__ == "__main__":
    found = words_of_pages()
    for (words, whole), name in sorted((words, name) for name, words in found.items()):
        print(f"{words:>7,} {whole:>7,} {name}")
    by_hand = sum(words for words, _ in found.values())
    whole_pages = sum(whole for name, (_, whole) in found.items() if name not in MEASURED)
    print(f"{by_hand:>7,} words by hand; {whole_pages:,} on whole pages, without")
    print("        " + ", ".join(sorted(GENERATED | MEASURED)))
