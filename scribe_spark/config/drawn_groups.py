"""The common fields of the sections ``groups`` and ``scribe``: groups drawn, or from a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scribe_spark.config.node_class import NodeClass
from scribe_spark.errors import InputError

#: Members of all groups, and nodes, that can be numbered by int32.
_MOST_PLACES = 2**31 - 1


def drawn_or_read(
    given: Mapping[str, Any], drawn: Mapping[str, Any], flat: Mapping[str, str]
) -> dict[str, Any]:
    """The fields of a section, None for those that the way to get members leaves open.

    Where members are drawn, a None among the `drawn` fields is left out, so that its default is
    taken; where a table of `members` is read, they are None.

    Parameters
    ----------
    given : mapping of str to object
        Field -> value.
    drawn : mapping of str to object
        What a table of members says itself: field -> its default where members are drawn.
    flat : mapping of str to str
        Field -> its flat name.

    Raises
    ------
    InputError
        For a field that is given beside a table of members that says the same.
    """
    if given.get("members") is None:
        return {n: v for n, v in given.items() if not (n in drawn and v is None)}
    for name in (*drawn, "size", "custody"):
        if given.get(name) is not None:
            remedy = "contradicts the table of members; leave out this or members"
            raise InputError(flat[name], given[name], remedy)
    return {**given, **dict.fromkeys(drawn)}


def refuse_two_sizes(size: int | None, custody: int | None) -> None:
    """Refuse groups of a size whose nodes have a number of groups, too.

    Raises
    ------
    InputError
    """
    if size is not None and custody is not None:
        remedy = "has no effect beside custody, which says in how many groups a node is"
        raise InputError("group_size", size, remedy)


def refuse_lone_custody(custody: int | None, classes: Sequence[NodeClass]) -> None:
    """Refuse classes of nodes that say in how many groups their nodes are where groups are drawn.

    Raises
    ------
    InputError
    """
    for one in classes:
        if one.custody is not None and custody is None:
            remedy = "has no effect without custody, which holds for all other classes; add custody"
            raise InputError(f"classes.custody of class {one.name}", one.custody, remedy)


def custody_memberships(
    count: int | None, custody: int, nodes: int, classes: Sequence[NodeClass]
) -> int:
    """About how many members all groups have together whose nodes are in `custody` of them.

    Parameters
    ----------
    count : int, optional
        Groups, G.
    nodes : int
        Overlay nodes, N.
    classes : sequence of NodeClass
        Their nodes may be in another number of groups.
    """
    most = count or 0
    said = [(one.share, custody if one.custody is None else one.custody) for one in classes]
    return round(nodes * sum(share * min(own, most) for share, own in said or [(1.0, custody)]))


def estimated_memberships(
    count: int | None, size: int | None, zipf_exponent: float | None, nodes: int
) -> int:
    """About how many members all groups have together; 0 where a table says it.

    Parameters
    ----------
    count : int, optional
        Groups, G; None where a table of members says which there are.
    size : int, optional
        Members of every group, instead of the Zipf-like sizes.
    zipf_exponent : float, optional
        Group r has about N r^-zipf_exponent members.
    nodes : int
        Overlay nodes, N.
    """
    if count is None or zipf_exponent is None:
        return 0
    if size is not None:
        return count * size
    if count <= 1:
        return count * nodes
    # the integral of N r^-s from 1 to G, and the first group
    power, logarithm = 1 - zipf_exponent, math.log(count)
    rest = math.expm1(power * logarithm) / power if power else logarithm
    return round(nodes * (1 + rest))


def refuse_misfits(
    count: int | None, size: int | None, memberships: int, nodes: int, most: int
) -> None:
    """Refuse groups that are too large for the overlay, or too many members.

    Parameters
    ----------
    count, size : int, optional
        As of :func:`estimated_memberships`.
    memberships : int
        About how many members all groups have together.
    nodes : int
        Overlay nodes, N.
    most : int
        Most members over all groups.

    Raises
    ------
    InputError
    """
    if size is not None and size > nodes:
        remedy = f"a group cannot have more members than the {nodes} nodes"
        raise InputError("group_size", size, remedy)
    if memberships > most:
        remedy = (
            f"makes {memberships:,} members over all groups of {nodes:,} nodes; must be at "
            f"most {most:,}"
        )
        raise InputError("groups", count, remedy)


def refuse_places(system: str, groups: int, memberships: int, nodes: int) -> None:
    """Refuse more members than a system can number that has a place for each, and each source.

    Parameters
    ----------
    groups, memberships, nodes : int
        How many there are.

    Raises
    ------
    InputError
    """
    most = max(_MOST_PLACES - groups - nodes, 0)
    if memberships > most:
        remedy = (
            f"supports {most:,} members in all groups, not {memberships:,}; give fewer "
            f"groups, or leave {system} out"
        )
        raise InputError("systems", system, remedy)


def refuse_missing_roots(roots: int, count: int) -> None:
    """Refuse that more roots fail than there are groups.

    Parameters
    ----------
    roots : int
        The roots of this many groups fail.
    count : int
        Groups, G.

    Raises
    ------
    InputError
    """
    if roots > count:
        raise InputError("roots", roots, f"must be at most {count:,}: each group has one root")
