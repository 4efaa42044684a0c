"""The kinds of Pastry's messages."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """A kind of message of an arrival, counted at its sender; the value is its name in tables."""

    JOIN = "join"  #: the request to the contact, and each hop of the join message
    ROWS = "rows"  #: the rows that a node on the route supplies
    LEAF_SET = "leaf set"  #: the leaf set of the last node on the route
    ANNOUNCEMENT = "announcement"  #: one to each node in the leaf set and routing table
    EXCHANGE = "exchange"  #: a leaf set that is sent to a leaf, or its answer
    MAINTENANCE = "maintenance"  #: a question for a row, or its answer
    INTRODUCTION = "introduction"  #: an answer that names earlier nodes, or a greeting of one
    PROBE = "probe"  #: a measurement of the delay to a node (contact ``discovered``)


#: All kinds of messages in a world.  ``join`` is the request to the contact, and each transmission
#: of the join message.
MESSAGE_KINDS = (
    "probe",
    "join",
    "rows",
    "leaf set",
    "announcement",
    "exchange",
    "introduction",
    "maintenance",
    "repair",
    "check",
    "goodbye",
    "recovery",
    "keep-alive",
    "lookup",
)
