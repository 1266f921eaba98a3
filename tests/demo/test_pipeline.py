"""The demo's stages one after the other, on the toy world with an untrained model: the same code, in seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.toy_jobs import ONE_TASK, Killed, KilledAt, Notes, same_weights, toy_config, write_model

from dpepo.demo.pipeline import DemoResult, format_table, run_demo
from dpepo.demo.worlds import ALFWORLD, DEMOS, DemoWorld, find_demo
from dpepo.errors import RequestError, RunFolderError
from dpepo.recipes import config_yaml, load_config
from dpepo.runs.rundir import RunFolder
from dpepo.runs.summary import ResultRow, read_summary


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The toy world's settings for a demo of one task and two RL steps."""
    model = write_model(tmp_path / "model")
    small = ("tasks.eval.limit=1", "synth.num_envs=[1,2]", "train.steps=2", "train.save_every=1", "sampling.max_new_tokens=12")
    config = toy_config(tmp_path / "unused", *ONE_TASK, *small, f"model.path={model}", "train.tasks_per_step=1")
    path = tmp_path / "recipe.yaml"
    path.write_text(config_yaml(config), encoding="utf-8")
    return path


def demo(out: Path, recipe: Path, progress: Notes, *, resume: bool = False) -> DemoResult:
    return run_demo(out, seed=3, resume=resume, progress=progress, recipe=recipe)


def test_the_demo_goes_through_all_stages_and_ends_with_a_report(tmp_path: Path, recipe: Path) -> None:
    notes = Notes()
    result = demo(tmp_path / "demo", recipe, notes)
    told = [stage.split(":")[0].split(",")[0] for stage in notes.stages]
    firsts = list(dict.fromkeys(told))
    assert firsts == [
        "demonstrations",
        "supervised fine-tuning",
        "evaluate after cold start",
        "reinforcement learning",
        "evaluate after RL",
    ]
    assert Path(result.report).is_file()
    summary = read_summary(tmp_path / "demo")
    assert summary == result.summary
    assert {row.label for row in summary.table} == {"after cold start", "after RL"}
    text = result.as_text(command=".venv/bin/dpepo")
    assert "after RL" in text and "  .venv/bin/dpepo view " in text
    stages = {row.stage for row in summary.table}
    lines = list(RunFolder.open(tmp_path / "demo").read_episodes(problems=[]))
    assert stages <= {line.stage for line in lines}
    assert {line.episode.task.split for line in lines if line.stage in ("synth", "rl")} == {"train"}  # test is never trained on
    for row in summary.table:
        if row.tries == 1:
            assert row.n == sum(line.stage == row.stage for line in lines)


@pytest.mark.slow
def test_an_interrupted_demo_goes_on_to_the_same_numbers(tmp_path: Path, recipe: Path) -> None:
    progress = Notes()
    whole = demo(tmp_path / "whole", recipe, progress)
    for share in (0.2, 0.5, 0.8):
        out = tmp_path / f"cut-{share}"
        with pytest.raises(Killed):
            demo(out, recipe, KilledAt(share * progress.advanced))
        again = demo(out, recipe, Notes(), resume=True)
        assert again.summary.table == whole.summary.table
        last = Path("checkpoints") / "rl" / "step-0002"
        assert same_weights(out / last, tmp_path / "whole" / last)


def test_a_demo_that_a_person_stops_is_recorded_as_interrupted(tmp_path: Path, recipe: Path) -> None:
    class Stopped(Notes):
        def start(self, stage: str, *, total: float | None, unit: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo(tmp_path / "demo", recipe, Stopped())
    assert json.loads((tmp_path / "demo" / "run.json").read_text())["sessions"][0]["interrupted"] is True


def test_a_folder_that_holds_a_demo_is_refused_with_the_option_that_goes_on(tmp_path: Path, recipe: Path) -> None:
    RunFolder.create(tmp_path / "demo", config=load_config(recipe), job="demo").close()
    with pytest.raises(RunFolderError, match="--resume"):
        demo(tmp_path / "demo", recipe, Notes())


@pytest.mark.parametrize("demo_world", DEMOS.values(), ids=list(DEMOS))
def test_the_recipes_that_ship_train_tune_and_test_on_different_tasks(demo_world: DemoWorld) -> None:
    config = load_config(demo_world.recipe)
    splits = (config.tasks.train.split, config.tasks.eval.split, demo_world.held_out)
    assert len(set(splits)) == 3
    assert set(demo_world.split_names) == {config.tasks.train.split, demo_world.held_out}
    assert config.tasks.train.names == config.tasks.eval.names
    assert config.env.world == demo_world.world


def test_a_world_without_a_demo_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RequestError, match="Did you mean 'alfworld'"):
        find_demo("alfword")


def test_the_demo_of_alfworld_goes_through_all_stages_on_generated_games(tmp_path: Path) -> None:
    """The shipped recipe and base model, with few tasks and steps; no package, no Java, no file is needed."""
    few = ("tasks.train.limit=1", "tasks.eval.limit=1", "env.workers=0", "synth.num_envs=[2]", "train.steps=1")
    small = ("train.tasks_per_step=1", "train.group_size=2", "train.save_every=1", "train.eval_every=0")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(config_yaml(load_config(ALFWORLD.recipe, [*few, *small])), encoding="utf-8")
    out = tmp_path / "demo"
    result = run_demo(out, seed=1, resume=False, progress=Notes(), world="alfworld", recipe=recipe)
    rows = result.summary.table
    assert {row.split for row in rows} == {"held-out games (generated_test)", "training games"}
    assert [level.label for level in result.summary.references] == ["random search (the teacher), training games, K = 2"]
    lines = list(RunFolder.open(out).read_episodes(problems=[]))
    assert {line.episode.task.split for line in lines if line.stage in ("synth", "rl")} == {"generated_train"}
    assert {row.stage for row in rows} <= {line.stage for line in lines}


def test_the_table_has_a_column_per_policy_and_names_lost_episodes() -> None:
    def row(label: str, successes: int, **changes: object) -> ResultRow:
        common = {"split": "test", "num_envs": 4, "temperature": 0.0, "n": 10}
        return ResultRow.model_validate({**common, "label": label, "successes": successes, **changes})

    table = format_table((row("before", 2), row("before", 1, num_envs=1), row("after", 9, lost=3)))
    assert table[0].split()[-2:] == ["before", "after"]
    assert len(table) == 3 and len({line.find("before") for line in table[:1]}) == 1
    assert "0.200" in table[1] and "0.900" in table[1] and "n=10, 3 lost" in table[1]
    assert "K = 1" in table[2] and table[2].rstrip().endswith("n=10")
