"""The command line in the process of the tests."""

from collections.abc import Callable, Iterable
from typing import Any

from scribe_spark import cli


def exit_code(arguments: Iterable[object]) -> Any:
    """Run a command line; return its exit code."""
    return code_of(lambda: cli.main([str(argument) for argument in arguments]))


def code_of(program: Callable[[], object]) -> Any:
    """Return the exit code of a program; after a success it returns, without a SystemExit."""
    try:
        program()
    except SystemExit as ended:
        code = ended.code
    else:
        return 0
    assert code, "SystemExit after a success"
    return code
