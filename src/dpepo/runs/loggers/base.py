"""What a tracker is, and how the rows of ``metrics.jsonl`` get to the chosen ones.

``metrics.jsonl`` is written first and is what counts. A tracker is opened with a stage's first row, is given what the file
holds and it lacks (all of it, when it was chosen only for a resume), and then each row as it comes. One that fails is named
once and left out from then on: no training ends because of a curve.

To add one: a module here with a subclass of `Tracker`, a line in `_TRACKERS`, a name in `dpepo.config.LoggerName`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dpepo.config import LoggerName
from dpepo.errors import MissingPackage
from dpepo.runs.metrics import MetricsRow

Note = Callable[[str], None]


class TrackedRun(NamedTuple):
    """What a tracker is to show as one run: a stage of a run folder, since every stage counts steps of its own."""

    folder: Path  # the run folder; nothing is written outside it
    stage: str
    settings: Mapping[str, object]  # dotted key to value

    @property
    def name(self) -> str:
        """How the run is called in a list of runs."""
        return f"{self.folder.name}/{self.stage}"


class Tracker(ABC):
    """Takes the rows of one stage, in order of steps."""

    wants_history = True  # whether it is given the rows of earlier sessions that it lacks

    def __init__(self, run: TrackedRun, note: Note) -> None:
        """Open the run in the run folder, or go on with the one there.

        Args:
            run: What to show.
            note: Says a line to the person who watches.
        """
        self.run = run
        self.note = note

    @property
    def last_step(self) -> int | None:
        """The last step it holds from an earlier session and cannot take again; None: it takes everything."""
        return None

    @abstractmethod
    def log(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Take the numbers of a step; time in seconds since 1970."""

    def close(self) -> None:
        """Write what is still in memory."""
        return None


class _Known(NamedTuple):
    """A tracker that can be chosen."""

    tracker: str  # module:Class
    packages: tuple[str, ...]


_TRACKERS: Mapping[str, _Known] = {
    LoggerName.CONSOLE: _Known("dpepo.runs.loggers.console:ConsoleTracker", ()),
    LoggerName.TENSORBOARD: _Known("dpepo.runs.loggers.tensorboard:TensorBoardTracker", ("tensorboard",)),
    LoggerName.MLFLOW: _Known("dpepo.runs.loggers.mlflow:MlflowTracker", ("mlflow", "sqlalchemy", "alembic")),
    LoggerName.WANDB: _Known("dpepo.runs.loggers.wandb:WandbTracker", ("wandb",)),
}


def check_loggers(names: Iterable[str]) -> None:
    """Refuse trackers whose package is not installed, without importing any.

    Raises:
        MissingPackage: With the command that installs it.
    """
    for name in names:
        for package in _TRACKERS[name].packages if name in _TRACKERS else ():
            if find_spec(package) is None:
                raise MissingPackage(package, extra=name, needed_for=f"run.loggers {name}")


class Loggers:
    """The chosen trackers of a run folder."""

    def __init__(self, names: Sequence[str], *, folder: Path, settings: Mapping[str, object]) -> None:
        self.note: Note = lambda text: None
        self.dropped: dict[str, str] = {}  # tracker to what went wrong with it
        self._names = [name for name in dict.fromkeys(names) if name in _TRACKERS]
        self._folder = folder
        self._settings = settings
        self._open: dict[tuple[str, str], Tracker] = {}

    @property
    def wanted(self) -> bool:
        """Whether any tracker is left."""
        return bool(self._names)

    def log(self, row: MetricsRow, *, history: Callable[[], Sequence[MetricsRow]]) -> None:
        """Hand a row to every tracker.

        Args:
            row: The newest row.
            history: Reads all rows written so far, the newest included; called when a tracker is opened.
        """
        for name in list(self._names):
            try:
                with _their_warnings_apart():
                    self._log(name, row, history=history)
            except Exception as error:  # a foreign program, a full disk, a lost connection: no reason to stop learning
                self._drop(name, error)

    def close(self) -> None:
        """Close all trackers; harmless when repeated."""
        for (name, _), tracker in list(self._open.items()):
            try:
                with _their_warnings_apart():
                    tracker.close()
            except Exception as error:
                self._drop(name, error)
        self._open.clear()

    def _log(self, name: str, row: MetricsRow, *, history: Callable[[], Sequence[MetricsRow]]) -> None:
        tracker = self._open.get((name, row.stage))
        if tracker is not None:
            _send(tracker, [row])
            return
        tracker = self._open[name, row.stage] = self._tracker(name, row.stage)
        rows = history() if tracker.wants_history else [row]
        # later rows of an earlier session are about to be done again
        before = [one for one in rows if one.stage == row.stage and one.step <= row.step]
        _send(tracker, sorted(before, key=lambda one: one.step))

    def _tracker(self, name: str, stage: str) -> Tracker:
        module, _, class_name = _TRACKERS[name].tracker.partition(":")
        made: Tracker = getattr(import_module(module), class_name)(
            TrackedRun(folder=self._folder, stage=stage, settings=self._settings), lambda text: self.note(text)
        )
        return made

    def _drop(self, name: str, error: Exception) -> None:
        if name not in self._names:
            return
        self._names.remove(name)
        self.dropped[name] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        self.note(f"{name} failed and gets no more numbers ({self.dropped[name]}); metrics.jsonl has all of them")


@contextmanager
def _their_warnings_apart() -> Iterator[None]:
    """What trackers' packages have to say about their own code is of no use to who trains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _send(tracker: Tracker, rows: Iterable[MetricsRow]) -> None:
    last = tracker.last_step
    for row in rows:
        if last is None or row.step > last:
            numbers = {name: float(value) for name, value in row.values.items() if isinstance(value, int | float)}
            tracker.log(row.step, row.time, numbers)
