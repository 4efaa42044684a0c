"""The generic overlay: `route` and `send` by the engine, and the application on top of it.

It knows no rule of routing: an overlay such as Pastry says which node a message goes to next.
"""

from scribe_spark.overlay.application import Application, Step
from scribe_spark.overlay.overlay import Overlay, Routed

__all__ = ["Application", "Overlay", "Routed", "Step"]
