"""The clock that reacts: messages, timers and commands, each played at its time by a kernel.

A *kernel* holds the state of a bucket's nodes and has a handler for each kind of message, timer and
command.  The clock owns everything else: the calendar, the order of events, dead nodes, delays,
bandwidth and counts.  `kernel` has the interface, `bucket` the clock of a bucket, `windows` the
program that plays windows of time on buckets.  docs/rules.md, K1 to K8.
"""

from scribe_spark.clock.bucket import ClockSetting, Wires
from scribe_spark.clock.kernel import DOWN, Control, Events, Kernel, Payload
from scribe_spark.clock.windows import COPIES, COUNTS, PlayKernel, play_kernel

__all__ = [
    "COPIES",
    "COUNTS",
    "DOWN",
    "ClockSetting",
    "Control",
    "Events",
    "Kernel",
    "Payload",
    "PlayKernel",
    "Wires",
    "play_kernel",
]
