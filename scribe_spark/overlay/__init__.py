"""The generic overlay: `route` and `send` by supersteps, and the application on top of it.

It knows no rule of routing: an overlay such as Pastry says which node a message goes to next.
"""

from scribe_spark.overlay.application import Application
from scribe_spark.overlay.route import Overlay, start_path

__all__ = ["Application", "Overlay", "start_path"]
