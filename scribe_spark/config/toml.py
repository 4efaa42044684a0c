"""TOML in and out.

A config is small, and its keys are short: a field, a section's field, one of a sweep.  What tomllib
takes for a key grows with the square of the key's parts, in time and memory (100,000 parts: more
than a minute, some 40 GB), so a text is bounded before it is parsed.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scribe_spark.errors import InputError

#: A sweep's file that lists 10,000 values, the most there can be, is a third of this.
MOST_BYTES = 2**18

#: Parts of a key, ``a.b.c``; the deepest of a config are ``sweep.overlay.b``.
MOST_PARTS = 8

#: A part of a key, bare or in quotes; without a way back, so that texts are read in linear time.
_PART = re.compile(r"""[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\[^\n])*+"|'[^'\n]*+'""")

#: What stands in a text: a comment, a string of several lines, or parts joined by dots, which may
#: be a key, a string or a number.
_TOKEN = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'''|\Z)"
    rf"|(?P<parts>(?:{_PART.pattern})(?:[ \t]*+\.[ \t]*+(?:{_PART.pattern}))*+)",
    re.DOTALL,
)


def read_toml(path: str | Path) -> dict[str, Any]:
    """The keys of a TOML config file.

    Raises
    ------
    InputError
        Missing or malformed file, or one that no config is like.
    """
    if not str(path).strip() or "\0" in str(path):
        raise InputError("config", str(path), "must name a file")
    try:
        with open(os.path.expanduser(path), "rb") as file:
            read = file.read(MOST_BYTES + 1)
        if len(read) > MOST_BYTES:
            remedy = f"is not a config: it has more than {MOST_BYTES:,} bytes"
            raise InputError("config", str(path), remedy)
        text = read.decode("utf-8-sig")  # editors of Windows begin with a byte order mark
        _refuse_long_keys(str(path), text)
        return tomllib.loads(text)
    except InputError:
        raise
    except OSError as error:
        raise InputError("config", str(path), f"cannot be read ({error.strerror})") from None
    except RecursionError:
        raise InputError("config", str(path), "is not a config: it is nested too deeply") from None
    except ValueError as error:  # of its text, or of its encoding
        raise InputError("config", str(path), f"is not TOML: {error}") from None


def _refuse_long_keys(path: str, text: str) -> None:
    for token in _TOKEN.finditer(text):
        parts = token["parts"] or ""
        if len(parts) > 2 * MOST_PARTS and len(_PART.findall(parts)) > MOST_PARTS:
            remedy = f"is not a config: a key has more than {MOST_PARTS} parts (a.b.c has 3)"
            raise InputError("config", path, remedy)


def write_toml(values: Mapping[str, Any]) -> str:
    """Values as `read_toml` reads them; what is None is left out."""
    import tomli_w

    return tomli_w.dumps({name: value for name, value in values.items() if value is not None})
