"""The neutral ground of all systems: nodes' lives, events, counted messages, and rounds."""
