"""Count the words of the documentation, as `wc -w` counts them.

Pages do not count if commands write all of the page below its head (the reference), or at least
two thirds of its words (results).

python -m tools.count_words
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Pages of the reference, most of whose lines commands write.
REFERENCE = {
    *("api.md", "attributes.md", "combinations.md", "commands.md", "configuration.md"),
    *("measures_reference.md", "results.md", "rules.md", "tables.md"),
}

#: Pages of results, of which commands write at least two thirds of the words.
RESULTS = {
    *("groups_results.md", "living_results.md", "peers.md", "peers_living.md", "questions.md"),
    "reference_tree.md",
}

#: A part that a command writes.
_WRITTEN = re.compile(r"<!-- ([\w ]+): (?:written by|begin).*?<!-- (?:end of \1|\1: end) -->", re.S)


def share_written(text: str) -> float:
    """Return the share of a page's words that commands write."""
    return 1 - len(_WRITTEN.sub("", text).split()) / len(text.split())


def words_of_pages() -> dict[str, int]:
    """Return the number of words of each page outside of the reference and the results."""
    counted = {page for page in ROOT.glob("docs/*.md") if page.name not in REFERENCE | RESULTS}
    return {page.name: len(page.read_text("utf-8").split()) for page in sorted(counted)}


if __name__ == "__main__":
    found = words_of_pages()
    for name in sorted(found, key=lambda name: found[name]):
        print(f"{found[name]:>7,} {name}")
    print(f"{sum(found.values()):>7,} words, without {', '.join(sorted(REFERENCE | RESULTS))}")
