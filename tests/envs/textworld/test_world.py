"""TextWorld: made by seed, the same everywhere, and a function of the commands."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dpepo.envs import TextEnv, make
from dpepo.envs.check import check_world
from dpepo.envs.textworld.games import TASK_TYPES
from dpepo.envs.textworld.world import TextWorld
from dpepo.errors import ConfigError, TaskError

pytest.importorskip("textworld")

QUICK_COOKING = pytest.mark.parametrize(
    "task_type", ["cooking", *(pytest.param(kind, marks=pytest.mark.slow) for kind in TASK_TYPES[:2])]
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's games are kept, so that each is made once."""
    return tmp_path_factory.mktemp("textworld-games")


@QUICK_COOKING
def test_a_game_passes_the_conformance_kit(folder: Path, task_type: str) -> None:
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        assert check_world(world, [f"textworld/{task_type}/0"]) == []


@QUICK_COOKING
def test_the_generators_solution_wins_and_the_goal_does_not_give_it_away(folder: Path, task_type: str) -> None:
    task = f"textworld/{task_type}/501"
    with TextWorld(folder=str(folder)) as world:
        plan = world.expert(task)
        assert plan is not None
        env = world.make(task)
        first = env.reset()
        assert env.goal in first.text and "go " not in env.goal and ">" not in first.text
        shown = [env.step(action) for action in plan]
        assert [seen.success for seen in shown] == [False] * (len(plan) - 1) + [True]
        assert shown[-1].ended and "RESTART" not in shown[-1].text


@QUICK_COOKING
def test_a_game_is_the_same_in_another_process_with_another_hash_seed(folder: Path, tmp_path: Path, task_type: str) -> None:
    """Case E08."""
    code = (
        "import sys; from dpepo.envs.textworld.world import TextWorld\n"
        "world = TextWorld(difficulty='easy', folder=sys.argv[1])\n"
        "env, plan = world.make(sys.argv[2]), world.expert(sys.argv[2])\n"
        "print(repr(env.reset()), plan, [env.step(action) for action in ['inventory', *plan]])"
    )
    task = f"textworld/{task_type}/0"
    environment = {**os.environ, "PYTHONHASHSEED": "5"}
    command = [sys.executable, "-c", code, str(tmp_path), task]
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        env, plan = world.make(task), world.expert(task)
        assert plan is not None
        assert other.stdout.strip() == f"{env.reset()!r} {plan} {[env.step(action) for action in ['inventory', *plan]]}"


def test_splits_have_fixed_sizes_and_share_no_game() -> None:
    with TextWorld() as world:
        listed = {split: [task.id for task in world.tasks(split)] for split in world.splits}
        assert {split: len(ids) for split, ids in listed.items()} == {"train": 1500, "dev": 150, "test": 150}
        assert len({task_id for ids in listed.values() for task_id in ids}) == 1800
        assert world.task("textworld/coin_collector/17").split == "train"
        assert world.task("textworld/cooking/549").split == "dev"


@pytest.mark.slow
def test_harder_games_take_more_actions(folder: Path) -> None:
    with TextWorld(difficulty="easy", folder=str(folder)) as easy, TextWorld(folder=str(folder)) as medium:
        plans = [world.expert("textworld/coin_collector/501") for world in (easy, medium)]
    assert [len(plan or ()) for plan in plans] == [5, 10]


@pytest.mark.parametrize(
    ("difficulty", "task"),
    [("easy", "textworld/cooking/0"), pytest.param("medium", "textworld/treasure_hunter/2", marks=pytest.mark.slow)],
)
def test_answers_that_are_remembered_are_those_of_a_fresh_game(folder: Path, difficulty: str, task: str) -> None:
    """Copies interleaved at random answer as a copy that plays alone in a world of its own."""
    rng = random.Random(0)
    with TextWorld(difficulty=difficulty, folder=str(folder)) as world:
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
        with TextWorld(difficulty=difficulty, folder=str(folder)) as alone:
            env = alone.make(task)
            assert [env.reset(), *(env.step(action) for action in history)] == expected


