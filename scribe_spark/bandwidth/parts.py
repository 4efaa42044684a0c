"""Parts of publications: each is a message, and a node needs some of them.

Messages of a schedule are numbered so that the parts of a publication follow each other.  A
publication has the number of its first part.

Rules: docs/rules.md, W13 to W15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import rank_in_group
from scribe_spark.core.keys import key_of, order_of
from scribe_spark.engine.packing import Columns, take

#: A table of publications with a column ``size`` (`core.arrays.Rows`).
Sized = TypeVar("Sized", bound=Any)


@dataclass(frozen=True)
class Parts:
    """The parts into which a source splits each publication; by default one part, the publication.

    Attributes
    ----------
    needed : int
        The number of different parts with which a node has the publication, k.
    sent : int
        The number of parts that the source sends, n.
    recoded : bool
        True if nodes recode: every useful copy is a new part (W15).
    """

    needed: int = 1
    sent: int = 1
    recoded: bool = False

    @classmethod
    def of(cls, bandwidth: Any) -> Self:
        """Return how publications are split, from a config's section `bandwidth`."""
        return cls(bandwidth.parts or 1, bandwidth.parts_sent, bandwidth.recoded)

    def split(self, publications: Sized) -> Sized:
        """Return each publication's parts as rows, one after the other, with their sizes (W13)."""
        each = publications.take(np.repeat(np.arange(len(publications)), self.sent))
        return replace(each, size=-(-each.size // self.needed))

    def sent_until(self, message: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return how many bytes of its publication the source has sent with each message.

        `message` are numbers of parts, and `size` is the size of a part in bytes.
        """
        return size * (1 + message % self.sent)

    def publication(self, message: np.ndarray) -> np.ndarray:
        """Return the publication of each message (a part): the number of its first part."""
        return message - message % self.sent

    def last(self, message: np.ndarray) -> np.ndarray:
        """Return the number of the last part that a node needs of each message's publication.

        A node that recodes numbers its parts in the order in which it gets them.
        """
        return self.publication(message) + self.needed - 1

    def useful(
        self, seed: int, message: np.ndarray, sender: np.ndarray, receiver: np.ndarray
    ) -> np.ndarray:
        """Return True for copies that are useful to nodes with too few parts (rule W15): bool.

        `sender` and `receiver` are numbers of nodes; `message` is the part that the sender sends.
        """
        return draws.bits_np(seed, "rlnc", message, sender, receiver) >> np.uint64(56) != 0

    def complete(self, came: Columns, nodes: int) -> Columns:
        """Return the message with which each node has a whole publication (rule W14).

        Parameters
        ----------
        came : Columns
            The first copies of messages at nodes: ``publication`` (a message), ``node, hops,
            delay_us``, perhaps others; all rows of a node.
        nodes : int
            The number after the greatest one in ``node``.

        Returns
        -------
        Columns
            The rows of messages after which their nodes have `needed` parts, ties by number; with
            the publications in the column ``publication``.

        Examples
        --------
        >>> parts = Parts(needed=2, sent=3)
        >>> came = {"publication": [3, 4, 5, 4], "node": [7, 7, 7, 8], "delay_us": [9, 5, 7, 1]}
        >>> came = {name: np.array(column) for name, column in came.items()}
        >>> {name: column.tolist() for name, column in parts.complete(came, 9).items()}
        {'publication': [3], 'node': [7], 'delay_us': [7]}
        """
        if self.sent == 1:
            return came
        message = came["publication"]
        publication = self.publication(message)
        place = key_of([publication // self.sent, came["node"]], nodes)
        order = order_of(place, came["delay_us"], message)
        nth = rank_in_group(place[order])
        row = order[nth == self.needed - 1]
        return take({**came, "publication": publication}, row)
