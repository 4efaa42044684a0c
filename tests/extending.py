"""The files of the pages docs/extending_*.md, as a reader would import them."""

from typing import Any

from tools.tutorials import files_of, pages_on_extensions

FILES = {
    name: code
    for page in pages_on_extensions().values()
    for name, code in files_of(page.read_text()).items()
}


def run_example(module: str) -> dict[str, Any]:
    """Execute the file of a module; the names that it leaves."""
    name = f"{module}.py"
    names: dict[str, Any] = {"__name__": module}
    exec(compile(FILES[name], name, "exec", dont_inherit=True), names)
    return names
