"""Sizes of control messages, by libp2p's protobuf encoding where it defines them.

References
----------
libp2p/specs, pubsub: the messages RPC, ControlMessage, ControlIHave, ControlIWant, ControlGraft,
ControlPrune, ControlIDontWant.
"""

from __future__ import annotations

#: The size in bytes of an RPC with one control message, which contains a message id of 20 bytes (a
#: truncated SHA-256, as in Ethereum) and a topic of 32 bytes.  Each field is a tag, a length and
#: its bytes, and the RPC begins with its length.
CONTROL_BYTES = {"IDONTWANT": 27, "IWANT": 27, "IHAVE": 61, "GRAFT": 39, "PRUNE": 41}


def size_of_control(kind: str, other: int) -> int:
    """Return the size in bytes of a kind of control messages; `other` if it is not defined."""
    return CONTROL_BYTES.get(kind, other)
