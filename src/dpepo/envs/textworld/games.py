"""Making TextWorld games by seed, and keeping them: a game takes seconds to make and is the same on every machine."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from dpepo.errors import TaskError, did_you_mean
from dpepo.types import Task

WORLD = "textworld"
NUMBERS = {"train": range(500), "dev": range(500, 550), "test": range(550, 600)}
"""Games of each task type in a split. A game's number is its seed."""

SPLITS = tuple(NUMBERS)
TASK_TYPES = ("coin_collector", "treasure_hunter", "cooking")
DIFFICULTIES: dict[str, dict[str, dict[str, Any]]] = {
    "easy": {
        "coin_collector": {"level": 5},
        "treasure_hunter": {"level": 5},
        "cooking": {"recipe": 1, "take": 1, "go": 1, "open": False, "cook": False, "cut": False, "drop": False},
    },
    "medium": {
        "coin_collector": {"level": 110},
        "treasure_hunter": {"level": 15},
        "cooking": {"recipe": 1, "take": 1, "go": 6, "open": True, "cook": True, "cut": False, "drop": False},
    },
    "hard": {
        "coin_collector": {"level": 210},
        "treasure_hunter": {"level": 22},
        "cooking": {"recipe": 2, "take": 2, "go": 9, "open": True, "cook": True, "cut": True, "drop": True},
    },
}
"""Settings of the package's challenges (`textworld.challenges`). docs/environments.md says what they mean."""

_ID = re.compile(r"textworld/(?P<type>[^/]+)/(?P<number>0|[1-9][0-9]{0,5})", re.ASCII)


def split_tasks(split: str) -> list[Task]:
    """All games of a split, by type, then by number."""
    return [_task(kind, number) for kind in TASK_TYPES for number in NUMBERS[split]]


def find_task(task_id: str) -> Task:
    """The task with an id such as "textworld/cooking/17".

    Raises:
        TaskError: There is no such task; the nearest name or the range of numbers is named.
    """
    match = _ID.fullmatch(task_id)
    if match is None:
        raise TaskError(f"{task_id!r} is no task of TextWorld: ids look like 'textworld/cooking/17'")
    kind, number = match["type"], int(match["number"])
    if kind not in TASK_TYPES:
        raise TaskError(f"TextWorld has no task type {kind!r} (asked for {task_id!r}). {did_you_mean(kind, TASK_TYPES)}")
    if not any(number in numbers for numbers in NUMBERS.values()):
        ranges = ", ".join(f"{numbers[0]} to {numbers[-1]} ({split})" for split, numbers in NUMBERS.items())
        raise TaskError(f"{task_id!r}: the games of each type are {ranges}")
    return _task(kind, number)


def game_file(task_id: str, difficulty: str, *, folder: Path) -> Path:
    """The compiled game of a task, made where it is not there yet.

    Args:
        task_id: A task that exists.
        difficulty: A key of `DIFFICULTIES`.
        folder: Where games are kept; several processes may share it.

    Raises:
        OSError: The folder cannot be written.
    """
    task = find_task(task_id)
    seed = int(task_id.rpartition("/")[2])
    path = folder / f"{_recipe(task, difficulty)}-{seed}.z8"
    if not (path.is_file() and path.with_suffix(".json").is_file()):
        folder.mkdir(parents=True, exist_ok=True)
        _make(task, DIFFICULTIES[difficulty][task.name], seed=seed, path=path)
    return path


def cache_folder() -> Path | None:
    """The user's cache, in a folder of its own for this version of the package; None where it cannot be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    folder = base / "dpepo" / f"textworld-{metadata.version('textworld')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the packages' own warnings away: each game is said to be no official one, and files are left for Python to close."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _make(task: Task, settings: dict[str, Any], *, seed: int, path: Path) -> None:
    with quiet():
        from textworld import challenges
        from textworld.generator import compile_game
        from textworld.generator.game import GameOptions
    if task.name == "cooking":
        settings = {**settings, "recipe_seed": seed, "split": {"dev": "valid"}.get(task.split, task.split)}
    with tempfile.TemporaryDirectory(dir=path.parent) as workshop, quiet():
        options = GameOptions()
        options.seeds = seed
        options.grammar.only_last_action = True  # the package's other sentences spell out the whole way
        options.path = str(Path(workshop) / path.name)
        module = {"coin_collector": challenges.coin_collector, "treasure_hunter": challenges.treasure_hunter}
        made = compile_game(module.get(task.name, challenges.cooking).make(settings, options), options)
        # the description first: whoever sees the game file finds it whole
        Path(made).with_suffix(".json").replace(path.with_suffix(".json"))
        Path(made).replace(path)


def _recipe(task: Task, difficulty: str) -> str:
    """What a game file is named after: the settings themselves, so that a file of other settings is never taken for it."""
    settings = DIFFICULTIES[difficulty][task.name]
    return "-".join([task.name, *(f"{name}{int(value)}" for name, value in settings.items())])


def _task(kind: str, number: int) -> Task:
    split = next(split for split, numbers in NUMBERS.items() if number in numbers)
    return Task(id=f"{WORLD}/{kind}/{number}", world=WORLD, name=kind, split=split)
