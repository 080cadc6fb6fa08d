# SPDX-License-Identifier: MIT
"""What a run shows while it goes on: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from harness.results import Case


def span(seconds: float) -> str:
    """Seconds as a reader wants them: 40 s, 7 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class RunProgress:
    """The progress of one run. On a terminal a bar with the time that is left, elsewhere a line for each row."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total, self._done = console, total, 0
        self._began = time.monotonic()
        self._left = "?"
        columns = ("{task.description:<52}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        made = [TextColumn(column) if isinstance(column, str) else column for column in columns]
        self._bar = Progress(
            *made, TextColumn("{task.fields[left]} left"), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total, left="?")

    def __enter__(self) -> RunProgress:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def row(self, repeat: int, case: Case) -> None:
        """The next row begins."""
        if not self.console.is_terminal:
            elapsed = span(time.monotonic() - self._began)
            self.console.print(f"[{self._done}/{self.total}, {elapsed}] repeat {repeat + 1}: {case}", markup=False)

    def sample(self, repeat: int, case: Case, allocator: str) -> None:
        """A sample begins."""
        self._bar.update(self._task, description=f"{repeat + 1}: {case}, {allocator}", left=self._left)

    def advance(self, done: int = 1) -> None:
        """So many samples are done, or will not be taken."""
        self._done += done
        elapsed = time.monotonic() - self._began
        self._left = span(elapsed / self._done * (self.total - self._done)) if self._done else "?"
        self._bar.update(self._task, advance=done, left=self._left)

    def note(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
