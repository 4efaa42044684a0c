"""CAN, a content-addressable network: nodes own zones of a torus; multicast floods the zones."""
