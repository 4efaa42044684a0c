"""The clock that reacts: messages, timers and commands, each played at its time by a kernel.

A *kernel* holds the state of a bucket's nodes and has a handler for each kind of message, timer and
command.  The clock owns everything else: the calendar, the order of events, dead nodes, delays,
bandwidth and counts.  `kernel` has the events, `bucket` the clock of a bucket and the interface of
kernels, `windows` the program that plays windows of time on buckets.  docs/rules.md, K1 to K7.
"""

from scribe_spark.clock.bucket import BucketClock, ClockKernel, KernelSetting, Slots, Wires
from scribe_spark.clock.kernel import (
    ARRIVE,
    COMMANDS_OF_GROUPS,
    DOWN,
    FAIL,
    LEAVE,
    PUBLISH,
    REFRESH,
    ClockEvents,
    Column,
    Control,
    Kinds,
    Payload,
)
from scribe_spark.clock.windows import (
    COMMANDS,
    COPIES,
    COUNTS,
    LINKED,
    PLACES,
    RECEIPTS,
    SENT,
    STATE,
    PlayKernel,
    play_kernel,
)

__all__ = [
    "ARRIVE",
    "COMMANDS",
    "COMMANDS_OF_GROUPS",
    "COPIES",
    "COUNTS",
    "DOWN",
    "FAIL",
    "LEAVE",
    "LINKED",
    "PLACES",
    "PUBLISH",
    "RECEIPTS",
    "REFRESH",
    "SENT",
    "STATE",
    "BucketClock",
    "KernelSetting",
    "Column",
    "Control",
    "ClockEvents",
    "ClockKernel",
    "Kinds",
    "Payload",
    "PlayKernel",
    "Slots",
    "Wires",
    "play_kernel",
]
