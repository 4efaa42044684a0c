"""The clock with bandwidth: messages have sizes, and links need time to transmit them.

A copy waits for its sender's uplink, is transmitted there, travels for the delay between the two
nodes, and is transmitted on its receiver's downlink.  `setting` has the input, `bucket` the state
of a bucket's nodes and the four steps of a window of time, `windows` the program that plays windows
on buckets.  docs/rules.md, W1 to W8.
"""

from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import (
    INTERLEAVED,
    ROOMS,
    SERIAL,
    Discipline,
    Nodes,
    TimedLinks,
    TimedPublications,
)
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES, LINKS, Windows, play_windows

__all__ = [
    "ARRIVALS",
    "COPIES",
    "INTERLEAVED",
    "LINKS",
    "ROOMS",
    "SERIAL",
    "Discipline",
    "TimedLinks",
    "Nodes",
    "TimedPublications",
    "ClockSetting",
    "Windows",
    "play_windows",
]
