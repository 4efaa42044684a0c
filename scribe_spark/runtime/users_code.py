"""One-line errors for faults that Spark finds in users' code, such as a missing column.

Errors that end a run name the code in which they occurred, such as a system.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger

from scribe_spark.core.errors import InputError, RunError, one_line

#: The logger that writes the plan and Java's stack to stderr for each error.
_LOGGER_OF_PLANS = "DataFrameQueryContextLogger"

#: The folders of code that does not belong to the user.
_OURS = str(Path(__file__).parents[1]), str(Path(traceback.__file__).parent)


@contextmanager
def analysed(field: str, name: str) -> Iterator[None]:
    """Return a context manager that turns Spark's analysis errors into one line each."""
    plans = PySparkLogger.getLogger(_LOGGER_OF_PLANS)
    before, plans.disabled = plans.disabled, True
    try:
        yield
    except AnalysisException as error:
        raise InputError(field, name, f"{one_line(error)}{_where(error)}") from error
    except RunError as error:
        raise RunError(f"{name}: {error}") from error
    finally:
        plans.disabled = before


def _where(error: BaseException) -> str:
    """Return the file and line of the last call in the user's code before an error."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(_OURS)]
    users = [frame for frame in users if "site-packages" not in frame.filename]
    return f" ({Path(users[-1].filename).name}, line {users[-1].lineno})" if users else ""
