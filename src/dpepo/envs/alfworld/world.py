"""ALFWorld (Shridhar et al. 2021) as a world of dpepo: official games from files, and generated ones. See docs/alfworld.md."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from dpepo.envs.alfworld import generated
from dpepo.envs.alfworld.compact import Notebook
from dpepo.envs.alfworld.engine import LoadedGame, Node
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import GAME_FILE, Game, Wording, read_game
from dpepo.envs.alfworld.index import (
    FOLDER,
    HOW_TO_GET,
    OFFICIAL_COUNTS,
    SPLITS,
    WORLD,
    find_root,
    first_and_last,
    game_path,
    list_games,
    resolve_path,
)
from dpepo.envs.alfworld.pddl import PddlError
from dpepo.envs.base import TextEnv, World, WorldStatus
from dpepo.errors import ConfigError, TaskError
from dpepo.types import Observation, Task, WorldGuide

WORDINGS = ("file", *(wording.value for wording in Wording))
OBSERVATIONS = ("full", "compact")
# the one command that the releases word differently
_PUTTING = {Wording.V2_1_1: re.compile(r"put .+ in/on .+"), Wording.V2_1_2: re.compile(r"move .+ to .+")}


class AlfWorld(World):
    """Household tasks of six types. All copies of a game are positions in one graph of its states."""

    name: ClassVar[str] = WORLD
    splits: ClassVar[tuple[str, ...]] = (*SPLITS, *generated.SPLITS)
    guide = WorldGuide(
        role="You are an agent in a house. You read what you see and carry out a household task by text commands.",
        hidden_actions=("help",),
        free_actions=("look",),
    )

    def __init__(
        self,
        *,
        data_root: str = "",
        wording: str = "file",
        observation: str = "full",
        max_games: int = 64,
        max_states: int = 50_000,
    ) -> None:
        """Check the options; files are read when a task is asked for.

        Args:
            data_root: Folder that holds ``json_2.1.1``; "": ``ALFWORLD_DATA``, else ``~/.cache/alfworld``.
            wording: "file": each game in the wording of its own file ("put X in/on Y" in release 2.1.1, "move X to Y" in 2.1.2
                and in generated games); "2.1.1" or "2.1.2": all games in that one.
            observation: "full": the game's own texts; "compact": one line of what matters (`dpepo.envs.alfworld.compact`).
            max_games: Games kept loaded in a process, about 0.2 MB each.
            max_states: States of games remembered in a process, about 2 KB each. Beyond it those of the games that were not
                asked for longest are forgotten, which costs time and changes nothing else.

        Raises:
            ConfigError: An option has a bad value.
        """
        if wording not in WORDINGS:
            raise ConfigError(f"alfworld: wording must be one of {', '.join(WORDINGS)}, got {wording!r}")
        if observation not in OBSERVATIONS:
            raise ConfigError(f"alfworld: observation must be one of {', '.join(OBSERVATIONS)}, got {observation!r}")
        for option, value in (("max_games", max_games), ("max_states", max_states)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"alfworld: {option} must be a whole number of at least 1, got {value!r}")
        if not isinstance(data_root, str):
            raise ConfigError(f"alfworld: data_root must be a path, got {data_root!r}")
        self._root = find_root(data_root)
        self._compact = observation == "compact"
        self._wording = None if wording == "file" else Wording(wording)
        self._max_games, self._max_states = max_games, max_states
        self._games: OrderedDict[str, LoadedGame] = OrderedDict()

    def make(self, task_id: str) -> TextEnv:
        """Make one environment of a task; see `World.make`."""
        return AlfWorldCopy(self.load(task_id), compact=self._compact)

    def load(self, task_id: str) -> LoadedGame:
        """The game of a task, loaded once for all its copies.

        Raises:
            TaskError: There is no such game, or it cannot be played here.
        """
        if task_id not in self._games:
            try:
                self._games[task_id] = LoadedGame(self._read(task_id), wording=self._wording, max_states=self._max_states)
            except PddlError as error:
                raise TaskError(f"The game {task_id!r} cannot be read: {error}") from None
            if len(self._games) > self._max_games:
                self._games.popitem(last=False)  # copies in play keep their game
        self._games.move_to_end(task_id)
        self._forget_some()
        return self._games[task_id]

    def _forget_some(self) -> None:
        total = sum(game.num_states for game in self._games.values())
        for game in self._games.values():
            if total <= self._max_states:
                return
            total -= game.num_states - 1
            game.forget()

    def tasks(self, split: str) -> list[Task]:
        """List the games of a split; see `World.tasks`."""
        self.check_split(split)
        if split in generated.SPLITS:
            return generated.generated_tasks(split)
        return [_official(task_id) for task_id in list_games(self._root, split)]

    def task(self, task_id: str) -> Task:
        """Look a task up by its id, without listing the others; see `World.task`."""
        if generated.is_generated(task_id):
            return generated.generated_task(task_id)
        if task_id.endswith(GAME_FILE):
            game = read_game(_file(task_id))
            return Task(id=task_id, world=WORLD, name=game.task_type)
        game_path(self._root, task_id)
        return _official(task_id)

    def resolve(self, entry: object) -> str:
        """The task id for an entry of a task list: an id, or a path of any machine's data root; see `World.resolve`."""
        text = super().resolve(entry)
        return text if text.startswith(f"{WORLD}/") else resolve_path(text) or text

    def metadata(self) -> dict[str, str]:
        """Wordings that are played, where the official games are, and how a game is played."""
        found = {"played_by": "dpepo.envs.alfworld.engine", "wording": "of each game's file"}
        if (self._root / FOLDER).is_dir():
            found["data_root"] = str(self._root)
        if self._wording is not None:
            return {**found, "wording": self._wording.value}
        for split in SPLITS:
            wordings = set()
            for path in first_and_last(self._root, split):
                with suppress(TaskError):  # said when that game is asked for
                    wordings.add(read_game(path).wording.value)
            if wordings:
                found[f"wording_{split}"] = " and ".join(sorted(wordings))
        return {**found, "wording_generated": Wording.V2_1_2.value}

    def foreign_actions(self, actions: Iterable[str], *, splits: Iterable[str]) -> str:
        """Say which recorded actions are in the other release's wording; see `World.foreign_actions`."""
        recorded = [" ".join(action.split()) for action in actions]
        facts = self.metadata()
        for split in splits:
            played = facts.get(f"wording_{'generated' if split in generated.SPLITS else split}", facts["wording"])
            for wording, pattern in _PUTTING.items():
                found = [action for action in recorded if pattern.fullmatch(action)]
                if found and played in WORDINGS and played != wording:
                    return (
                        f"{len(found)} actions such as {found[0]!r} are in the wording of release {wording.value}; the games "
                        f"of {split} are played in that of {played}, where they do nothing. "
                        f"Try: env.options.wording={wording.value}"
                    )
        return ""

    @classmethod
    def check(cls) -> WorldStatus:
        """Generated games work everywhere; say whether the official ones are here."""
        root = find_root()
        there = [split for split in SPLITS if (root / FOLDER / split).is_dir()]
        if there:
            return WorldStatus(
                name=cls.name, ready=True, detail=f"generated games; official games ({', '.join(there)}) in {root}"
            )
        return WorldStatus(name=cls.name, ready=True, detail=f"generated games; no official games in {root}. {HOW_TO_GET}")

    def expected(self, split: str) -> int | None:
        """How many games the official release has in a split; None for generated ones."""
        return OFFICIAL_COUNTS.get(split)

    def expert(self, task_id: str) -> list[str] | None:
        """The fewest commands that solve the task, by an expert that reads the game's state; see `World.expert`."""
        return expert_actions(self.load(task_id))

    def close(self) -> None:
        """Forget all games; see `World.close`."""
        self._games.clear()

    def _read(self, task_id: str) -> Game:
        if generated.is_generated(task_id):
            return generated.generated_game(task_id)
        return read_game(_file(task_id) if task_id.endswith(GAME_FILE) else game_path(self._root, task_id))


