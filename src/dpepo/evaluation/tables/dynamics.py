"""How training went, in windows of RL steps: actions a turn, tokens, success; as in the paper's Table 5."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean

from dpepo.errors import RunFolderError
from dpepo.evaluation.tables.model import Column, Row, Table, number
from dpepo.evaluation.tables.published import Published
from dpepo.runs.metrics import MetricsRow
from dpepo.runs.rundir import RUN_FILE, RunFolder, no_run

STAGE = "rl"
ROWS = 10  # windows, where no size is given

COLUMNS = (
    Column(key="actions_per_turn", group="actions a turn", name="mean"),
    Column(key="actions_per_turn_std", group="actions a turn", name="std"),
    Column(key="reply_tokens", group="an episode", name="reply tokens"),
    Column(key="turns", group="an episode", name="turns"),
    Column(key="success", group="success, %", name="training tasks"),
    Column(key="val_success", group="success, %", name="evaluation"),
)

_FORMS = {"actions_per_turn": "{:.4f}", "actions_per_turn_std": "{:.4f}", "turns": "{:.2f}"}


def dynamics_table(
    sources: Sequence[str],
    *,
    labels: Sequence[str] = (),
    only: Sequence[str] = (),
    window: int = 0,
    note: Callable[[str], None],
    published: Sequence[Published] = (),
) -> Table:
    """The table: a line per window of RL steps and run.

    Args:
        sources: Run folders with a stage of reinforcement learning, or folders of such.
        labels: One per source, or none.
        only: Patterns of run folders; empty: all.
        window: Steps that are one line; 0: a tenth of the run's.
        note: Receives a sentence for everything damaged.
        published: Tables of the paper to show beside.

    Raises:
        RunFolderError: None of the folders holds metrics of RL.
    """
    rows: list[Row] = []
    for position, source in enumerate(sources):
        for run in _training_runs(Path(source)):
            if only and not any(fnmatchcase(str(run.path), pattern) for pattern in only):
                continue
            title = labels[position] if labels else str(run.path)
            metrics = run.read_metrics()
            for problem in metrics.problems:
                note(f"{run.path}: {problem}")
            steps = sorted((row for row in metrics.rows if row.stage == STAGE), key=lambda row: row.step)
            size = window or max(1, math.ceil(len(steps) / ROWS))
            rows += [_row(some, title) for some in _windows(steps, size)]
    if sources and not rows:
        raise RunFolderError(f"{', '.join(sources)}: no reinforcement learning there (stage {STAGE} of metrics.jsonl)")
    rows += [row for table in published for row in table.rows(COLUMNS)]
    notes = [
        "Steps are RL steps; each line is the mean of its window. Success on training tasks is of the policy that played them, "
        "while it learnt; evaluation is the last one in the window (train.eval_every).",
        *(f"Table {table.table}: {table.note}" for table in published),
    ]
    return Table(title="Training dynamics", label_name="RL steps", columns=COLUMNS, rows=tuple(rows), notes=tuple(notes))


def _training_runs(folder: Path) -> Iterator[RunFolder]:
    """Runs with metrics, in a folder or below it."""
    if not folder.is_dir():
        raise RunFolderError(no_run(folder))
    for path in sorted({folder / RUN_FILE, *folder.rglob(RUN_FILE)}):
        if path.is_file():
            run = RunFolder.open(path.parent)
            if run.job != "eval":
                yield run


def _windows(steps: Sequence[MetricsRow], size: int) -> Iterator[Sequence[MetricsRow]]:
    """Step 0 is the evaluation before training and belongs to no window."""
    played = [row for row in steps if row.step > 0]
    for start in range(0, len(played), size):
        yield played[start : start + size]


def _row(steps: Sequence[MetricsRow], group: str) -> Row:
    first, last = steps[0].step, steps[-1].step
    values = _values(steps)
    cells = tuple(number(values.get(column.key), _FORMS.get(column.key, "{:.1f}")) for column in COLUMNS)
    return Row(label=str(first) if first == last else f"{first}-{last}", group=group, cells=cells)


def _values(steps: Sequence[MetricsRow]) -> Mapping[str, float | None]:
    success, evaluated = _mean(steps, "episode/success_rate"), _numbers(steps, "val/success_rate")
    tokens = [
        length * turns
        for row in steps
        if (length := _number(row, "response_length/mean")) is not None and (turns := _number(row, "episode/turns")) is not None
    ]
    return {
        "actions_per_turn": _mean(steps, "episode/actions_per_turn"),
        "actions_per_turn_std": _pooled(steps),
        "reply_tokens": fmean(tokens) if tokens else None,
        "turns": _mean(steps, "episode/turns"),
        "success": None if success is None else 100 * success,
        "val_success": 100 * evaluated[-1] if evaluated else None,
    }


def _pooled(steps: Sequence[MetricsRow]) -> float | None:
    """The standard deviation over the turns of all steps, each step counting alike: within steps and between them."""
    stds, means = _numbers(steps, "episode/actions_per_turn_std"), _numbers(steps, "episode/actions_per_turn")
    if not stds or len(stds) != len(means):
        return None
    centre = fmean(means)
    return math.sqrt(fmean(std * std for std in stds) + fmean((mean - centre) ** 2 for mean in means))


def _mean(steps: Sequence[MetricsRow], name: str) -> float | None:
    values = _numbers(steps, name)
    return fmean(values) if values else None


def _numbers(steps: Sequence[MetricsRow], name: str) -> list[float]:
    return [value for row in steps if (value := _number(row, name)) is not None]


def _number(row: MetricsRow, name: str) -> float | None:
    value = row.values.get(name)
    return None if value is None or isinstance(value, str) else float(value)
