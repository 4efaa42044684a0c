"""Processes and sessions: all that starts, tunes or interrupts Spark."""