class AlfWorldCopy(TextEnv):
    """One copy of a game: a place in the graph of its states."""

    def __init__(self, game: LoadedGame, *, compact: bool) -> None:
        """A copy that is not reset yet; compact copies answer with one line of what is known."""
        self._game = game
        self._node: Node | None = None
        self._compact = compact
        self._notebook: Notebook | None = None
        self.goal = game.goal

    def reset(self) -> Observation:
        """Back to the initial state; see `TextEnv.reset`."""
        self._node = self._game.start
        self._notebook = Notebook(self._game.intro) if self._compact else None
        return self._observation(self._node, self._game.intro, valid=True)

    def step(self, action: str) -> Observation:
        """Do one action; see `TextEnv.step`."""
        if self._node is None:
            raise RuntimeError("this environment is not reset yet")
        if self._node.won:
            raise RuntimeError("this environment has ended; reset it first")
        self._node, text, valid = self._game.step(self._node, action)
        if self._notebook is not None:
            self._notebook.read(text)
        return self._observation(self._node, text, valid=valid)

    def _observation(self, node: Node, text: str, *, valid: bool) -> Observation:
        return Observation(
            text=text if self._notebook is None else self._notebook.line(valid=valid),
            admissible_actions=self._game.admissible(node),
            score=float(node.won),
            success=node.won,
            ended=node.won,
            valid=valid,
            state=f"{node.code:016x}",
        )


def _file(task_id: str) -> Path:
    return Path(task_id.removeprefix(f"{WORLD}/"))


def _official(task_id: str) -> Task:
    _, split, game, _ = task_id.split("/")
    return Task(id=task_id, world=WORLD, name=game.partition("-")[0], split=split)
