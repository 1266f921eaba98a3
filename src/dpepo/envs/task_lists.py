"""Lists of tasks in files: plain ids, or published lists as they are, whatever machine's paths they hold.

What a list names and a world does not have is counted and named before anything starts; what it names twice is played once and
said (docs/environments.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpepo.envs.base import World
from dpepo.errors import MissingPackage, TaskError, did_you_mean
from dpepo.types import Task

_COLUMNS = ("gamefile", "task_id", "id", "task")
"""Where a record holds its task, in this order; a record with "task" and "id" or "variation" is handed to the world whole."""

_SHOWN = 3

DEMONSTRATED_TASKS = "demonstrated_tasks.txt"
"""In the folder of a synthesis or a model: ids of the tasks that its demonstrations show."""


@dataclass(frozen=True)
class TaskList:
    """A list that was read."""

    tasks: tuple[Task, ...]  # in the order of the list, each once
    num_rows: int
    duplicates: dict[str, int]  # task id to the number of times it is named beyond the first

    def note(self, source: str) -> str:
        """What a person should know about the list; empty when every row is a task of its own."""
        if not self.duplicates:
            return ""
        types = Counter(task.name for task in self.tasks if task.id in self.duplicates)
        return (
            f"{source}: {self.num_rows} rows name {len(self.tasks)} tasks; {sum(self.duplicates.values())} rows repeat another "
            f"one and are not played again (task types: {', '.join(sorted(types))})"
        )


def read_task_list(source: str, world: World) -> TaskList:
    """Read a list of tasks.

    Args:
        source: A file: ``.txt`` (an id a line), ``.json`` (a list, or lists by name), ``.jsonl`` or ``.parquet`` (records).
            ``file.json#name`` takes one of several lists.
        world: Says which tasks exist, and what an entry that is no id means (`World.resolve`).

    Raises:
        TaskError: The file cannot be read, has no such list or no column of tasks, or names tasks that the world does not have;
            their number and the first of them are in the message.
        MissingPackage: A parquet file, and pyarrow is not installed.
    """
    name, _, key = source.partition("#")
    entries = _entries(Path(name), key)
    if not entries:
        raise TaskError(f"The task list {source} is empty")
    ids = [world.resolve(entry) for entry in entries]
    counts = Counter(ids)
    found: list[Task] = []
    missing: list[str] = []
    for task_id in counts:
        try:
            found.append(world.task(task_id))
        except TaskError as error:
            missing.append(f"{task_id} ({error})")
    if missing:
        more = f", and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise TaskError(
            f"The task list {source} names {len(counts)} tasks, {len(missing)} of which are missing: "
            + "; ".join(missing[:_SHOWN])
            + more
        )
    return TaskList(
        tasks=tuple(found), num_rows=len(ids), duplicates={task_id: n - 1 for task_id, n in counts.items() if n > 1}
    )


def excluded_ids(source: str, world: World) -> frozenset[str]:
    """Ids of the tasks that a selection leaves out.

    Args:
        source: A list as `read_task_list` reads it, or a folder that holds `DEMONSTRATED_TASKS`: of a synthesis or a model.
        world: As of `read_task_list`.

    Raises:
        TaskError: There is no such list.
        MissingPackage: As `read_task_list`.
    """
    path = Path(source)
    if path.is_dir():
        path /= DEMONSTRATED_TASKS
        if not path.is_file():
            raise TaskError(f"tasks.*.exclude: the folder {source} holds no {path.name}, as those of dpepo synth and sft do")
    if path.name == DEMONSTRATED_TASKS:  # may name tasks of other worlds, or of a data root that is not here
        return frozenset(_entries(path, ""))
    return frozenset(task.id for task in read_task_list(source, world).tasks)


def shared_tasks(train: Sequence[Task], evaluation: Sequence[Task]) -> list[str]:
    """Ids of tasks that are in both lists, in the order of the second."""
    known = {task.id for task in train}
    return [task.id for task in evaluation if task.id in known]


def refuse_overlap(train: Sequence[Task], evaluation: Sequence[Task], *, keys: tuple[str, str], allow: str) -> None:
    """Refuse two lists that are to be apart and are not.

    Args:
        train: What is learnt from.
        evaluation: What is measured on, or learnt from later.
        keys: The settings the two lists come from, for the message.
        allow: What to set for those who mean it, for the message.

    Raises:
        TaskError: With the number of tasks in both lists and the first of them.
    """
    shared = shared_tasks(train, evaluation)
    if not shared:
        return
    more = f", and {len(shared) - _SHOWN} more" if len(shared) > _SHOWN else ""
    raise TaskError(
        f"{len(shared)} of the {len(evaluation)} tasks of {keys[1]} are in {keys[0]} too: {', '.join(shared[:_SHOWN])}{more}. "
        f"Try: another split or list for one of them, or, if it is meant: {allow}"
    )


def types_note(train: Sequence[Task], evaluation: Sequence[Task]) -> str:
    """How many of the task types measured on are trained on as well, which decides what a success rate means."""
    trained = {task.name for task in train}
    measured = {task.name for task in evaluation}
    return f"tasks.eval: {len(measured & trained)} of its {len(measured)} task types are trained on"


def _entries(path: Path, key: str) -> list[Any]:
    try:
        if path.suffix == ".parquet":
            return [_task_of(record, path) for record in _parquet(path)]
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"The task list {path} cannot be read: {error}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        if path.suffix == ".jsonl":
            return [_task_of(json.loads(line), path) for line in lines]
        if path.suffix == ".json":
            return [_task_of(entry, path) for entry in _chosen(json.loads(text), path, key)]
    except json.JSONDecodeError as error:
        raise TaskError(f"The task list {path} is no {path.suffix.removeprefix('.').upper()}: {error}") from None
    return [line for line in lines if not line.startswith("#")]


def _chosen(lists: Any, path: Path, key: str) -> list[Any]:
    """The list that is meant in a JSON file."""
    if isinstance(lists, dict):
        if key not in lists:
            raise TaskError(f"{path} holds the lists {', '.join(lists)}. Choose one: {path}#{next(iter(lists), 'name')}")
        chosen = lists[key]
    else:
        chosen = lists
    if isinstance(chosen, dict):
        chosen = list(chosen.values())  # {"0": {...}, "1": {...}}: keys are labels
    if not isinstance(chosen, list):
        raise TaskError(f"{path} is {type(chosen).__name__} where a list of tasks is expected")
    return chosen


def _task_of(entry: Any, path: Path) -> Any:
    """The part of a record that names a task."""
    if not isinstance(entry, dict) or ("task" in entry and ("id" in entry or "variation" in entry)):
        return entry
    for column in _COLUMNS:
        if column in entry:
            return entry[column]
    raise TaskError(
        f"{path} has records with {', '.join(entry)}, and no column that names a task ({', '.join(_COLUMNS)}). "
        f"{did_you_mean('gamefile', entry)}"
    )


def _parquet(path: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow.parquet as parquet
    except ModuleNotFoundError:
        raise MissingPackage("pyarrow", extra="data", needed_for=f"The task list {path}") from None
    try:
        file = parquet.ParquetFile(path)
    except ValueError as error:  # pyarrow's own errors are ValueErrors
        raise TaskError(f"{path} is no parquet file: {error}") from None
    columns = [column for column in _COLUMNS if column in file.schema_arrow.names]
    if not columns:
        raise TaskError(
            f"{path} has the columns {', '.join(file.schema_arrow.names)}, and none that names a task ({', '.join(_COLUMNS)})"
        )
    records: list[dict[str, Any]] = file.read(columns=columns).to_pylist()
    return records
