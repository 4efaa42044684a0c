"""Check a site of `make site`: no link is broken, and no page loads anything of another host.

python -m tools.check_site site
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes whose address a browser loads by itself, by element; `href` of `a` waits for a click.
_LOADED = {"src", "srcset", "poster", "data", "xlink:href"}
_LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload"}
_IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")


class _Page(HTMLParser):
    """The addresses of a page, and the names that a link can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = _IN_STYLES.findall(text)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names.update(given[name] for name in ("id", "name") if name in given)
        self.loaded += [given[name] for name in _LOADED & given.keys() if tag != "a"]
        if tag == "link" and _LOADING_LINKS & set(given.get("rel", "").split()):
            self.loaded.append(given.get("href", ""))
        elif "href" in given:
            self.links.append(given["href"])


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each broken link and each address of another host that a page loads."""
    read = cache(lambda path: _Page(path.read_text("utf-8")))
    for path in sorted(site.rglob("*.html")):
        page = read(path)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{path.name}: loads {address}"
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            name = unquote(parts.fragment) if target.suffix == ".html" else ""
            if not target.exists():
                yield f"{path.name}: no file {address}"
            elif name and name not in read(target).names:
                yield f"{path.name}: no name {address}"
    for path in sorted(site.rglob("*.css")):
        for address in _IN_STYLES.findall(path.read_text("utf-8")):
            yield f"{path.name}: loads {address}"


def main(site: Path) -> int:
    """Print the problems of a site; return 1 if there are some."""
    found = list(problems(site))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
