"""Flooding over Pastry: a message is sent to all entries of routing tables, row by row.

Messages between nodes, and what handles them:

============  ================================
message       handler
============  ================================
payload       `live.LiveFlooding`, `flood.Flood`
announcement  `flood.told`
============  ================================

References
----------
M. Castro et al.: An evaluation of scalable application-level multicast built using peer-to-peer
overlays, INFOCOM 2003 (the rule is recalled).  Rules: docs/rules.md, F1 to F7.
"""
