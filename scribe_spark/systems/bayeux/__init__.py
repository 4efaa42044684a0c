"""Bayeux: JOINs are routed to the root, and the routes from the root to the members are the tree.

References
----------
JSAC 2002, Section V; NGC 2001, Section 4.  Rules: docs/rules.md, B1 to B10.
"""
