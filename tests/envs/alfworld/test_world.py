"""ALFWorld as a world: where games come from, what a copy shows, what is missing."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from tests.support.alfworld_games import LISTS, real_games, write_game

from dpepo.config import StepRewardConfig, TaskSelection
from dpepo.envs import WorkerPool, load_world, make, select_tasks, world_status
from dpepo.envs.alfworld.generate import generate_game
from dpepo.envs.alfworld.index import OFFICIAL_COUNTS
from dpepo.envs.alfworld.world import AlfWorld
from dpepo.envs.check import check_world
from dpepo.envs.task_lists import read_task_list
from dpepo.errors import ConfigError, TaskError
from dpepo.policies import ScriptedPolicy
from dpepo.rewards import score_episode
from dpepo.rollout import play_episode

GENERATED = "alfworld/generated_train/pick_and_place_simple/3"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_games(tmp_path_factory.mktemp("real"))


def made_up_root(root: Path, *, split: str, count: int) -> Path:
    """A data root with games that were generated."""
    game = generate_game("pick_and_place_simple", seed=0)
    for number in range(count):
        trial = root / "json_2.1.1" / split / f"pick_and_place_simple-Mug-None-Shelf-{number}" / "trial_T1"
        write_game(game, trial / "game.tw-pddl")
    return root


def test_the_conformance_kit_finds_nothing_wrong() -> None:
    with AlfWorld() as world:
        assert check_world(world, [GENERATED]) == []


def test_a_generated_game_needs_no_file_and_can_be_won_by_its_experts_actions() -> None:
    with AlfWorld() as world, make(GENERATED) as env:
        first = env.reset()
        assert first.text.endswith(f"Your task is to: {env.goal}") and "help" in first.admissible_actions
        plan = world.expert(GENERATED)
        assert plan is not None
        shown = [env.step(action) for action in plan]
        assert [seen.success for seen in shown] == [False] * (len(plan) - 1) + [True]
        assert shown[-1].ended and shown[-1].score == 1.0 and len({seen.state for seen in shown}) == len(shown)
        assert not env.reset().ended


def test_an_unknown_command_is_answered_and_marked() -> None:
    with make(GENERATED) as env:
        env.reset()
        seen = env.step("fly to the moon")
        assert (seen.text, seen.valid, seen.ended) == ("Nothing happens.", False, False)


def test_an_official_game_is_played_by_id_and_by_path_without_a_scan(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AlfWorld(data_root=str(real)) as world:
        task = world.tasks("valid_seen")[7]
    monkeypatch.setenv("ALFWORLD_DATA", str(real))
    monkeypatch.setattr("dpepo.envs.alfworld.world.list_games", None)
    _, split, game, trial = task.id.split("/")
    path = real / "json_2.1.1" / split / game / trial / "game.tw-pddl"
    with make(task.id) as by_id, make(str(path)) as by_path:
        assert by_id.reset() == by_path.reset()


def test_every_copy_and_every_run_of_a_game_starts_the_same(real: Path) -> None:
    """Case E08."""
    with AlfWorld(data_root=str(real)) as world:
        task = world.tasks("valid_seen")[0]
        texts = {world.make(task.id).reset().text for _ in range(4)}
    with AlfWorld(data_root=str(real)) as world:
        texts.add(world.make(task.id).reset().text)
    assert len(texts) == 1


def test_eight_workers_open_one_game_in_a_read_only_folder_and_leave_it_as_it_was(tmp_path: Path) -> None:
    """Case E07."""
    root = made_up_root(tmp_path / "data", split="train", count=1)
    [path] = root.rglob("game.tw-pddl")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        folder.chmod(0o555)
    task = "alfworld/train/pick_and_place_simple-Mug-None-Shelf-0/trial_T1"
    with WorkerPool("alfworld", {"data_root": str(root)}, workers=8) as pool:
        opened = pool.open_many([(task, 2)] * 8)
        answers = pool.step_many([(handle, {1: "look", 2: "inventory"}) for handle, _ in opened])
    assert len({start.initial.text for _, start in opened}) == 1
    assert all(set(answer) == {1, 2} and not answer[1].failure for answer in answers)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before and len(list(root.rglob("*"))) == 5


def test_the_order_of_folders_and_the_hash_seed_do_not_change_which_games_are_drawn(tmp_path: Path) -> None:
    """Case F17."""
    drawn: list[list[str]] = []
    for order in (range(12), reversed(range(12))):
        root = tmp_path / f"data-{len(drawn)}"
        for number in order:
            game = root / "json_2.1.1" / "train" / f"pick_and_place_simple-Mug-None-Shelf-{number}" / "trial_T1"
            write_game(generate_game("pick_and_place_simple", seed=0), game / "game.tw-pddl")
        with AlfWorld(data_root=str(root)) as world:
            drawn.append([task.id for task in select_tasks(world, TaskSelection(split="train", limit=4), seed=1)])
    assert drawn[0] == drawn[1] and len(drawn[0]) == 4


def test_games_that_cannot_be_solved_or_are_of_other_types_are_not_listed(tmp_path: Path) -> None:
    root = made_up_root(tmp_path, split="train", count=3)
    base = root / "json_2.1.1" / "train"
    one = base / "pick_and_place_simple-Mug-None-Shelf-0"
    for name in (
        "pick_and_place_with_movable_recep-Mug-Bowl-Shelf-1",
        "pick_heat_then_place_in_recep-AppleSliced-None-Fridge-1",
    ):
        shutil.copytree(one, base / name)
    bad = base / "pick_and_place_simple-Mug-None-Shelf-1" / "trial_T1" / "game.tw-pddl"
    bad.write_text(json.dumps({**json.loads(bad.read_text()), "solvable": False}))
    (base / "pick_and_place_simple-Mug-None-Shelf-2" / "trial_T1" / "game.tw-pddl").unlink()
    with AlfWorld(data_root=str(root)) as world:
        assert [task.id for task in world.tasks("train")] == ["alfworld/train/pick_and_place_simple-Mug-None-Shelf-0/trial_T1"]


def test_a_list_of_games_is_remembered_until_the_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made_up_root(tmp_path / "data", split="train", count=2)
    assert len(AlfWorld(data_root=str(root)).tasks("train")) == 2
    monkeypatch.setattr("dpepo.envs.alfworld.index._can_be_solved", lambda path: pytest.fail(f"read again: {path}"))
    assert len(AlfWorld(data_root=str(root)).tasks("train")) == 2
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made_up_root(root, split="train", count=3)
    assert len(AlfWorld(data_root=str(root)).tasks("train")) == 3


def test_a_split_that_is_not_complete_is_said_with_both_numbers(tmp_path: Path) -> None:
    """Case V04: 132 games where 134 are expected are not played silently."""
    root = made_up_root(tmp_path, split="valid_unseen", count=3)
    notes: list[str] = []
    with AlfWorld(data_root=str(root)) as world:
        assert len(select_tasks(world, TaskSelection(split="valid_unseen"), seed=0, note=notes.append)) == 3
    assert notes == ["The split 'valid_unseen' of alfworld has 134 tasks; here are 3"]


def test_missing_games_of_a_list_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    """Cases V04 and F13: paths of another machine are looked up under the data root."""
    root = made_up_root(tmp_path / "data", split="valid_unseen", count=2)
    names = [
        f"/home/them/.cache/json_2.1.1/valid_unseen/pick_and_place_simple-Mug-None-Shelf-{n}/trial_T1/game.tw-pddl"
        for n in range(5)
    ]
    listing = tmp_path / "list.json"
    listing.write_text(
        json.dumps({str(number + 1): {"gamefile": name} for number, name in enumerate(names)}).join(['{"unseen": ', "}"])
    )
    with AlfWorld(data_root=str(root)) as world:
        with pytest.raises(TaskError, match=r"5 tasks, 3 of which are missing: alfworld/valid_unseen/.*-2/trial_T1"):
            read_task_list(f"{listing}#unseen", world)
        listing.write_text(json.dumps(names[:2]))
        assert [task.name for task in read_task_list(str(listing), world).tasks] == ["pick_and_place_simple"] * 2


@pytest.mark.parametrize("file", ["alfworld_test_indomain.parquet", "alfworld_games.json#valid_seen"])
def test_the_authors_lists_are_read_as_they_are(real: Path, file: str) -> None:
    if not LISTS.is_dir():
        pytest.skip(f"the authors' lists are not here ({LISTS})")
    with AlfWorld(data_root=str(real)) as world:
        listed = read_task_list(str(LISTS / file), world)
        assert {task.id for task in listed.tasks} == {task.id for task in world.tasks("valid_seen")}
    assert len(listed.tasks) == OFFICIAL_COUNTS["valid_seen"]


def test_without_the_official_games_one_is_told_what_to_do() -> None:
    status = world_status("alfworld")
    assert status.ready and "dpepo envs fetch alfworld" in status.detail
    with load_world("alfworld") as world, pytest.raises(TaskError, match="ALFWORLD_DATA"):
        world.tasks("valid_seen")


@pytest.mark.parametrize(
    "task_id",
    [
        "alfworld/train/../../etc/passwd",
        "alfworld/nowhere/a/b",
        "alfworld/generated_train/pick_and_place/0",
        "alfworld/generated_train/pick_and_place_simple/99999",
        "alfworld/generated_train/pick_and_place_simple/007",
        "alfworld/",
        "alfworld//no/such/game.tw-pddl",
    ],
)
def test_a_task_that_does_not_exist_is_a_wrong_request(task_id: str) -> None:
    with AlfWorld() as world:
        for ask in (world.task, world.make):
            with pytest.raises(TaskError):
                ask(task_id)


@pytest.mark.parametrize(
    "options", [{"wording": "2.0"}, {"max_games": 0}, {"max_states": True}, {"data_root": 3}, {"planner": "x"}]
)
def test_a_wrong_option_is_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        load_world("alfworld", options)


def test_the_wording_that_was_played_is_recorded(real: Path) -> None:
    with AlfWorld(data_root=str(real)) as world:
        world.make(world.tasks("valid_seen")[0].id).reset()
        assert world.metadata()["wordings_played"] == "2.1.1"
        world.make(GENERATED).reset()
        assert world.metadata()["wordings_played"] == "2.1.1, 2.1.2"
    assert AlfWorld(wording="2.1.1").metadata()["wording"] == "2.1.1"


def test_an_action_that_does_nothing_costs_a_turn_and_is_seen_by_the_repeat_counters() -> None:
    """Case E03: "Nothing happens." twice, then the episode goes on."""
    with AlfWorld() as world:
        place = next(action for action in world.make(GENERATED).reset().admissible_actions if action.startswith("go to"))
        reply = f"<think>again</think><parallel><env_1>{place}</env_1></parallel>"
        policy = ScriptedPolicy([reply, reply, reply, reply.replace(place, "inventory")])
        episode = play_episode(GENERATED, policy=policy, num_envs=2, max_turns=4, world=world)
    texts = [turn.steps[0].observation.text for turn in episode.turns]
    assert texts[1] == texts[2] == "Nothing happens." != texts[3]
    rewards = score_episode(episode, StepRewardConfig()).step_rewards
    assert [reward.c_depth[1] for reward in rewards] == [0, 1, 2, 0]
