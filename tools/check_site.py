"""Check a site of `make site`: no page loads anything of another host.

`mkdocs build` has checked the links, since mkdocs.yml says ``strict``.

python -m tools.check_site site
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: Addresses of other hosts that a browser loads by itself; `href` of `a` waits for a click.
_LOADED = re.compile(
    r"""<(?!a\b)[^>]*\b(?:src|srcset|poster|data|xlink:href)=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?[^"'>]*(?:stylesheet|icon|preload|preconnect|dns-prefetch))"""
    r"""[^>]*\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)"""
)


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each address of another host that a page or a style sheet loads."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in _LOADED.finditer(path.read_text("utf-8")):
            yield f"{path.name}: loads {found[found.lastindex or 0]}"


def main(site: Path) -> int:
    """Print the problems of a site; return 1 if there are some."""
    found = list(problems(site))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
