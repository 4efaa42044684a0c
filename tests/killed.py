"""A command of scribe-spark that is killed with -9, and gone on with by executor processes."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

#: Two executor processes.
CLUSTER = "local-cluster[2,1,1024]"

#: The environment in which executors share nothing with the driver but OUT, as on other machines.
NOTHING_SHARED = {"SCRIBE_SPARK_TRICKS": "-mapped_tables,-arrow_writer"}


def killed_then_gone_on(command: list[str], until: str, log: Path) -> None:
    """Start in local mode, kill when `until` is told, go on with two executor processes.

    These share nothing with the driver but OUT.
    """
    with open(log, "w") as told:
        run = subprocess.Popen(
            [*command, "--master=local[1]"], stderr=told, stdout=told, start_new_session=True
        )
        end = time.monotonic() + 600
        try:
            while until not in log.read_text():
                assert run.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.02)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
        assert run.wait(60) == -signal.SIGKILL
    done = subprocess.run(
        [*command, f"--master={CLUSTER}", "--partitions=3"],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ | NOTHING_SHARED,
    )
    assert done.returncode == 0, done.stderr
