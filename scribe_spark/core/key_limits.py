"""The limit of keys of one int64 (:mod:`.keys`); without numpy, which configs do not load."""

from __future__ import annotations

import math

from scribe_spark.errors import InputError

#: Most keys of a kind: the number after the last key is an int64, too.
MOST_KEYS = 2**63 - 1

#: Most groups: the name of a publication has 32 bits more.
_MOST_GROUPS = 2**31 - 1


def refuse_groups(
    groups: int, nodes: int, members: str | None = None, *, times: int = 1, because: str = ""
) -> None:
    """Refuse more groups than there are keys for, of a group and two nodes.

    Parameters
    ----------
    groups, nodes : int
        How many there are.
    members : str, optional
        The table of members that says so.
    times : int
        How many numbers the rest of a key has.
    because : str
        The field that `times` follows from, and its value, for the message.

    Raises
    ------
    InputError
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


def refuse_groups_of_world(
    groups: int, nodes: int, deadline: int, rounds: int, members: str | None = None
) -> None:
    """Refuse more groups than there are keys for, in a world.

    Keys there are of a round, a group and a node, too; and of a publication that is not due yet (a
    round, a group and its source) and a node.

    Parameters
    ----------
    groups, nodes, members
        As of :func:`refuse_groups`.
    deadline, rounds : int
        Of the world.

    Raises
    ------
    InputError
    """
    pending = deadline + 1, f"deadline = {deadline}"
    times, because = max(pending, (-(-rounds // nodes), f"rounds = {rounds}"))
    refuse_groups(groups, nodes, members, times=times, because=because)
