"""The multicast systems, a folder each, and their registry."""
