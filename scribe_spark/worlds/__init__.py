"""Worlds: overlays whose nodes arrive, leave, fail and recover in rounds, with their groups.

The public names are imported when they are first used, so that the tasks of a world do not import
the modules of the config.
"""
