"""One hop of messages, as an application."""

import sys

from pyspark import cloudpickle
from pyspark.sql import DataFrame

from scribe_spark.overlay import Application, Overlay, Step

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class _OneHop(Application):
    """Messages end before their first hop."""

    def forward(self, tables, messages):
        return Step(outcomes=messages)


def next_hops(overlay: Overlay, messages: DataFrame) -> DataFrame:
    """Where each message goes next (``next``), NULL at its root."""
    return overlay.route(_OneHop(), messages).outcomes()
