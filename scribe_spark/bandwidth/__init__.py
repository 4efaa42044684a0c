"""The clock with bandwidth: messages have sizes, and links need time to transmit them.

A copy of a publication waits for its sender's uplink, is transmitted there, travels for the delay
between the two nodes, and is transmitted on its receiver's downlink.  The module `setting` has the
input, `bucket` the state of a bucket's nodes and the four steps of a window of time, `windows` the
program that plays windows on buckets. docs/rules.md, W1 to W8.
"""
