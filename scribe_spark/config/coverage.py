"""The section ``coverage``: deadlines of deliveries, weights of nodes, quorums and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator

from scribe_spark.config import section
from scribe_spark.core import units
from scribe_spark.core.errors import InputError

#: The greatest number of deadlines; each is a column of every publication.
MOST_DEADLINES = 16

#: The greatest denominator of a quorum; a weight times it fits into 64 bits (`measures.within`).
MOST_PARTS = 10**6

_OF_SHARES: section.UsedWhen = section.used_when(
    lambda config: bool(config.coverage.deadline) or config.coverage.quorum is not None,
    "--deadline or --quorum",
)
_OF_QUORUM: section.UsedWhen = section.used_when(
    lambda config: config.coverage.quorum is not None, "--quorum"
)
_OF_SIZED_REPLIES: section.UsedWhen = section.used_when(
    lambda config: config.coverage.replies and config.bandwidth.has_sizes,
    "--replies and --message-size",
)


def _deadlines(value: Any) -> Any:
    """Return distinct deadlines, the shortest first, each in one spelling (``800ms``)."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise InputError("deadline", value, "must have a unit, such as 800ms")
    try:
        found = sorted({units.parse_time(one, least=1) for one in given})
    except ValueError as error:
        if str(error).startswith("must have a unit"):
            remedy = "must have a unit, such as 800ms; the rounds until a loss are lost_after"
            raise InputError("deadline", value, remedy) from None
        raise
    if len(found) > MOST_DEADLINES:
        raise InputError("deadline", value, f"must be at most {MOST_DEADLINES} deadlines")
    return tuple(units.canonical("time", one) for one in found)


def _quorum(value: Any) -> Any:
    """Return a share as a fraction in lowest terms, ``2/3``; the decimals of a number are exact."""
    if value is None:
        return None
    try:
        share = Fraction(str(value).strip()) if not isinstance(value, bool) else Fraction(0)
    except (ValueError, ZeroDivisionError):
        raise InputError("quorum", value, "must be a share, such as 2/3 or 0.67") from None
    if not 0 < share <= 1:
        raise InputError("quorum", value, "must be above 0 and at most 1, such as 2/3")
    if share.denominator > MOST_PARTS:
        raise InputError("quorum", value, "must have at most six decimals, such as 2/3 or 0.67")
    return str(share)


#: Texts with times, in a list or separated by commas.
Deadlines = Annotated[tuple[str, ...], section.TakenAs("times"), BeforeValidator(_deadlines)]

#: A share of a whole: ``2/3``, ``0.67``.
Quorum = Annotated[str, section.TakenAs("share"), BeforeValidator(_quorum)]


class CoverageConfig(section.Section):
    """The questions about publications: which share arrives in time, and which nodes answer.

    Rules: docs/rules.md, X1 to X6.
    """

    about: ClassVar[str] = (
        "Questions about publications: how many expected receivers have them within a time, by "
        "number and by weight, and when a quorum has them. Receivers that never get a publication "
        "count as missed. The answers are metrics such as scribe.within_800ms, and the tables "
        "coverage and quorums."
    )

    deadline: Annotated[Deadlines, section.OF_GROUPS] = section.setting(
        (),
        "Times since the publication, such as 800ms or 500ms,1s,4s: measure the share of the "
        "expected receivers that have it by then",
    )
    weights: Annotated[section.Location | None, _OF_SHARES] = section.unset(
        "CSV or Parquet table with the weights of nodes (columns node, weight), such as stake; "
        "other nodes weigh 0. The nodes file may be named, if it has weights. Shares are then also "
        "by weight [default: each node weighs 1]"
    )
    quorum: Annotated[Quorum | None, section.OF_GROUPS] = section.unset(
        "Share such as 2/3 or 0.67: measure the time until nodes with this share of the weight of "
        "all expected receivers have the publication"
    )
    replies: Annotated[bool, _OF_QUORUM] = section.setting(
        False,
        "Each receiver answers directly to the source: also measure the time until the source has "
        "answers of the quorum",
    )
    reply_size: Annotated[section.Size, _OF_SIZED_REPLIES] = section.setting(
        "96B", "Size of an answer; it takes time on links if publications have a size"
    )

    @property
    def on(self) -> bool:
        """True if the section asks anything."""
        return bool(self.deadline) or self.quorum is not None

    @property
    def deadlines_us(self) -> tuple[int, ...]:
        """The deadlines in microseconds, ascending."""
        return tuple(map(units.parse_time, self.deadline))

    @property
    def quorum_share(self) -> tuple[int, int] | None:
        """The quorum as numerator and denominator."""
        return None if self.quorum is None else Fraction(self.quorum).as_integer_ratio()

    @property
    def reply_bytes(self) -> int:
        """The size of an answer in bytes."""
        return units.parse_size(self.reply_size)

    @classmethod
    def of_settings(cls, resolved: Mapping[str, Any]) -> Self:
        """Return the section from a manifest's settings (flat name -> value), or the default."""
        known = {name: resolved[name] for name in cls.model_fields if resolved.get(name)}
        return cls(**known)

    def _faults(self) -> Iterator[section.Fault]:
        lone = self.replies and self.quorum is None
        yield lone, "replies", True, "needs a quorum; give quorum, such as 2/3"
        lone = self.weights is not None and not self.on
        yield lone, "weights", self.weights, "needs a deadline or a quorum; give one"
