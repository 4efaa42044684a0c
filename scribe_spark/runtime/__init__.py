"""Processes and sessions: the code that starts, tunes or interrupts Spark."""
