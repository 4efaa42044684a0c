"""Bad input, as every edge of the package refuses it."""

from __future__ import annotations

__all__ = ["InputError"]

_LONGEST = 300  # characters of a value in a message


class InputError(ValueError):
    """Bad input, refused at the edge: one line that names the field, the value, what would do."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {_shown(value)}: {remedy}")
        self.field, self.value, self.remedy = field, value, remedy


def _shown(value: object) -> str:
    """A value in one line, whatever it is."""
    try:
        text = " ".join(repr(value).split("\n"))
    except Exception:  # a number of more digits than Python writes; an object that has no repr
        text = f"({type(value).__name__})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
