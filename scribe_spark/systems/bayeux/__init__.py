"""Bayeux: JOINs are routed to the root, and the routes from the root to the members are the tree.

Messages between nodes, and the programs that handle them:

=========  ===================================
message    handler
=========  ===================================
JOIN       `protocol.Join`
TREE       `protocol.SendTree`
LEAVE      `protocol.Leave`
PRUNE      `protocol.Prune`
MULTICAST  `protocol.Publish`
payload    `protocol.flood`, `live.Repair`
=========  ===================================

References
----------
JSAC 2002, Section V; NGC 2001, Section 4.  Rules: docs/rules.md, B1 to B10.
"""
