"""Router ids of the tables, and the indices by which kernels know the routers."""

from __future__ import annotations

import numpy as np

from scribe_spark.runtime.distribute import open_array

__all__ = ["RouterIds"]


class RouterIds:
    """The part of a :class:`~scribe_spark.underlay.protocol.Kernel` that translates router ids.

    Attributes
    ----------
    routers : str
        Name of a distributed array: router ids, ascending.
    """

    routers: str

    def index(self, routers: np.ndarray) -> np.ndarray:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        return np.searchsorted(open_array(self.routers), routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        return open_array(self.routers)[index]
