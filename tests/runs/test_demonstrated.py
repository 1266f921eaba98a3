"""The list of tasks that a model has been shown goes with it, and keeps them out of its reinforcement learning."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.toy_jobs import ONE_TASK, ColdStart, Notes, open_run, toy_config

from dpepo.cli.preflight import check_request
from dpepo.config import Config, TaskSelection
from dpepo.envs import select_tasks
from dpepo.envs.toy import ToyWorld
from dpepo.errors import TaskError
from dpepo.runs.demonstrated import read_demonstrated, write_demonstrated
from dpepo.training.export import export_model
from dpepo.training.rl import run_train

LIST = "demonstrated_tasks.txt"


def rl_config(start: ColdStart, folder: Path, *settings: str) -> Config:
    small = ("train.steps=1", "train.tasks_per_step=1", "train.group_size=2")
    return toy_config(folder, f"model.path={start.run}", *small, *settings)


def train(config: Config) -> Path:
    run = open_run(config, "train")
    try:
        return Path(run_train(config, run=run, progress=Notes()).checkpoint)
    finally:
        run.close()


def test_a_list_goes_from_the_synthesis_to_the_model_through_rl_and_export(cold_start: ColdStart, tmp_path: Path) -> None:
    shown = (cold_start.demonstrations / LIST).read_text().split()
    assert len(shown) == 1
    assert (cold_start.model / LIST).read_text().split() == shown
    trained = train(rl_config(cold_start, tmp_path / "rl", *ONE_TASK))
    assert (trained / "model" / LIST).read_text().split() == shown
    exported = export_model(str(trained), out=tmp_path / "exported").folder
    assert (Path(exported) / LIST).read_text().split() == shown


def test_training_on_shown_tasks_is_refused_before_it_starts_and_by_the_job_itself(
    cold_start: ColdStart, tmp_path: Path
) -> None:
    config = rl_config(cold_start, tmp_path / "rl", *ONE_TASK, "train.allow_overlap=false")
    expected = (
        r"1 of the 1 tasks of tasks\.train are in the demonstrations of model\.path.*tasks\.train\.exclude=.*/demonstrated_"
    )
    with pytest.raises(TaskError, match=expected):
        check_request("train", config)
    with pytest.raises(TaskError, match=expected):
        train(config)
    check_request("train", rl_config(cold_start, tmp_path / "rl", *ONE_TASK))  # train.allow_overlap=true


def test_shown_tasks_are_left_out_by_the_folder_that_shows_them(cold_start: ColdStart, tmp_path: Path) -> None:
    settings = ("train.allow_overlap=false", f"tasks.train.exclude={cold_start.demonstrations}")
    config = rl_config(cold_start, tmp_path / "rl", *settings)
    check_request("train", config)
    notes: list[str] = []
    tasks = select_tasks(ToyWorld(), config.tasks.train, seed=0, note=notes.append)
    everything = select_tasks(ToyWorld(), config.tasks.train.model_copy(update={"exclude": ""}), seed=0)
    assert {task.id for task in everything} - {task.id for task in tasks} == set(read_demonstrated(config.model))
    assert notes == [f"1 of {len(everything)} tasks are left out, by {cold_start.demonstrations}"]


def test_a_list_of_any_form_can_be_left_out_before_the_limit_draws(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text('["toy/room/0", "toy/room/1"]')
    selection = TaskSelection(names=("room",), split="train", exclude=str(tmp_path / "list.json"))
    left = select_tasks(ToyWorld(), selection, seed=0)
    assert {"toy/room/0", "toy/room/1"}.isdisjoint(task.id for task in left)
    all_but_two = selection.model_copy(update={"limit": len(left)})
    assert select_tasks(ToyWorld(), all_but_two, seed=0) == left


def test_what_cannot_be_left_out_is_said(tmp_path: Path) -> None:
    one = TaskSelection(ids=("toy/room/0",), exclude=str(tmp_path))
    with pytest.raises(TaskError, match=rf"{tmp_path} holds no demonstrated_tasks\.txt"):
        select_tasks(ToyWorld(), one, seed=0)
    write_demonstrated(tmp_path, ["toy/room/0", "another world/boil/3"])
    with pytest.raises(TaskError, match=r"All 1 tasks are left out by"):
        select_tasks(ToyWorld(), one, seed=0)


def test_a_model_without_a_list_was_shown_nothing_that_is_known(cold_start: ColdStart, tmp_path: Path) -> None:
    config = toy_config(tmp_path / "r", f"model.path={cold_start.untrained}", "train.allow_overlap=false")
    assert read_demonstrated(config.model) == ()
    check_request("train", config)
    write_demonstrated(tmp_path, [])
    assert not (tmp_path / LIST).exists()
