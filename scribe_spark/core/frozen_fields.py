"""Named values that cannot be changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NoReturn


class FrozenFields(SimpleNamespace):
    """Named values that tasks read without pydantic, the library that has checked the values.

    Examples
    --------
    >>> FrozenFields(b=4, leaf_set=16).leaf_set
    16
    """

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed")
