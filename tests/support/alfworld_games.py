"""Games of ALFWorld for tests: the real ones where they are, and the package's own player to compare with."""

from __future__ import annotations

import json
import random
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dpepo.envs.alfworld.engine import HELP, NOTHING_HAPPENS, LoadedGame, Node
from dpepo.envs.alfworld.expert import expert_actions
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


def patched(game: Path, path: Path) -> Path:
    """A game of release 2.1.1 as release 2.1.2 has it: upstream patched the files, and kept their domain otherwise."""
    parts = json.loads(game.read_text(encoding="utf-8"))
    help_rule = "(:action help :parameters (?a - agent) :precondition () :effect (and (checked ?a)))"
    parts["pddl_domain"] = parts["pddl_domain"].rstrip().removesuffix(")") + help_rule + ")\n"
    for old, new in (
        ("You arrive at {lend.name}.", "You arrive at {r.name}."),
        ("put {o} in/on {r}", "move {o} to {r}"),
        ("You put the {o.name} in/on the {r.name}.", "You move the {o.name} to the {r.name}."),
    ):
        parts["grammar"] = parts["grammar"].replace(old, new)
    parts["grammar"] += f'\naction help {{\n    template :: "help";\n    feedback :: "\n{HELP}";\n}}\n'
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


@cache
def _planner() -> Any:
    return import_module("fast_downward").load_lib()


@contextmanager
def _nothing_twice() -> Iterator[None]:
    """Have the package translate a game once, and copy its planner to the temporary folder once in a process.

    It translates four times, twice of it for plans that nobody asks for, and leaves 32 MB on the disk for every environment.
    """
    fast_downward = import_module("fast_downward")
    planner, translate = _planner(), lru_cache(maxsize=1)(fast_downward.pddl2sas)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", sys.argv)  # the translator sets it and leaves it so
        patch.setattr(fast_downward, "load_lib", lambda: planner)
        patch.setattr(fast_downward, "pddl2sas", lambda domain, problem, **_: translate(domain, problem))
        yield


class StockPlayer:
    """One game in the package's own player, without a limit on steps."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        """Load a game.

        Args:
            path: Its file.
            alone: No other player is in use, so that what the package does again and again can be done once.
        """
        demangler, env, infos = _stock_classes()
        with _nothing_twice() if alone else nullcontext():
            self._env = demangler(env(infos(admissible_commands=True, won=True, feedback=True)))
            self._env.load(json.loads(path.read_text(encoding="utf-8")))  # handed a path, it leaves the file open
            self.shown = self._read(self._env.reset())

    def step(self, command: str) -> Shown:
        state, _, _ = self._env.step(command)
        self.shown = self._read(state)
        return self.shown

    def _read(self, state: Any) -> Shown:
        return Shown(state.feedback, list(state["admissible_commands"]), bool(state["won"]))


def odd_commands(shown: Shown, rng: random.Random) -> str:
    """Something that agents say and the package does not understand, or understands in spite of its spaces."""
    command = rng.choice(shown.commands)
    other_wording = command.replace("put ", "move ").replace(" in/on ", " to ")
    return rng.choice(
        ["dance", "", "help", command.upper(), f" {command}\n", f"{command} now", other_wording, "go to nowhere 1"]
    )


def next_command(shown: Shown, game: LoadedGame, node: Node, rng: random.Random) -> str:
    """A command that leads somewhere more often than not, so that episodes reach what rarely happens by chance."""
    draw = rng.random()
    plan = expert_actions(game, node) if draw < 0.25 else None
    if plan:
        return plan[0]
    if draw > 0.92:
        return odd_commands(shown, rng)
    dull = ("go to", "examine", "look", "inventory", "help")
    lively = [command for command in shown.commands if not command.startswith(dull)]
    rare = [command for command in lively if command.startswith(("slice", "clean", "heat", "cool", "use"))]
    return rng.choice((rare if rare and draw < 0.4 else lively if draw < 0.7 else []) or shown.commands)


def differences(path: Path, *, seed: int, steps: int) -> list[str]:
    """Where the engine and the package's player differ in an episode of random commands; empty when they are equal.

    Args:
        path: The game.
        seed: Of the commands.
        steps: Commands at most; an episode that is won ends there.
    """
    stock, game = StockPlayer(path, alone=True), LoadedGame(read_game(path))
    node, rng = game.start, random.Random(f"{seed}/{path.parent.name}")
    found = _compared("(start)", stock.shown, Shown(game.intro, list(game.admissible(node)), node.won))
    for _ in range(steps):
        if stock.shown.won:
            break
        command = next_command(stock.shown, game, node, rng)
        expected = stock.step(command)
        node, text, valid = game.step(node, command)
        found += _compared(command, expected, Shown(text, list(game.admissible(node)), node.won))
        if valid == (expected.text == NOTHING_HAPPENS):
            found.append(f"{command}: {text!r} is called {'valid' if valid else 'invalid'}")
    return found


def _compared(command: str, expected: Shown, got: Shown) -> list[str]:
    return [] if expected == got else [f"{command}: expected {expected}, got {got}"]
