"""Kinds of messages of an arrival, counted at the node that causes them."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Kind"]


class Kind(IntEnum):
    """A kind of message, and its column in :attr:`States.messages`."""

    JOIN = 0  #: the request to the contact, and each hop of the join message
    ROWS = 1  #: from each node of the route that supplies rows
    LEAF_SET = 2  #: from the last node of the route
    ANNOUNCEMENT = 3  #: to each distinct node in leaf set and routing table
    EXCHANGE = 4  #: leaf sets that are sent, and answers
    MAINTENANCE = 5  #: questions and answers
    INTRODUCTION = 6  #: from each node of the route that knows an earlier one; to each one told
    PROBE = 7  #: to each node that is asked how near it is (contact ``discovered``)

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.name.lower().replace("_", " ")
