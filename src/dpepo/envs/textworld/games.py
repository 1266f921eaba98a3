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

from dpepo.errors import MissingPackage, TaskError, did_you_mean
from dpepo.types import Task

WORLD = "textworld"
PER_TYPE = {"train": 500, "dev": 50, "test": 50}
"""Games of each task type in a split."""

SPLITS = tuple(PER_TYPE)
TASK_TYPES = ("coin_collector", "treasure_hunter", "cooking")
DIFFICULTIES: dict[str, dict[str, dict[str, Any]]] = {
    "easy": {
        "coin_collector": {"level": 3},
        "treasure_hunter": {"level": 2},
        "cooking": {"recipe": 1, "take": 1, "go": 1, "open": False, "cook": False, "cut": False, "drop": False},
    },
    "medium": {
        "coin_collector": {"level": 110},
        "treasure_hunter": {"level": 12},
        "cooking": {"recipe": 1, "take": 1, "go": 6, "open": True, "cook": True, "cut": False, "drop": False},
    },
    "hard": {
        "coin_collector": {"level": 210},
        "treasure_hunter": {"level": 22},
        "cooking": {"recipe": 2, "take": 2, "go": 9, "open": True, "cook": True, "cut": True, "drop": True},
    },
}
"""Settings of the package's challenges. Coin collector: 3 rooms in a row, then 10 with one or two dead ends each beside them.
Treasure hunter: 5 rooms without doors, 12 with closed doors and boxes, 20 with locked ones."""

_FIRST_SEED = {"train": 0, "dev": 1_000_000, "test": 2_000_000}
_ID = re.compile(r"textworld/(?P<type>[^/]+)/(?P<split>[a-z]+)-(?P<number>0|[1-9][0-9]{0,5})", re.ASCII)


def split_tasks(split: str) -> list[Task]:
    """All games of a split, by type, then by number."""
    return [_task(kind, split, number) for kind in TASK_TYPES for number in range(PER_TYPE[split])]


def find_task(task_id: str) -> Task:
    """The task with an id such as "textworld/cooking/train-7".

    Raises:
        TaskError: There is no such task; the nearest name or the range of numbers is named.
    """
    match = _ID.fullmatch(task_id)
    if match is None:
        raise TaskError(f"{task_id!r} is no task of TextWorld: ids look like 'textworld/cooking/train-7'")
    kind, split, number = match["type"], match["split"], int(match["number"])
    if kind not in TASK_TYPES:
        raise TaskError(f"TextWorld has no task type {kind!r} (asked for {task_id!r}). {did_you_mean(kind, TASK_TYPES)}")
    if split not in PER_TYPE:
        raise TaskError(f"TextWorld has no split {split!r} (asked for {task_id!r}). {did_you_mean(split, SPLITS)}")
    if number >= PER_TYPE[split]:
        raise TaskError(f"{task_id!r}: the games of {split} are 0 to {PER_TYPE[split] - 1} for each type")
    return _task(kind, split, number)


def game_file(task_id: str, difficulty: str, *, folder: Path) -> Path:
    """The compiled game of a task, made where it is not there yet.

    Args:
        task_id: A task that exists.
        difficulty: A key of `DIFFICULTIES`.
        folder: Where games are kept; several processes may share it.

    Raises:
        MissingPackage: textworld is not installed.
        OSError: The folder cannot be written.
    """
    task = find_task(task_id)
    number = int(task_id.rpartition("-")[2])
    path = folder / f"{task.name}-{difficulty}-{_FIRST_SEED[task.split] + number}.z8"
    if not (path.is_file() and path.with_suffix(".json").is_file()):
        folder.mkdir(parents=True, exist_ok=True)
        _make(task, DIFFICULTIES[difficulty][task.name], seed=_FIRST_SEED[task.split] + number, path=path)
    return path


def cache_folder() -> Path:
    """Where games are kept: the user's cache, by version of the package; a temporary folder where that cannot be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    folder = base / "dpepo" / f"textworld-{metadata.version('textworld')}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="dpepo-textworld-"))


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the packages' own warnings away: each game is said to be no official one, and files are left for Python to close."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _make(task: Task, settings: dict[str, Any], *, seed: int, path: Path) -> None:
    try:
        with quiet():
            from textworld import challenges
            from textworld.generator import compile_game
            from textworld.generator.game import GameOptions
    except ModuleNotFoundError:
        raise MissingPackage("textworld", extra="textworld", needed_for="The world 'textworld'") from None
    if task.name == "cooking":
        settings = {**settings, "recipe_seed": seed, "split": "test" if task.split == "test" else "train"}
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


def _task(kind: str, split: str, number: int) -> Task:
    return Task(id=f"{WORLD}/{kind}/{split}-{number}", world=WORLD, name=kind, split=split)
