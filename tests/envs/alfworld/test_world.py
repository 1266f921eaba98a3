"""ALFWorld as a world: where games come from, what a copy shows, what is missing."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path

import pytest
from tests.support.alfworld_games import LISTS, real_games, write_game

from dpepo.config import StepRewardConfig, TaskSelection
from dpepo.envs import WorkerPool, load_world, make, select_tasks, world_status
from dpepo.envs.alfworld.games import TASK_TYPES
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
    [one, *_] = sorted((root / "json_2.1.1" / "train").iterdir())
    shutil.copytree(one / "trial_T1", one / "trial_T2")
    assert len(AlfWorld(data_root=str(root)).tasks("train")) == 4


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


def test_the_wording_of_every_split_is_recorded_before_a_game_is_played(real: Path, tmp_path: Path) -> None:
    """Case E01: what a run was played in can be read later."""
    with AlfWorld(data_root=str(real)) as world:
        facts = world.metadata()
    assert facts["wording"] == "of each game's file" and facts["data_root"] == str(real)
    assert (facts["wording_valid_seen"], facts["wording_generated"]) == ("2.1.1", "2.1.2")
    assert "wording_train" not in facts
    assert AlfWorld(wording="2.1.1", data_root=str(tmp_path)).metadata()["wording"] == "2.1.1"


def test_recorded_actions_in_the_other_releases_wording_are_flagged(real: Path) -> None:
    """Case E01: demonstrations with "put X in/on Y" teach nothing for games that say "move X to Y"."""
    old, new = ["go to desk 1", "put mug 1 in/on desk 1"], ["move mug 1 to desk 1"]
    with AlfWorld(data_root=str(real)) as world:
        told = world.foreign_actions(old, splits=["valid_seen", "generated_train"])
        assert told.startswith("1 actions such as 'put mug 1 in/on desk 1' are in the wording of release 2.1.1")
        assert "generated_train" in told and "env.options.wording=2.1.1" in told
        assert world.foreign_actions(old, splits=["valid_seen"]) == world.foreign_actions(new, splits=["generated_dev"]) == ""
        assert "release 2.1.2" in world.foreign_actions(new, splits=["valid_seen"])
        assert world.foreign_actions(old, splits=["train"]) == ""  # not here: nothing is known of its wording
    with AlfWorld(wording="2.1.2", data_root=str(real)) as world:
        assert "release 2.1.1" in world.foreign_actions(old, splits=["valid_seen"])


def test_a_folder_with_two_releases_or_a_broken_game_is_recorded_as_that(tmp_path: Path) -> None:
    root = made_up_root(tmp_path, split="train", count=3)
    first, *_ = sorted(root.rglob("game.tw-pddl"))
    parts = json.loads(first.read_text())
    grammar = (
        parts["grammar"].replace("move {o} to {r}", "put {o} in/on {r}").replace("arrive at {r.name}", "arrive at {lend.name}")
    )
    grammar = grammar.replace("You move the {o.name} to the {r.name}", "You put the {o.name} in/on the {r.name}")
    domain = parts["pddl_domain"].partition("(:action help")[0] + ")"
    first.write_text(json.dumps({**parts, "grammar": grammar, "pddl_domain": domain}))
    assert AlfWorld(data_root=str(root)).metadata()["wording_train"] == "2.1.1 and 2.1.2"
    first.write_text("{")
    assert AlfWorld(data_root=str(root)).metadata()["wording_train"] == "2.1.2"


def test_memory_is_capped_over_all_games_and_play_goes_on(tmp_path: Path) -> None:
    ids = [f"alfworld/generated_train/pick_and_place_simple/{number}" for number in range(3)]
    with AlfWorld(max_states=40) as small, AlfWorld() as large:
        for seed in range(12):
            for task_id in ids:
                rng = random.Random(f"{task_id}/{seed}")
                one, other = small.make(task_id), large.make(task_id)
                seen = one.reset()
                assert other.reset() == seen
                for _ in range(15):
                    action = rng.choice(seen.admissible_actions)
                    seen = one.step(action)
                    assert other.step(action) == seen
                    if seen.ended:
                        break
        assert sum(small.load(task_id).num_states for task_id in ids) <= 2 * 40
        assert sum(large.load(task_id).num_states for task_id in ids) > 3 * 40


def test_a_home_that_cannot_be_written_costs_the_remembered_list_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    root = made_up_root(tmp_path / "data", split="train", count=2)
    assert len(AlfWorld(data_root=str(root)).tasks("train")) == 2


def test_a_game_anywhere_is_played_and_its_type_is_told_by_its_goal(tmp_path: Path) -> None:
    for task_type in TASK_TYPES:
        path = write_game(generate_game(task_type, seed=2), tmp_path / task_type[:6] / "game.tw-pddl")
        with make(str(path)) as env, AlfWorld() as world:
            assert env.reset().admissible_actions and world.task(f"alfworld/{path}").name == task_type


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
