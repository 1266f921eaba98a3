"""TextWorld (Côté et al. 2018) as a world of dpepo. See docs/environments.md.

A game answers the same to the same commands, so that answers are remembered as a tree per game: copies and siblings share it,
and a copy starts the game itself only for commands nobody has given yet.
"""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from dpepo.envs.base import TextEnv, World, WorldStatus
from dpepo.envs.textworld.emulator import Game
from dpepo.envs.textworld.games import DIFFICULTIES, SPLITS, WORLD, cache_folder, find_task, game_file, split_tasks
from dpepo.envs.versions import version_problem
from dpepo.errors import ConfigError, MissingPackage, did_you_mean
from dpepo.types import Observation, Task, WorldGuide


class TextWorld(World):
    """Games of three kinds: find the coin, find the treasure, cook by a recipe."""

    name: ClassVar[str] = WORLD
    splits: ClassVar[tuple[str, ...]] = SPLITS
    guide = WorldGuide(
        role="You play a text adventure. You read what you see and carry out a task by short commands.", free_actions=("look",)
    )

    def __init__(
        self, *, difficulty: str = "medium", folder: str = "", max_games: int = 64, max_results: int = 100_000
    ) -> None:
        """Check the options; games are made when they are asked for.

        Args:
            difficulty: "easy", "medium" or "hard": how large the houses and how long the recipes are.
            folder: Where made games are kept, about 0.5 MB each; "": the user's cache folder.
            max_games: Games with a running emulator at most.
            max_results: Answers remembered at most, about 1.5 KB each; games not used for longest are forgotten first.

        Raises:
            ConfigError: An option has a bad value.
        """
        if difficulty not in DIFFICULTIES:
            raise ConfigError(
                f"textworld: difficulty must be one of {', '.join(DIFFICULTIES)}, got {difficulty!r}. "
                f"{did_you_mean(str(difficulty), DIFFICULTIES)}"
            )
        for option, value in (("max_games", max_games), ("max_results", max_results)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"textworld: {option} must be a whole number of at least 1, got {value!r}")
        if not isinstance(folder, str):
            raise ConfigError(f"textworld: folder must be a path, got {folder!r}")
        self._difficulty, self._max_games, self._max_results = difficulty, max_games, max_results
        self._folder = Path(folder).expanduser() if folder else None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._games: OrderedDict[str, Game] = OrderedDict()  # the one used last at the end

    def make(self, task_id: str) -> TextEnv:
        """Make one environment of a task; see `World.make`."""
        return TextWorldCopy(self._game(task_id))

    def tasks(self, split: str) -> list[Task]:
        """List the games of a split; see `World.tasks`."""
        self.check_split(split)
        return split_tasks(split)

    def task(self, task_id: str) -> Task:
        """Look a task up by its id; see `World.task`."""
        return find_task(task_id)

    def expert(self, task_id: str) -> list[str] | None:
        """The generator's own solution; see `World.expert`."""
        return self._game(task_id).solution()

    def metadata(self) -> dict[str, str]:
        """Version of the package, and the difficulty."""
        return {"textworld": metadata.version("textworld"), "difficulty": self._difficulty}

    @classmethod
    def check(cls) -> WorldStatus:
        """Look for the package, without importing it."""
        if find_spec("textworld") is None:
            detail = "the package textworld is not installed. Try: pip install 'dpepo[textworld]'"
            return WorldStatus(name=cls.name, ready=False, detail=detail)
        wrong = version_problem("textworld")
        if wrong:
            return WorldStatus(name=cls.name, ready=False, detail=wrong)
        return WorldStatus(name=cls.name, ready=True, detail=f"textworld {metadata.version('textworld')}, games made by seed")

    def close(self) -> None:
        """End all games; see `World.close`."""
        for game in self._games.values():
            game.close()
        self._games.clear()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary, self._folder = None, None

    def _game(self, task_id: str) -> Game:
        find_task(task_id)
        if task_id not in self._games:
            if find_spec("textworld") is None:
                raise MissingPackage("textworld", extra="textworld", needed_for="The world 'textworld'")
            self._games[task_id] = Game(game_file(task_id, self._difficulty, folder=self._kept_in()))
        self._games.move_to_end(task_id)
        self._stay_in_bounds()
        return self._games[task_id]

    def _kept_in(self) -> Path:
        if self._folder is None:
            self._folder = cache_folder()
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="dpepo-textworld-")
            self._folder = Path(self._temporary.name)
        return self._folder

    def _stay_in_bounds(self) -> None:
        """Let go of games that were not used for longest; copies that still play one find it as it was."""
        while len(self._games) > self._max_games:
            self._games.popitem(last=False)[1].close()
        remembered = sum(game.num_answers for game in self._games.values())
        for game in self._games.values():
            if remembered <= self._max_results:
                return
            remembered -= game.num_answers - 1
            game.forget()


class TextWorldCopy(TextEnv):
    """One copy of a game: a place in the tree of its answers."""

    def __init__(self, game: Game) -> None:
        """A copy that is not reset yet."""
        self._game = game
        self._done: tuple[str, ...] | None = None
        self.goal = game.goal

    def reset(self) -> Observation:
        """Back to the initial state; see `TextEnv.reset`."""
        self._done = ()
        return self._game.seen(())

    def step(self, action: str) -> Observation:
        """Do one action; see `TextEnv.step`."""
        if self._done is None:
            raise RuntimeError("this environment is not reset yet")
        if self._game.seen(self._done).ended:
            raise RuntimeError("this environment has ended; reset it first")
        self._done = (*self._done, " ".join(action.split()))
        return self._game.seen(self._done)
