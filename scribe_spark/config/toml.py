"""Reading and writing of TOML files.

A config is small and its keys are short, such as ``sweep.overlay.b``.  tomllib's time and memory
grow with the square of the number of a key's parts (100,000 parts: more than a minute, about
40 GB), so a text is checked before it is parsed.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scribe_spark.core.errors import InputError
from scribe_spark.core.paths import UnfitFileError, read_file

#: The greatest size of a file; a sweep with 10,000 values, the most, has a third of it.
MOST_BYTES = 2**18

#: The greatest number of parts of a key (``a.b.c``); a config has up to three.
MOST_PARTS = 8

#: A part of a key, bare or in quotes.  What quotes begin may end without them; so a match never
#: fails late, its time is linear, and no quantifier is possessive (Python 3.11.2 ends some early).
_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\[^\n])*"?|'[^'\n]*'?""")

#: A token of a text: a comment, a string of several lines, or parts joined by dots (a key, a
#: string or a number).
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^"\\]|\\.|"(?!""))*(?:""")?'
    r"|'''(?:[^']|'(?!''))*(?:''')?"
    rf"|(?P<parts>(?:{_PART.pattern})(?:[ \t]*\.[ \t]*(?:{_PART.pattern}))*)",
    re.DOTALL,
)


def read_toml(path: str | Path, field: str = "config") -> dict[str, Any]:
    """Return the keys of a TOML file of settings, which `field` names."""
    if not str(path).strip() or "\0" in str(path):
        raise InputError(field, str(path), "must name a file")
    try:
        read = read_file(Path(os.path.expanduser(path)), MOST_BYTES)
        text = read.decode("utf-8-sig")  # editors on Windows write a byte order mark
        _refuse_long_keys(field, str(path), text)
        return tomllib.loads(text)
    except InputError:
        raise
    except UnfitFileError as error:
        raise InputError(field, str(path), f"is no file of settings: it {error}") from None
    except OSError as error:
        raise InputError(field, str(path), f"cannot be read ({error.strerror})") from None
    except RecursionError:
        remedy = "is no file of settings: it is nested too deeply"
        raise InputError(field, str(path), remedy) from None
    except ValueError as error:  # a bad text or encoding
        raise InputError(field, str(path), f"is not TOML: {error}") from None


def _refuse_long_keys(field: str, path: str, text: str) -> None:
    for token in _TOKEN.finditer(text):
        parts = token["parts"] or ""
        if len(parts) > 2 * MOST_PARTS and len(_PART.findall(parts)) > MOST_PARTS:
            remedy = f"is no file of settings: a key has more than {MOST_PARTS} parts (a.b.c has 3)"
            raise InputError(field, path, remedy)


def write_toml(values: Mapping[str, Any]) -> str:
    """Return a mapping as a TOML text that `read_toml` reads, without entries that are None."""
    import tomli_w

    return tomli_w.dumps({name: value for name, value in values.items() if value is not None})