def test_a_wrong_dish_ends_the_game_as_failed(folder: Path) -> None:
    """Burning or wasting an ingredient loses: the copy has ended, and not in success."""
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        env = world.make("textworld/cooking/0")
        seen, rng = env.reset(), random.Random(1)
        for _ in range(40):
            eaten = [action for action in seen.admissible_actions if action.startswith("eat") and action != "eat meal"]
            taken = [action for action in seen.admissible_actions if action.startswith(("take", "open", "go"))]
            seen = env.step(rng.choice(eaten or taken or list(seen.admissible_actions)))
            if seen.ended:
                break
    assert (seen.ended, seen.success) == (True, False)


def test_a_word_the_game_does_not_know_is_marked(folder: Path) -> None:
    with make("textworld/cooking/0", difficulty="easy", folder=str(folder)) as env:
        first = env.reset()
        assert not env.step("dance wildly").valid
        assert env.step(first.admissible_actions[0]).valid


HOSTILE = (
    *("save", "SAVE", "me, save", "restore", "restart", "quit", "q", "undo", "again", "g", "version", "superbrief", "saves"),
    *("script", "transcript on", "transcriptions", "tw-extra-infos score", "tw-trace-actions", "restrict commands"),
    *("look. look", "look then look", "look, look", "take x and y", 'say "x"', "\ud800", "look\0", "x" * 5000),
)


def test_commands_that_are_no_single_action_do_not_reach_the_game(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would write files, restore another copy's state, ask a question that swallows the next action, or act twice."""
    monkeypatch.chdir(tmp_path)
    task = "textworld/cooking/0"
    with TextWorld(difficulty="easy", folder=str(folder)) as world:
        env, alone = world.make(task), world.make(task)
        first, plan = env.reset(), world.expert(task)
        alone.reset()
        assert plan is not None
        for number, action in enumerate(plan):
            before = env.step("look")
            for command in HOSTILE[number :: len(plan)]:
                seen = env.step(command)
                assert (seen.valid, seen.ended, seen.state) == (False, False, before.state), command
                assert seen.admissible_actions == before.admissible_actions and seen.text.isascii()
            alone.step("look")
            assert env.step(action) == alone.step(action)
        assert env.reset() == first
    assert list(tmp_path.iterdir()) == []


def test_games_that_make_room_for_others_go_on_as_they_were(folder: Path) -> None:
    tasks = ["textworld/cooking/0", "textworld/coin_collector/0"]
    with TextWorld(difficulty="easy", folder=str(folder)) as wide:
        plans = [wide.expert(task) or [] for task in tasks]
        expected = [[env.reset(), *(env.step(action) for action in plan)] for env, plan in _made(wide, tasks, plans)]
    with TextWorld(difficulty="easy", folder=str(folder), max_games=1, max_results=3) as narrow:
        pairs = _made(narrow, tasks, plans)
        shown = [[env.reset()] for env, _ in pairs]
        for number in range(max(map(len, plans))):
            for place, (env, plan) in enumerate(pairs):
                if number < len(plan):
                    shown[place].append(env.step(plan[number]))
                    narrow.make(tasks[1 - place])
    assert shown == expected


def _made(world: TextWorld, tasks: list[str], plans: list[list[str]]) -> list[tuple[TextEnv, list[str]]]:
    return [(world.make(task), plan) for task, plan in zip(tasks, plans, strict=True)]


def test_without_a_cache_folder_games_are_made_in_one_that_goes_with_the_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TextWorld(difficulty="easy") as world:
        assert world.make("textworld/coin_collector/0").reset().text
        assert len(list(tmp_path.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "task", ["cooking/600", "cooking/-1", "cooking/valid", "baking/0", "cooking/01", "cooking/7/8", "cooking"]
)
def test_a_task_that_does_not_exist_is_a_wrong_request(task: str) -> None:
    with TextWorld() as world:
        for ask in (world.task, world.make):
            with pytest.raises(TaskError):
                ask(f"textworld/{task}")


@pytest.mark.parametrize("options", [{"difficulty": "mild"}, {"max_games": 0}, {"max_results": True}, {"folder": 3}])
def test_a_wrong_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        TextWorld(**options)  # type: ignore[arg-type]
