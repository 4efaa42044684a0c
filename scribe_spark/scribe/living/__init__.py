"""Scribe alive: a round of groups on arrays, in one task."""
