"""A process that runs a command until the command ends, or until its own standard input closes.

The file is run by its name and needs only the standard library: no module is imported from the
working directory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

#: Seconds within which the command must end after it was asked to.
_END = 10.0


def guard(command: list[str]) -> int:
    """Run a command, and end it if standard input closes first; return its exit code."""
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def wait_for_end() -> None:
        while os.read(0, 4096):
            pass
        running.terminate()
        time.sleep(_END)
        running.kill()

    threading.Thread(target=wait_for_end, daemon=True).start()
    code = running.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1:]))
