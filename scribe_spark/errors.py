"""Bad input, as every edge of the package refuses it."""

from __future__ import annotations

__all__ = ["InputError"]


class InputError(ValueError):
    """Bad input, refused at the edge: one line that names the field, the value, what would do."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {value!r}: {remedy}")
        self.field, self.value, self.remedy = field, value, remedy
