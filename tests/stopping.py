"""Progress that is remembered, and that interrupts the work where a test wants it."""

from contextlib import AbstractContextManager

from scribe_spark.core.progress import Silent


class Stops(Silent):
    """Interrupts after a note, or before a phase; without either it only remembers.

    Attributes
    ----------
    lines, phases : list of str
        The notes, and the names of the phases.
    """

    def __init__(self, after: str | None = None, before: str | None = None) -> None:
        self.after, self.before = after, before
        self.lines: list[str] = []
        self.phases: list[str] = []

    def phase(self, name: str) -> AbstractContextManager[None]:
        self.phases.append(name)
        if name == self.before:
            raise KeyboardInterrupt
        return super().phase(name)

    def note(self, text: str) -> None:
        self.lines.append(text)
        if self.after is not None and self.after in text:
            raise KeyboardInterrupt
