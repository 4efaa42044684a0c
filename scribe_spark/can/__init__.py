"""CAN, a content-addressable network: zones of a torus, and multicast by flooding it."""
