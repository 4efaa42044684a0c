"""Nodes that arrive in waves, by the papers' protocol (JSAC 2002, Section II.B)."""
