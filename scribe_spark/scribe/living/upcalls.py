"""placeholder"""
from __future__ import annotations
from scribe_spark.scribe.living.scribe import Joins, Scribe
def call_fault_handler(scribe: Scribe, joins: Joins) -> Joins:
    return joins
def settle(scribe: Scribe) -> None:
    scribe.added = []
