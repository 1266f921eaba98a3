"""Progress on a screen (a live bar) or in a log (plain lines), for a job that only knows `dpepo.runs.progress.Progress`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dpepo.runs.progress import Progress as ProgressProtocol

_LINE_EVERY_S = 15.0  # seconds between plain lines
_ESTIMATE_FROM = 0.05  # share of a stage: before, starting up (a Java machine, say) makes any estimate far too long


def make_progress(stream: TextIO | None = None) -> ProgressProtocol:
    """The progress display that fits where standard error goes: a live bar in a terminal, plain lines elsewhere."""
    stream = sys.stderr if stream is None else stream
    return LiveProgress(Console(file=stream)) if stream.isatty() else LineProgress(stream)


class LiveProgress:
    """A bar that moves: stage, how far, newest values, elapsed and remaining time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._task = TaskID(0)
        self._shown: dict[str, float | int | str] = {}

    def start(self, stage: str, *, total: float | None, unit: str) -> None:
        """Begin a stage with a bar of its own."""
        self.finish()
        self._shown = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            TextColumn("{task.fields[shown]}", style="cyan"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._bars.add_task(stage, total=total, shown="", unit=unit, count=_count(0, total, unit))
        self._bars.start()

    def advance(self, n: float = 1, **shown: float | int | str) -> None:
        """Move the bar; values stay until newer ones of the same name come."""
        if self._bars is None:
            return
        self._shown.update(shown)
        task = self._bars.tasks[0]
        count = _count(task.completed + n, task.total, task.fields["unit"])
        self._bars.update(self._task, advance=n, shown=shown_values(self._shown), count=count)

    def skip(self, n: float, **shown: float | int | str) -> None:
        """Start the bar further on; its speed is that of what comes."""
        if self._bars is not None:
            self._bars.reset(self._task, completed=round(self._bars.tasks[0].completed + n))
            self.advance(0, **shown)

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def finish(self) -> None:
        """Leave the bar as it stands and give the terminal back."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


class LineProgress:
    """Now and then a line, for logs: ``evaluate: 40 of 200 episodes, success 0.25, 12 s, about 48 s left``."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._stage = ""
        self._unit = ""
        self._total: float | None = None
        self._done = self._skipped = 0.0
        self._shown: dict[str, float | int | str] = {}
        self._started = self._last_line = clock()

    def start(self, stage: str, *, total: float | None, unit: str) -> None:
        """Begin a stage."""
        self.finish()
        self._stage, self._total, self._unit = stage, total, unit
        self._done, self._skipped, self._shown = 0.0, 0.0, {}
        self._started = self._last_line = self._clock()
        self.note(f"{stage}: started")

    def advance(self, n: float = 1, **shown: float | int | str) -> None:
        """Count on; a line is written at most every few seconds."""
        self._done += n
        self._shown.update(shown)
        if self._stage and self._clock() - self._last_line >= _LINE_EVERY_S:
            self._last_line = self._clock()
            self.note(self._line())

    def skip(self, n: float, **shown: float | int | str) -> None:
        """Count what was done before; the time left is judged by the rest."""
        self._skipped += n
        self.advance(n, **shown)

    def note(self, text: str) -> None:
        """Write a line."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def finish(self) -> None:
        """Write the stage's last line."""
        if self._stage:
            self.note(self._line())
            self._stage = ""

    def _line(self) -> str:
        seconds = self._clock() - self._started
        parts = [f"{self._stage}: {_count(self._done, self._total, self._unit)}"]
        parts += [shown_values(self._shown)] if self._shown else []
        parts.append(f"{seconds:.0f} s")
        done, total = self._done - self._skipped, (self._total or 0.0) - self._skipped
        if done > 0 and _ESTIMATE_FROM * total <= done < total:
            parts.append(f"about {seconds / done * (total - done):.0f} s left")
        return ", ".join(parts)


def shown_values(values: dict[str, float | int | str]) -> str:
    """Values in few characters.

    >>> shown_values({"success": 0.25, "kl": 0.00123, "step": 3})
    'success 0.25, kl 0.00123, step 3'
    """
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items())


def _count(done: float, total: float | None, unit: str) -> str:
    return f"{done:g} {unit}" if total is None else f"{min(done, total):.0f} of {total:.0f} {unit}"
