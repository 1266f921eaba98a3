"""Games of ALFWorld for tests: the real ones where they are, and the package's own player to compare with."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dpepo.envs.alfworld.engine import LoadedGame
from dpepo.envs.alfworld.games import Game, read_game

ARCHIVES = Path(__file__).parents[3] / "shared" / "data" / "alfworld"
LISTS = Path(__file__).parents[3] / "shared" / "data" / "reference"


def real_games(folder: Path, split: str = "valid_seen") -> Path:
    """A data root with the real games of a split, unpacked; skips the test where the archives are not."""
    archive = ARCHIVES / f"{split}.tar.xz"
    if not archive.is_file():
        pytest.skip(f"the real games of ALFWorld are not here ({archive})")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder


def write_game(game: Game, path: Path) -> Path:
    """A generated game as a file that the package alfworld plays."""
    data = resources.files("alfworld") / "data"
    grammar = (data / "alfred.twl2").read_text(encoding="utf-8").replace("UNKNOWN GOAL.", game.sentence)
    parts = {
        "pddl_domain": (data / "alfred.pddl").read_text(encoding="utf-8"),
        "grammar": grammar,
        "pddl_problem": game.problem,
        "solvable": True,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(parts), encoding="utf-8")
    return path


class Shown(NamedTuple):
    """What a player shows after a command."""

    text: str
    commands: list[str]
    won: bool


@cache
def _stock_classes() -> tuple[Any, Any, Any]:
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.core import EnvInfos
    from textworld.envs.pddl.pddl import PddlEnv

    return AlfredDemangler, PddlEnv, EnvInfos


class StockPlayer:
    """One game in the package's own player, without a limit on steps."""

    def __init__(self, path: Path) -> None:
        demangler, env, infos = _stock_classes()
        self._env = demangler(env(infos(admissible_commands=True, won=True, feedback=True)))
        self._env.load(json.loads(path.read_text(encoding="utf-8")))  # handed a path, it leaves the file open
        self.shown = self._read(self._env.reset())

    def step(self, command: str) -> Shown:
        state, _, _ = self._env.step(command)
        self.shown = self._read(state)
        return self.shown

    def _read(self, state: Any) -> Shown:
        return Shown(state.feedback, list(state["admissible_commands"]), bool(state["won"]))


def random_commands(player: StockPlayer, rng: random.Random, *, steps: int) -> Iterator[str]:
    """Commands that lead somewhere, an odd one among them; stops when the game is won."""
    for _ in range(steps):
        if player.shown.won:
            return
        offered = player.shown.commands
        dull = ("go to", "examine", "look", "inventory", "help")
        lively = [command for command in offered if not command.startswith(dull)]
        yield "dance" if rng.random() < 0.05 else rng.choice(lively if lively and rng.random() < 0.6 else offered)


def differences(path: Path, *, seed: int, steps: int) -> list[str]:
    """Where the engine and the package's player differ in an episode of random commands; empty when they are equal."""
    stock, game = StockPlayer(path), LoadedGame(read_game(path))
    node = game.start
    found = _compared("(start)", stock.shown, Shown(game.intro, list(game.admissible(node)), node.won))
    for command in random_commands(stock, random.Random(f"{seed}/{path.parent.name}"), steps=steps):
        expected = stock.step(command)
        node, text, _ = game.step(node, command)
        found += _compared(command, expected, Shown(text, list(game.admissible(node)), node.won))
    return found


def _compared(command: str, expected: Shown, got: Shown) -> list[str]:
    return [] if expected == got else [f"{command}: expected {expected}, got {got}"]
