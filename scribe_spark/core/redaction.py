"""Removal of secrets in users' input from all output, by one set of rules.

Secrets are tokens of Spark Connect servers, names and passwords in URLs, and values of settings
whose names say that they are secret (as in Spark's ``spark.redaction.regex``).
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")

#: The text that replaces a secret.
LEFT_OUT = "***"

#: The address of a Spark Connect server with parameters, and the parameters that are not secret.
_SERVER = re.compile(r"sc://\S*")
_HARMLESS = ("use_ssl", "user_agent", "grpc_max_message_size")

#: ``scheme://NAME:PASSWORD@``, but not a port in place of the password.
_USER = re.compile(r"(?<=://)[^\s/:@'\"]+:(?![0-9]{1,5}/)\S*@")

#: ``NAME=VALUE``; a match begins where a name begins, as a long name would be read repeatedly else.
_NAMED = re.compile(
    r"((?<![\w.-])[\w.-]*"
    r"(?:secret|passw(?:or)?d|token|access[._-]?key|credential|signature|(?<=[?&])sig)"
    rf"[\w.-]*=)(?!{re.escape(LEFT_OUT)})[^\s;&'\"]+",
    re.IGNORECASE,
)


def redacted(value: T) -> T:
    """Return a text without secrets, or a value whose texts have no secrets."""
    if isinstance(value, str):
        return _redacted_text(value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: redacted(one) for name, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, (list, tuple)):
        return type(value)(map(redacted, value))
    return value


def _redacted_text(text: str) -> str:
    text = _SERVER.sub(lambda found: ";".join(map(_parameter, found[0].split(";"))), text)
    text = _USER.sub(f"{LEFT_OUT}@", text)
    return _NAMED.sub(rf"\g<1>{LEFT_OUT}", text)


def _parameter(text: str) -> str:
    """Return ``name=value`` of a server's address, without a value that may be secret."""
    name, equals, value = text.partition("=")
    if not equals or name.lower() in _HARMLESS or value.startswith(LEFT_OUT):
        return text
    return f"{name}={LEFT_OUT}"
