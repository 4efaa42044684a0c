"""Tests of pages draw all figures."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest


@pytest.fixture(scope="module", autouse=True)
def figures_of_rounds(drawn_rounds: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Draw the figures over rounds."""
    with drawn_rounds():
        yield
