"""A run's numbers: one JSON object per line in ``metrics.jsonl``, written as they come and read back by everything else."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpepo.runs.files import append_lines, read_json_lines

if TYPE_CHECKING:
    from dpepo.runs.loggers import Loggers

Value = float | int | str | bool | None
RESERVED = frozenset({"stage", "step", "time"})


class MetricsRow(NamedTuple):
    """One line of metrics."""

    stage: str  # e.g. "sft", "rl", "eval"
    step: int
    time: float  # seconds since 1970
    values: Mapping[str, Value]  # by field name, e.g. "actor/pg_loss"; None where a number was not finite


class MetricsFile(NamedTuple):
    """What a metrics file holds."""

    rows: tuple[MetricsRow, ...]  # the newest line per stage and step, in the order steps were first written
    problems: tuple[str, ...]  # one sentence per damaged line


class MetricsLog:
    """Appends metrics to a file, a line per call; nothing is held back. Then hands them to trackers, where there are any."""

    def __init__(self, path: Path, *, loggers: Loggers | None = None) -> None:
        self.path = path
        self.loggers = loggers

    def log(self, stage: str, step: int, values: Mapping[str, Value]) -> None:
        """Write one line. Numbers that are not finite are written as null, so that every reader of JSON can read the file.

        Raises:
            ValueError: A field is called stage, step or time.
            OSError: The file cannot be written.
        """
        if RESERVED & values.keys():
            raise ValueError(f"metrics may not be called {', '.join(sorted(RESERVED & values.keys()))}")
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
        }
        line: dict[str, Any] = {"stage": stage, "step": step, "time": round(time.time(), 3), **finite}
        append_lines(self.path, [json.dumps(line, allow_nan=False)])
        if self.loggers is not None and self.loggers.wanted:
            row = MetricsRow(stage, step, line["time"], finite)
            self.loggers.log(row, history=lambda: read_metrics(self.path).rows)


def read_metrics(path: Path) -> MetricsFile:
    """Read a metrics file. Of several lines for the same stage and step (a step repeated after a resume) the last counts.

    A file that does not exist holds nothing; damaged lines are reported and left out.
    """
    rows: dict[tuple[str, int], MetricsRow] = {}
    problems: list[str] = []
    if path.exists():
        for line in read_json_lines(path):
            if line.value is None:
                problems.append(line.problem)
                continue
            try:
                row = MetricsRow(
                    stage=str(line.value["stage"]),
                    step=int(line.value["step"]),
                    time=float(line.value["time"]),
                    values={name: value for name, value in line.value.items() if name not in RESERVED},
                )
            except (KeyError, TypeError, ValueError):
                problems.append(f"{path.name}, line {line.number} lacks stage, step or time; left out")
                continue
            rows[row.stage, row.step] = row
    return MetricsFile(tuple(rows.values()), tuple(problems))
