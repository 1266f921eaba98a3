"""Where the official games lie, and which of them count: a data root, a split, a list that is made once.

A data root is what ``alfworld-download`` fills: ``<root>/json_2.1.1/<split>/<game>/<trial>/game.tw-pddl``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dpepo.envs.alfworld.games import GAME_FILE, TASK_TYPES
from dpepo.errors import TaskError

WORLD = "alfworld"
SPLITS = ("train", "valid_seen", "valid_unseen")
OFFICIAL_COUNTS = {"train": 3553, "valid_seen": 140, "valid_unseen": 134}
"""Games of each split that the package lists: solvable, without movable containers and slicing."""

FOLDER = "json_2.1.1"  # also of release 2.1.2, which changed the games' grammar and not the folder
HOW_TO_GET = (
    "Try: dpepo envs fetch alfworld, or set ALFWORLD_DATA (or env.options.data_root) to a folder that holds "
    f"{FOLDER}/{{{','.join(SPLITS)}}}/<game>/<trial>/{GAME_FILE}. Generated games need no files: split generated_train"
)
_PART = re.compile(r"[\w-]+")
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*true')


def find_root(option: str = "") -> Path:
    """The data root: an option, else ``ALFWORLD_DATA``, else ``~/.cache/alfworld``; it need not exist."""
    return Path(option or os.environ.get("ALFWORLD_DATA", "") or Path.home() / ".cache" / "alfworld").expanduser()


def game_path(root: Path, task_id: str) -> Path:
    """The file of a task id such as ``alfworld/valid_seen/<game>/<trial>``.

    Raises:
        TaskError: It is no such id, or there is no such file.
    """
    parts = task_id.split("/")
    if len(parts) != 4 or parts[1] not in SPLITS or not all(_PART.fullmatch(part) for part in parts):
        raise TaskError(
            f"{task_id!r} is no task of ALFWorld; one looks like alfworld/valid_seen/pick_and_place_simple-Mug-None-Shelf-308/"
            "trial_T20190908_125154_042763, alfworld/generated_train/pick_and_place_simple/7, or a path to a game.tw-pddl"
        )
    path = root / FOLDER / parts[1] / parts[2] / parts[3] / GAME_FILE
    if not path.is_file():
        raise TaskError(f"There is no game {path}. {HOW_TO_GET}")
    return path


def list_games(root: Path, split: str) -> list[str]:
    """Task ids of a split, sorted: games that can be solved, of the six types, without movable containers and slicing.

    Reading thousands of games to see whether they can be solved takes seconds, so the list is remembered in the user's cache
    folder until a game's folder changes; where that cannot be written, it is made again.

    Raises:
        TaskError: The split is not there, or holds no game.
    """
    folder = root / FOLDER / split
    if not folder.is_dir():
        raise TaskError(f"ALFWorld's games of the split {split!r} are not in {folder}. {HOW_TO_GET}")
    folders = sorted(path.name for path in folder.iterdir() if path.is_dir())
    changes = [(folder / name).stat().st_mtime_ns for name in folders]
    stamp = [str(folder.resolve()), len(folders), sum(changes)]
    known = _remembered(split, stamp)
    if known is None:
        known = [f"{WORLD}/{split}/{game}/{trial}" for game in folders for trial in _trials(folder / game)]
        _remember(split, stamp, known)
    if not known:
        raise TaskError(f"{folder} holds no game that can be played. {HOW_TO_GET}")
    return known


def first_and_last(root: Path, split: str) -> list[Path]:
    """Two games of a split, by name, without looking at the others; empty where the split is not there or odd."""
    folder = root / FOLDER / split
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir())
    found = (
        next(iter(sorted((folder / name).glob(f"*/{GAME_FILE}"))), None) for name in dict.fromkeys([*names[:1], *names[-1:]])
    )
    return [path for path in found if path is not None]


def resolve_path(text: str) -> str | None:
    """The task id inside a path of somebody's machine, ``.../<split>/<game>/<trial>/game.tw-pddl``; None if it is no such path.

    >>> resolve_path("/data/home/user/json_2.1.1/train/look_at_obj_in_light-Pen-None-DeskLamp-320/trial_1/game.tw-pddl")
    'alfworld/train/look_at_obj_in_light-Pen-None-DeskLamp-320/trial_1'
    """
    parts = text.replace("\\", "/").split("/")
    if parts and parts[-1] == GAME_FILE:
        parts = parts[:-1]
    if len(parts) < 3 or parts[-3] not in SPLITS or not all(_PART.fullmatch(part) for part in parts[-2:]):
        return None
    return "/".join([WORLD, *parts[-3:]])


def _trials(folder: Path) -> Iterator[str]:
    name = folder.name
    if name.partition("-")[0] not in TASK_TYPES or "movable" in name or "Sliced" in name:
        return
    for trial in sorted(path.name for path in folder.iterdir()):
        game = folder / trial / GAME_FILE
        if "movable" not in trial and "Sliced" not in trial and game.is_file() and _can_be_solved(game):
            yield trial


def _can_be_solved(game: Path) -> bool:
    """Whether the game's own mark says so; it stands at one of the file's ends."""
    with game.open("rb") as file:
        if _SOLVABLE.search(file.read(256)):
            return True
        file.seek(max(0, file.seek(0, os.SEEK_END) - 256))
        if _SOLVABLE.search(file.read()):
            return True
        file.seek(0)
        return _SOLVABLE.search(file.read()) is not None


def _index_file(split: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    return cache / "dpepo" / f"alfworld-{split}.json"


def _remembered(split: str, stamp: list[object]) -> list[str] | None:
    try:
        index = json.loads(_index_file(split).read_text(encoding="utf-8"))
        return list(map(str, index["games"])) if index["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(split: str, stamp: list[object], games: list[str]) -> None:
    path = _index_file(split)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"stamp": stamp, "games": games}), encoding="utf-8")
        part.replace(path)
    except OSError:  # a read-only home: the list is made again next time
        with suppress(OSError):
            part.unlink()
