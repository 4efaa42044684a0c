"""The generic overlay: the operations `route` and `send`, and applications on top of it.

It has no rule of routing: a kind of overlay, such as Pastry, defines the next hop of a message.
"""

from scribe_spark.overlay.overlay import Overlay, Routed
from scribe_spark.overlay.route import Application, Step

__all__ = ["Application", "Overlay", "Routed", "Step"]
