"""Pydantic's errors as one line in the words of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from scribe_spark.config.kinds import kind_of
from scribe_spark.errors import InputError, listed

#: Pydantic's name of an error -> the remedy.
_TYPES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a non-empty text",
    "string_unicode": "must be a text in UTF-8",
    "tuple_type": "must be names, in a list or separated by commas",
    "missing": "must be given",
}

#: Pydantic's name of a bound -> its words.
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def refusal(
    error: ValidationError, fields: Mapping[str, FieldInfo], flat: Mapping[str, str]
) -> InputError:
    """Return the InputError for the first error of a model."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    if isinstance(context.get("error"), InputError):
        return context["error"]
    name = str(first["loc"][0])
    value = "" if first["type"] == "missing" else first["input"]
    return InputError(flat[name], value, _remedy(first["type"], context, fields[name]))


def _remedy(complaint: str, context: Mapping[str, Any], field: FieldInfo) -> str:
    if complaint == "value_error":  # one of our validators has raised it
        return str(context["error"])
    if complaint == "literal_error":
        return f"must be one of {listed(kind_of(field.annotation).choices)}"
    if complaint == "multiple_of" and context["multiple_of"] == 2:
        return f"must be even, for example {field.default}"
    for bound, words in _BOUNDS.items():
        if bound in context:
            limit = context[bound]
            return f"must be {words} {f'{limit:,}' if isinstance(limit, int) else limit}"
    return _TYPES.get(complaint, complaint.replace("_", " "))
