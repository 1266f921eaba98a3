"""TextWorld (Côté et al. 2018) as a world of dpepo. See docs/environments.md.

A game answers the same to the same commands, so that answers are remembered as a tree per game: copies and siblings share it,
and a copy starts the game itself only for commands nobody has given yet.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from dpepo.envs.base import TextEnv, World, WorldStatus
from dpepo.envs.textworld.games import DIFFICULTIES, SPLITS, WORLD, cache_folder, find_task, game_file, quiet, split_tasks
from dpepo.envs.versions import version_problem
from dpepo.errors import ConfigError, did_you_mean
from dpepo.types import Observation, Task, WorldGuide

_STATUS_LINE = re.compile(r"\n*>[ \t]*-= .*? =-[ \t]*-?\d+/\d+\s*$", re.DOTALL)
_FAREWELL = re.compile(r"\s*Would you like to RESTART.*$", re.DOTALL)
_REFUSALS = ("that's not a verb i recogni", "you can't see any such thing", "i didn't understand", "i only understood you as")


@dataclass
class _Node:
    """What a game showed after some commands, and the answers to those that follow."""

    observation: Observation
    children: dict[str, _Node] = field(default_factory=dict)


class TextWorld(World):
    """Games of three kinds: find the coin, find the treasure, cook by a recipe."""

    name: ClassVar[str] = WORLD
    splits: ClassVar[tuple[str, ...]] = SPLITS
    guide = WorldGuide(
        role="You play a text adventure. You read what you see and carry out a task by short commands.", free_actions=("look",)
    )

    def __init__(self, *, difficulty: str = "medium", folder: str = "", max_games: int = 64) -> None:
        """Check the options; games are made when they are asked for.

        Args:
            difficulty: "easy", "medium" or "hard": how large the houses and how long the recipes are.
            folder: Where made games are kept, about 0.5 MB each; "": the user's cache folder.
            max_games: Games kept in memory with their answers.

        Raises:
            ConfigError: An option has a bad value.
        """
        if difficulty not in DIFFICULTIES:
            raise ConfigError(
                f"textworld: difficulty must be one of {', '.join(DIFFICULTIES)}, got {difficulty!r}. "
                f"{did_you_mean(str(difficulty), DIFFICULTIES)}"
            )
        if not isinstance(max_games, int) or isinstance(max_games, bool) or max_games < 1:
            raise ConfigError(f"textworld: max_games must be a whole number of at least 1, got {max_games!r}")
        if not isinstance(folder, str):
            raise ConfigError(f"textworld: folder must be a path, got {folder!r}")
        self._difficulty, self._max_games = difficulty, max_games
        self._folder = Path(folder).expanduser() if folder else None
        self._games: OrderedDict[str, _Game] = OrderedDict()

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

    def _game(self, task_id: str) -> _Game:
        find_task(task_id)
        if task_id not in self._games:
            if self._folder is None:
                self._folder = cache_folder()
            self._games[task_id] = _Game(game_file(task_id, self._difficulty, folder=self._folder))
            if len(self._games) > self._max_games:
                self._games.popitem(last=False)[1].close()
        self._games.move_to_end(task_id)
        return self._games[task_id]


class TextWorldCopy(TextEnv):
    """One copy of a game: a place in the tree of its answers."""

    def __init__(self, game: _Game) -> None:
        """A copy that is not reset yet."""
        self._game = game
        self._done: tuple[str, ...] | None = None
        self.goal = game.goal

    def reset(self) -> Observation:
        """Back to the initial state; see `TextEnv.reset`."""
        self._done = ()
        return self._game.seen(()).observation

    def step(self, action: str) -> Observation:
        """Do one action; see `TextEnv.step`."""
        if self._done is None:
            raise RuntimeError("this environment is not reset yet")
        if self._game.seen(self._done).observation.ended:
            raise RuntimeError("this environment has ended; reset it first")
        self._done = (*self._done, " ".join(action.split()))
        return self._game.seen(self._done).observation


class _Game:
    """One game with its emulator, which stands where the last unknown command left it."""

    def __init__(self, path: Path) -> None:
        with quiet():
            import textworld

        wanted = textworld.EnvInfos(
            admissible_commands=True,
            won=True,
            lost=True,
            score=True,
            description=True,
            objective=True,
            policy_commands=True,
            facts=True,
            extras=["walkthrough"],
        )
        with quiet():
            self._env: Any = textworld.start(str(path), wanted)
            state = self._env.reset()
        self._stands: tuple[str, ...] = ()
        self.goal = " ".join(str(state["objective"]).split())
        self._policy = list(state["policy_commands"] or state["extra.walkthrough"] or ())
        self._root = _Node(_observation(state, f"{self.goal}\n\n{_tidy(state['description'])}"))

    def seen(self, commands: tuple[str, ...]) -> _Node:
        """What the game shows after some commands."""
        node = self._root
        for number, command in enumerate(commands):
            if command not in node.children:
                node.children[command] = _Node(self._play(commands[: number + 1], before=node.observation))
            node = node.children[command]
        return node

    def solution(self) -> list[str] | None:
        """The generator's commands, if they win."""
        won = bool(self._policy) and self.seen(tuple(self._policy)).observation.success
        return list(self._policy) if won else None

    def close(self) -> None:
        self._env.close()

    def _play(self, commands: tuple[str, ...], *, before: Observation) -> Observation:
        with quiet():
            if commands[:-1] != self._stands:
                self._env.reset()
                for command in commands[:-1]:
                    self._env.step(command)
            state, _, _ = self._env.step(commands[-1])
        self._stands = commands
        text = _tidy(state.feedback)
        return _observation(state, text, valid=commands[-1] in before.admissible_actions or _understood(text))


def _observation(state: Any, text: str, *, valid: bool = True) -> Observation:
    won, lost = bool(state["won"]), bool(state["lost"])
    return Observation(
        text=text,
        admissible_actions=tuple(state["admissible_commands"]),
        score=float(state["score"] or 0),
        success=won,
        ended=won or lost,
        valid=valid,
        state=_fingerprint(state),
    )


def _fingerprint(state: Any) -> str:
    facts = sorted(map(str, state["facts"]))
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()


def _understood(text: str) -> bool:
    return not any(refusal in text.lower() for refusal in _REFUSALS)


def _tidy(text: str) -> str:
    """A game's answer without the status line and the farewell of the emulator."""
    text = _FAREWELL.sub("", _STATUS_LINE.sub("", text))
    return re.sub(r"\n{3,}", "\n\n", text).strip()
