"""The clock that reacts: messages, timers and commands, each played at its time by a kernel.

A *kernel* holds the state of a bucket's nodes and has a handler for each kind of message, timer and
command.  The clock owns everything else: the calendar, the order of events, dead nodes, delays,
bandwidth and counts.  `kernel` has the events, `bucket` the clock of a bucket and the interface of
kernels, `windows` the program that plays windows of time on buckets.  docs/rules.md, K1 to K7.
"""
