"""Count the words of the documentation: tokens between blanks that have a letter or a digit.

Tags and comments of HTML are no words.

python -m tools.count_words
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Pages that commands write as a whole: the reference (`make docs`), and results of experiments.
GENERATED = {
    *("combinations.md", "commands.md", "configuration.md", "measures_reference.md", "tables.md"),
    *("groups_results.md", "living_results.md", "peers.md", "peers_living.md", "results.md"),
}


def words_in(text: str) -> int:
    """Return the number of words of a text.

    Examples
    --------
    >>> words_in("| `nodes` | 1..128 | - | Overlay nodes, N |")
    5
    """
    plain = re.sub(r"<!--.*?-->|</?[a-z][^<>]*>", "", text, flags=re.S)
    return sum(bool(re.search(r"[^\W_]", token)) for token in plain.split())


def words_of_pages() -> dict[str, int]:
    """Return the number of words of each page of docs/, by its name."""
    return {page.name: words_in(page.read_text("utf-8")) for page in sorted(ROOT.glob("docs/*.md"))}


if __name__ == "__main__":
    found = words_of_pages()
    for words, name in sorted((words, name) for name, words in found.items()):
        print(f"{words:>7,} {name}")
    print(f"{sum(found.values()):>7,} in all")
    by_hand = sum(words for name, words in found.items() if name not in GENERATED)
    print(f"{by_hand:>7,} without the generated pages {', '.join(sorted(GENERATED))}")
