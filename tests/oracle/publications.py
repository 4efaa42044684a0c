"""What became of publications, of any system in a world (S20, B19)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PublicationResult:
    """A publication, and its counts; in time + late + lost + open = expected."""

    publication: tuple[int, int, int]
    expected: int
    in_time: int
    late: int
    lost: int
    open: int
    first_copies: int
    duplicates: int
    round: int  # in which it was published


def account(
    publication: tuple[int, int, int],
    first: int,
    is_due: bool,
    members: Collection[Collection[int]],
    delivered: Mapping[int, int],
    copies: tuple[int, int],
) -> PublicationResult:
    """Count the deliveries of a publication of round `first`.

    Expected are the nodes that are members at the end of each round to the deadline, or to the last
    round that was played.  What was not delivered then is lost if the deadline `is_due`, else open.

    Parameters
    ----------
    members : collection of collection of int
        The members at the end of each of these rounds.
    delivered : mapping of int to int
        The round of the delivery at each node, in these rounds.
    copies : (int, int)
        First copies and duplicates.
    """
    expected = set.intersection(*map(set, members))
    when = [delivered[node] for node in expected if node in delivered]
    in_time, missing = when.count(first), len(expected) - len(when)
    lost, left = (missing, 0) if is_due else (0, missing)
    counts = len(expected), in_time, len(when) - in_time, lost, left
    return PublicationResult(publication, *counts, *copies, first)
