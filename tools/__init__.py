"""Programs that write this repository's own documentation and run its notebooks."""
