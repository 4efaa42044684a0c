"""The application on an overlay: its two upcalls, `forward` and `deliver`.

References
----------
JSAC 2002, Section II.C (the API: route, send, deliver, forward).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

__all__ = ["Application"]


class Application:
    """What runs on every node of an overlay: two upcalls, each for all messages of a round at once.

    A messages table has ``node`` (where the message is), ``key_hi, key_lo`` and the application's
    own payload columns; the overlay adds ``router`` (of `node`) and ``next`` (the node it would go
    to next).  Payload columns must be the same in every message that an application makes.

    Attributes
    ----------
    remembers : bool
        The upcalls read earlier rounds: all messages are kept until the operation ends and handed
        over as `past` (this round's last).  A node's state is what its messages made of it.
    """

    remembers = False

    def forward(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        """Before messages go on to ``next``; rows whose ``next`` is set to NULL stop here.

        The application may change contents and ``next``, and add messages of its own.
        """
        return messages

    def deliver(self, messages: DataFrame, past: Sequence[DataFrame]) -> DataFrame | None:
        """Messages at the root of their key, or sent to their node; may return new messages.

        New messages have the columns that :meth:`Overlay.route` or :meth:`Overlay.send` was
        given; ``node`` says where they start (`route`) or arrive (`send`).
        """
        return None
