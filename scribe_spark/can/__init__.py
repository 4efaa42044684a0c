"""CAN, a content-addressable network: nodes own zones of a torus; multicast floods the zones.

Messages between nodes, and what handles them:

================  ================================
message           handler
================  ================================
message to a key  `overlay.CanNextHop`
CONTACT, JOIN     `multicast.count_routes`
payload           `multicast.goes_on`
================  ================================
"""
