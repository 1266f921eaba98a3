"""TextWorld: made by seed, the same everywhere, and a function of the commands."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dpepo.envs import make
from dpepo.envs.check import check_world
from dpepo.envs.textworld.games import TASK_TYPES
from dpepo.envs.textworld.world import TextWorld
from dpepo.errors import ConfigError, TaskError

pytest.importorskip("textworld")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's games are kept, so that each is made once."""
    return tmp_path_factory.mktemp("textworld-games")


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_game_passes_the_conformance_kit(folder: Path, task_type: str) -> None:
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        assert check_world(world, [f"textworld/{task_type}/train-0"]) == []


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_generators_solution_wins_and_the_goal_does_not_give_it_away(folder: Path, task_type: str) -> None:
    task = f"textworld/{task_type}/dev-1"
    with TextWorld(folder=str(folder)) as world:
        plan = world.expert(task)
        assert plan is not None
        env = world.make(task)
        first = env.reset()
        assert env.goal in first.text and "go " not in env.goal and ">" not in first.text
        shown = [env.step(action) for action in plan]
        assert [seen.success for seen in shown] == [False] * (len(plan) - 1) + [True]
        assert shown[-1].ended and "RESTART" not in shown[-1].text


def test_a_game_is_the_same_in_another_process_with_another_hash_seed(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from dpepo.envs.textworld.world import TextWorld\n"
        "world = TextWorld(difficulty='easy', folder=sys.argv[1]); env = world.make('textworld/cooking/train-0')\n"
        "print(repr(env.reset()), world.expert('textworld/cooking/train-0'))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    other = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        first = world.make("textworld/cooking/train-0").reset()
        assert other.stdout.strip() == f"{first!r} {world.expert('textworld/cooking/train-0')}"


def test_answers_that_are_remembered_are_those_of_a_fresh_game(folder: Path) -> None:
    """Copies interleaved at random answer as a copy that plays alone in a world of its own."""
    task, rng = "textworld/treasure_hunter/train-2", random.Random(0)
    with TextWorld(folder=str(folder)) as world:
        copies = [world.make(task) for _ in range(4)]
        histories: list[list[str]] = [[] for _ in copies]
        seen = [copy.reset() for copy in copies]
        shown = [[first] for first in seen]
        for _ in range(60):
            place = rng.randrange(4)
            if seen[place].ended:
                continue
            action = "dance" if rng.random() < 0.1 else rng.choice(seen[place].admissible_actions)
            seen[place] = copies[place].step(action)
            histories[place].append(action)
            shown[place].append(seen[place])
    for history, expected in zip(histories, shown, strict=True):
        with TextWorld(folder=str(folder)) as alone:
            env = alone.make(task)
            assert [env.reset(), *(env.step(action) for action in history)] == expected


def test_a_wrong_dish_ends_the_game_as_failed(folder: Path) -> None:
    """Burning or wasting an ingredient loses: the copy has ended, and not in success."""
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        env = world.make("textworld/cooking/train-0")
        seen, rng = env.reset(), random.Random(1)
        for _ in range(40):
            eaten = [action for action in seen.admissible_actions if action.startswith("eat") and action != "eat meal"]
            taken = [action for action in seen.admissible_actions if action.startswith(("take", "open", "go"))]
            seen = env.step(rng.choice(eaten or taken or list(seen.admissible_actions)))
            if seen.ended:
                break
    assert (seen.ended, seen.success) == (True, False)


def test_a_word_the_game_does_not_know_is_marked() -> None:
    with make("textworld/cooking/train-0", difficulty="easy") as env:
        first = env.reset()
        assert not env.step("dance wildly").valid
        assert env.step(first.admissible_actions[0]).valid


@pytest.mark.parametrize("task", ["cooking/train-500", "cooking/valid-0", "baking/train-0", "cooking/train-01", "cooking/7"])
def test_a_task_that_does_not_exist_is_a_wrong_request(task: str) -> None:
    with TextWorld() as world:
        for ask in (world.task, world.make):
            with pytest.raises(TaskError):
                ask(f"textworld/{task}")


@pytest.mark.parametrize("options", [{"difficulty": "mild"}, {"max_games": 0}, {"folder": 3}])
def test_a_wrong_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        TextWorld(**options)  # type: ignore[arg-type]
