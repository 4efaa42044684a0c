"""mkdocs' hooks for `make site`: the site has the files outside of docs/ that its pages link to.

GitHub shows a page of docs/ where it stands, so that `../DESIGN.md` leads to the file; a site has
the folder docs/ alone.  These hooks add such files to the site and turn the links to them.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

#: Pages beside docs/ that become pages of the site.
PAGES = ("README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENCES.md")

#: The site's page of README: its home.
_HOME = "index.md"

#: The folders of runs, worlds and comparisons that `make site` writes.
GALLERY = ROOT / "out" / "gallery"

#: The page of the gallery, which only the site has.
_GALLERY_PAGE = """\
# Gallery

`make site` plays four small experiments and puts their folders here, as they are. Each page is one file: it works from a disk and by mail.

| page | written by |
|---|---|
| [Scribe and GossipSub, 1,000 nodes](gallery/run/report.html) | `scribe-spark run` |
| [the same two while a quarter of the nodes fails](gallery/world/report.html) | `scribe-spark world` |
| [GossipSub's D = 6 beside D = 12](gallery/compare/compare.html) | `scribe-spark compare` |

Pictures of large experiments: [the paper's Figure 7](results.md), [churn](living.md), [peers under failures](peers_living.md).
"""

_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)#\s]+)((?:#[^)\s]*)?)\)")
_ROLE = re.compile(r"(?::(?:class|func|meth|mod|data|attr):)?(<code>)(?:~[\w.]*\.(?=\w))?")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages beside docs/, the files that pages link to, and the gallery's pages."""
    paths = [ROOT / page for page in PAGES if (ROOT / page).exists()]
    sources = {_address(path): path for path in paths}
    texts = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    texts += [(f"../{path.name}", path.read_text("utf-8")) for path in paths]
    for name, text in texts:
        for _, target, _ in _LINK.findall(text):
            path = _in_repository(name, target)
            if path is not None and path.is_file():
                sources.setdefault(_address(path), path)
    gallery = Path(os.environ.get("SCRIBE_GALLERY") or GALLERY)
    left = (path for path in gallery.rglob("*") if path.is_file())
    sources |= {f"gallery/{path.relative_to(gallery).as_posix()}": path for path in left}
    files.append(File.generated(config, "gallery.md", content=_GALLERY_PAGE))
    for address, path in sources.items():
        if address not in files.src_uris:
            files.append(File.generated(config, address, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return a page whose links to files outside of docs/ lead to their copies."""
    name = "README.md" if page.file.src_uri == _HOME else page.file.src_uri
    name = f"../{name}" if name in PAGES else name

    def turned(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        path = _in_repository(name, target)
        if path is None:
            return found[0]
        if path.is_dir():
            return text[1:-1]
        return f"{text}({_address(path)}{anchor})"

    return _LINK.sub(turned, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Return a page without the roles of names in docstrings (``:class:`~a.b.C```: ``C``)."""
    return _ROLE.sub(r"\1", html)


def _in_repository(page: str, target: str) -> Path | None:
    """Return what a link leads to if a page of the site cannot link to it as it stands."""
    if ":" in target or (not page.startswith("../") and not target.startswith("../")):
        return None
    path = (ROOT / "docs" / page).parent.joinpath(target).resolve()
    return path if path.is_relative_to(ROOT) else None


def _address(path: Path) -> str:
    """Return where the site has a file or a page of the repository."""
    name = path.relative_to(ROOT).as_posix()
    if name == "README.md":
        return _HOME
    if name in PAGES:
        return name
    return name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}"
