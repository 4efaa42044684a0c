"""The programs of the arrival of a wave, in their order.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterator

from scribe_spark.engine import Program
from scribe_spark.pastry.arrivals.announcements import Announce
from scribe_spark.pastry.arrivals.exchange import Exchange
from scribe_spark.pastry.arrivals.introductions import Introduce
from scribe_spark.pastry.arrivals.join_messages import JoinMessages
from scribe_spark.pastry.arrivals.maintenance import AskRows, TakeRows
from scribe_spark.pastry.arrivals.nearby_search import Discover
from scribe_spark.pastry.arrivals.wave import Wave
from scribe_spark.rounds.environment import Environment


def asking(given: Environment, wave: Wave) -> Iterator[Program]:
    """Yield the programs by which arriving nodes ask existing nodes for rows and leaf sets."""
    if given.rules.contact == "discovered":
        yield Discover(given, wave)
    yield JoinMessages(given, wave)


def entering(given: Environment, wave: Wave) -> Iterator[Program]:
    """Yield the programs that tell other nodes of the arrived ones; they follow :func:`asking`."""
    yield Announce(given, wave)
    yield Exchange(given, wave)
    if given.rules.introduce:
        yield Introduce(given, wave)


def maintenance(given: Environment, wave: Wave, purpose: str, number: int) -> Iterator[Program]:
    """Yield the programs of one maintenance of all routing tables, see `AskRows`."""
    yield AskRows(given, wave, purpose, number)
    yield TakeRows(given, wave)
