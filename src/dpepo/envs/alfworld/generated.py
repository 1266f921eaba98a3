"""Lists of generated games: the same tasks on every machine, without a file.

Training and development games play in rooms that the official training games play in, test games in rooms that those never
show, as the official unseen split has it. No seed is in two lists.
"""

from __future__ import annotations

import re

from dpepo.envs.alfworld.games import TASK_TYPES, Game
from dpepo.envs.alfworld.generate import generate_game
from dpepo.envs.alfworld.rooms import UNSEEN_ROOMS
from dpepo.errors import TaskError, did_you_mean
from dpepo.types import Task

WORLD = "alfworld"
PER_TYPE = {"generated_train": 600, "generated_dev": 50, "generated_test": 50}
"""Games of each task type in a split; `dpepo.config.TaskSelection.limit` takes fewer."""

SPLITS = tuple(PER_TYPE)
_FIRST_SEED = {split: 1_000_000 * position for position, split in enumerate(SPLITS)}
_ID = re.compile(r"alfworld/(?P<split>generated_\w+)/(?P<type>[^/]+)/(?P<number>0|[1-9][0-9]{0,5})", re.ASCII)


def is_generated(task_id: str) -> bool:
    """Whether an id names a generated game, existing or not."""
    return task_id.startswith(f"{WORLD}/generated_")


def generated_tasks(split: str) -> list[Task]:
    """All games of a split, by type, then by number."""
    return [_task(split, kind, number) for kind in TASK_TYPES for number in range(PER_TYPE[split])]


def generated_task(task_id: str) -> Task:
    """The task with an id such as "alfworld/generated_train/pick_and_place_simple/7".

    Raises:
        TaskError: There is no such task; the nearest name or the range of numbers is named.
    """
    match = _ID.fullmatch(task_id)
    if match is None:
        raise TaskError(f"{task_id!r} is no generated game: ids look like 'alfworld/generated_train/pick_and_place_simple/7'")
    split, kind, number = match["split"], match["type"], int(match["number"])
    if split not in PER_TYPE:
        raise TaskError(f"ALFWorld has no split {split!r}. {did_you_mean(split, SPLITS)}")
    if kind not in TASK_TYPES:
        raise TaskError(f"ALFWorld has no task type {kind!r}. {did_you_mean(kind, TASK_TYPES)}")
    if number >= PER_TYPE[split]:
        raise TaskError(f"{task_id!r}: the games of {split} are 0 to {PER_TYPE[split] - 1} for each type")
    return _task(split, kind, number)


def generated_game(task_id: str) -> Game:
    """Make the game of a task.

    Raises:
        TaskError: There is no such task.
    """
    task = generated_task(task_id)
    seed = _FIRST_SEED[task.split] + int(task_id.rpartition("/")[2])
    return generate_game(task.name, seed=seed, rooms=UNSEEN_ROOMS if task.split == "generated_test" else None)


def _task(split: str, kind: str, number: int) -> Task:
    return Task(id=f"{WORLD}/{split}/{kind}/{number}", world=WORLD, name=kind, split=split)
