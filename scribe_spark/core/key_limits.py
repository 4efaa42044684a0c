"""The limits of keys that are one int64 (:mod:`.keys`); configs read them without numpy."""

from __future__ import annotations

import math

from scribe_spark.core.errors import InputError

#: The greatest number of keys; the number after the last key must be an int64, too.
MOST_KEYS = 2**63 - 1

#: The greatest number of groups; the name of a publication has 32 more bits.
_MOST_GROUPS = 2**31 - 1


def refuse_groups(
    groups: int, nodes: int, members: str | None = None, *, times: int = 1, because: str = ""
) -> None:
    """Refuse more groups than can have `times` keys for each group and pair of nodes.

    `members` is the path of the table with the groups, `because` names the setting behind `times`.
    """
    most = min(MOST_KEYS // (nodes**2 * times), _MOST_GROUPS)
    if groups <= most:
        return
    beside = f" and {because}" if because else ""
    fewer = math.isqrt(MOST_KEYS // (groups * times))
    why = "a group and two nodes make one number of 63 bits"
    if not most:
        raise InputError(
            "nodes", nodes, f"must be at most {fewer:,} with {groups:,} groups{beside}: {why}"
        )
    remedy = (
        f"must be at most {most:,} with {nodes:,} nodes{beside}; or give at most {fewer:,} nodes: "
        f"{why}"
    )
    if members is not None:
        raise InputError("members", members, f"has {groups:,} groups, which {remedy}")
    raise InputError("groups", groups, remedy)


def most_turns(groups: int, nodes: int, deadline: int) -> int:
    """Return the greatest number of turns of a group in a round for which keys suffice.

    Publications with one turn have different sources.  The name of a publication has 32 bits for
    its turn and its source, and is a part of the keys of publications before their `deadline`
    (rounds).
    """
    each = max(1, groups) * nodes**2 * (deadline + 1)
    return max(1, min(2**32 // nodes, MOST_KEYS // each))


def refuse_groups_of_world(
    groups: int, nodes: int, deadline: int, rounds: int, members: str | None = None
) -> None:
    """Refuse more groups than the 64-bit keys of a world can number; `deadline` is in rounds.

    Keys have a round, a group and a node, or a node and a publication before its deadline.
    """
    pending = deadline + 1, f"lost_after = {deadline}"
    times, because = max(pending, (-(-rounds // nodes), f"rounds = {rounds}"))
    refuse_groups(groups, nodes, members, times=times, because=because)
