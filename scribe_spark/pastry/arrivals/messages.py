"""Kinds of messages of an arrival, counted at the node that causes them."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """A kind of message; its value is its name in tables."""

    JOIN = "join"  #: the request to the contact, and each hop of the join message
    ROWS = "rows"  #: from each node of the route that supplies rows
    LEAF_SET = "leaf set"  #: from the last node of the route
    ANNOUNCEMENT = "announcement"  #: to each distinct node in leaf set and routing table
    EXCHANGE = "exchange"  #: leaf sets that are sent, and answers
    MAINTENANCE = "maintenance"  #: questions and answers
    INTRODUCTION = "introduction"  #: from each node of the route that knows an earlier one; to
    # each one told
    PROBE = "probe"  #: to each node that is asked how near it is (contact ``discovered``)
