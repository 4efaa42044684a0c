"""The reference tree of Costa and Frey: a tree over all hosts, kept by the keys that they own."""
