"""Worlds and tasks by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpepo.config import TaskSelection
from dpepo.envs import load_world, make, select_tasks, world_names, world_status
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError, RequestError, TaskError
from dpepo.types import Task


class ShuffledWorld(ToyWorld):
    """Lists its tasks in another order, as a folder on another machine would."""

    def tasks(self, split: str) -> list[Task]:
        return super().tasks(split)[::-1]


def test_the_worlds_that_ship_with_dpepo_are_listed() -> None:
    assert {"toy", "scienceworld"} <= set(world_names())
    assert world_names() == sorted(world_names())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toi", r"Unknown world 'toi'\. Did you mean 'toy'\?"),
        ("scienceword", r"Did you mean 'scienceworld'\?"),
        ("", r"Unknown world ''"),
        ("no_such_module:World", r"Cannot import 'no_such_module'.*PYTHONPATH"),
        ("dpepo.envs.no_such:World", r"Cannot import 'dpepo\.envs\.no_such'"),
    ],
)
def test_an_unknown_world_is_refused_with_the_nearest_name(name: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load_world(name)
    assert not world_status(name).ready


@pytest.mark.parametrize("name", ["json:loads", "json:NoSuchName", "dpepo.envs.base:TextEnv", "dpepo.envs.toy:"])
def test_a_path_to_something_that_is_no_world_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a subclass of"):
        load_world(name)


@pytest.mark.parametrize(("option", "nearest"), [("observations", "observation"), ("failat", "fail_at")])
def test_an_unknown_option_is_refused_with_the_nearest_name(option: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"no option '{option}' .Did you mean '{nearest}'"):
        load_world("toy", {option: 1})
    with pytest.raises(ConfigError, match=nearest):
        make("toy/house/3", **{option: 1})


def test_a_world_whose_module_lacks_a_package_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needy_world.py").write_text("import a_package_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"'needy_world'.*ModuleNotFoundError: No module named 'a_package_nobody_has'"):
        load_world("needy_world:World")
    assert "a_package_nobody_has" in world_status("needy_world:World").detail


@pytest.mark.parametrize("name", [":", ":World", "..up:World", "failing_world:World", "unreadable_world:World"])
def test_a_world_that_cannot_be_imported_is_a_wrong_request(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_world.py").write_text("1 / 0\n")
    (tmp_path / "unreadable_world.py").write_text("def (\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="Cannot import"):
        load_world(name)


def test_a_world_of_ones_own_is_loaded_by_its_path(guess_world: str) -> None:
    with make(f"{guess_world}/number/3") as env:
        assert env.reset().text == "I have a number in mind."
        assert env.goal == "Guess my number, 0 to 9."
        assert env.step("3").success
    with pytest.raises(ConfigError, match=r"no option 'level' \(None is known"):
        load_world(guess_world, {"level": 2})


def test_make_gives_a_playable_environment_that_closes_its_world(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(ToyWorld, "close", lambda self: closed.append(self.name))
    with make("toy/house/3", observation="compact") as env:
        assert env.reset().text == "at study : barrel , basket"
        assert closed == []
    assert closed == ["toy"]
    with pytest.raises(TaskError, match="variations of toy/house are 0 to 39"):
        make("toy/house/40")
    assert closed == ["toy", "toy"]


@pytest.mark.parametrize("task", ["toy", "", "boil"])
def test_make_explains_what_a_task_id_looks_like(task: str) -> None:
    with pytest.raises(TaskError, match="is not a task id; one looks like 'toy/house/3'"):
        make(task)


def test_all_conditions_of_a_selection_hold_together() -> None:
    tasks = select_tasks(ToyWorld(), TaskSelection(names=("house", "room"), split="dev", limit=3), seed=1)
    assert [task.name for task in tasks] == ["room"] * 3 + ["house"] * 3
    assert {task.split for task in tasks} == {"dev"}
    assert len({task.id for task in tasks}) == 6


def test_a_draw_does_not_depend_on_the_order_of_listing_and_grows_with_its_limit() -> None:
    """F17."""
    drawn = {task.id for task in select_tasks(ToyWorld(), TaskSelection(limit=5), seed=7)}
    assert {task.id for task in select_tasks(ShuffledWorld(), TaskSelection(limit=5), seed=7)} == drawn
    assert {task.id for task in select_tasks(ToyWorld(), TaskSelection(limit=4), seed=7)} < drawn
    assert {task.id for task in select_tasks(ToyWorld(), TaskSelection(limit=5), seed=8)} != drawn


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_a_draw_is_the_same_under_every_hash_seed(hash_seed: str) -> None:
    """F17."""
    code = (
        "import json; from dpepo.config import TaskSelection; from dpepo.envs import load_world, select_tasks;"
        "print(json.dumps([t.id for t in select_tasks(load_world('toy'), TaskSelection(limit=3), seed=5)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [task.id for task in select_tasks(ToyWorld(), TaskSelection(limit=3), seed=5)]


def test_explicit_ids_keep_their_order_and_are_taken_once() -> None:
    ids = ("toy/room/9", "toy/house/3", "toy/room/9")
    selection = TaskSelection(ids=ids, split="test", names=("castle",))
    assert [task.id for task in select_tasks(ToyWorld(), selection, seed=0)] == ["toy/room/9", "toy/house/3"]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (TaskSelection(names=("hosue",)), r"no task type 'hosue' \(Did you mean 'house'\?\)"),
        (TaskSelection(names=("room", "rum", "castel")), r"'rum' .*'castel'"),
        (TaskSelection(split="valid"), r"no split 'valid'"),
        (TaskSelection(split=""), r"no split ''"),
        (TaskSelection(ids=("toy/house/77",)), r"variations of toy/house are 0 to 39"),
        (TaskSelection(ids=("scienceworld/boil/1",)), r"No task 'scienceworld/boil/1'"),
    ],
)
def test_a_selection_of_what_does_not_exist_is_refused(selection: TaskSelection, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        select_tasks(ToyWorld(), selection, seed=0)


def test_an_empty_split_is_refused_instead_of_an_epoch_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """E18."""
    monkeypatch.setattr(ToyWorld, "tasks", lambda self, split: [])
    with pytest.raises(RequestError, match="is empty"):
        select_tasks(ToyWorld(), TaskSelection(), seed=0)
