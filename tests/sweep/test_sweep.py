"""Sweeps from file to table: small ones, run for real."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.toy_jobs import SETTINGS, Killed, KilledAt, Notes, same_weights, write_model

from dpepo.errors import ConfigError, RunFolderError
from dpepo.recipes import config_yaml, load_config
from dpepo.runs import RunFolder
from dpepo.runs.stats import t_interval
from dpepo.sweep.plan import Plan, plan_sweep
from dpepo.sweep.results import as_markdown, as_text, collect, write_results
from dpepo.sweep.runner import run_in_processes, run_units
from dpepo.sweep.spec import load_sweep

TOY = Path(__file__).parents[2] / "recipes" / "toy" / "sweep.yaml"
TRAINED = """
recipe: recipe.yaml
settings: [train.steps=1, train.tasks_per_step=1, tasks.train.limit=1, tasks.eval.limit=2, eval.temperature=1]
seeds: [0, 1]
cold_starts: {shared: [synth.teacher=random, synth.keep=all]}
baseline: full
variants:
  - {name: sft, label: "cold start", train: false}
  - {name: full}
  - {name: none, label: without both, settings: [step_reward.action=false, step_reward.transitions=false]}
evaluate:
  - {name: as-trained, settings: ["eval.num_envs=${env.num_envs}"]}
  - {name: two, settings: [eval.num_envs=2]}
  - {name: one, settings: [eval.num_envs=1, eval.episodes_per_task=2], tries: [1, 2]}
"""
CHOICE = """
recipe: {recipe}
settings: [tasks.eval.limit=2]
seeds: [0, 1, 2]
baseline: random
variants:
  - {{name: random, train: false, settings: [eval.policy=random]}}
  - {{name: oracle, train: false, settings: [eval.policy=oracle]}}
evaluate: [{{name: dev}}]
"""


def trained_sweep(folder: Path) -> Path:
    """A sweep with cold start and training, on an untrained model."""
    model = write_model(folder / "model")
    config = load_config(None, [*SETTINGS, f"model.path={model}", "sampling.max_new_tokens=12"])
    (folder / "recipe.yaml").write_text(config_yaml(config), encoding="utf-8")
    (folder / "sweep.yaml").write_text(TRAINED, encoding="utf-8")
    return folder / "sweep.yaml"


def choice_sweep(folder: Path) -> Path:
    """Random against oracle: no model, a second or two."""
    (folder / "sweep.yaml").write_text(CHOICE.format(recipe=TOY.parent / "dpepo.yaml"), encoding="utf-8")
    return folder / "sweep.yaml"


def play(plan: Plan, progress: Notes | None = None) -> list[str]:
    """Run a plan in this process; the ids of the units that are finished."""
    done: list[str] = []
    assert run_units(plan, progress=progress or Notes(), on_unit=lambda unit: done.append(unit.id)) == []
    return done


def test_a_sweep_goes_from_cold_start_to_table(tmp_path: Path) -> None:
    plan = plan_sweep(load_sweep(trained_sweep(tmp_path)), out=tmp_path / "out")
    done = play(plan)
    assert done == [f"seed-{seed}/{name}" for seed in (0, 1) for name in ("cold-shared", "sft", "full", "none")]
    results = collect(plan, done)
    write_results(results, plan.out)
    assert results.missing == ()
    assert [(one.variant, one.evaluation, one.tries) for one in results.results][:4] == [
        ("sft", "as-trained", 1), ("sft", "two", 1), ("sft", "one", 1), ("sft", "one", 2)
    ]  # fmt: skip
    assert set(results.minutes) == {"full", "none"}
    trained = RunFolder.open(plan.out / "seed-1" / "full" / "train")
    assert trained.config.model.path == str(plan.out.absolute() / "seed-1" / "cold-shared" / "sft")
    for row in csv.DictReader((plan.out / "results.csv").read_text(encoding="utf-8").splitlines()):
        mean, half_width, n = t_interval([float(row["seed_0"]), float(row["seed_1"])])
        assert (float(row["mean"]), float(row["half_width"]), int(row["n"])) == (mean, half_width, n)
    assert json.loads((plan.out / "results.json").read_text())["baseline"] == "full"
    assert "| cold start |" in as_markdown(results) and "minus full" in as_text(results)


def test_evaluations_that_play_the_same_are_played_once(tmp_path: Path) -> None:
    """K as trained is 2 here, so that "as-trained" and "two" are one evaluation."""
    plan = plan_sweep(load_sweep(trained_sweep(tmp_path)), out=tmp_path / "out")
    [unit] = [unit for unit in plan.units if unit.id == "seed-0/full"]
    assert [run.folder.name for run in unit.runs] == ["train", "eval-as-trained", "eval-one"]
    assert unit.evaluations["two"] == unit.evaluations["as-trained"]


@pytest.mark.slow
def test_a_killed_sweep_goes_on_to_the_same_weights_and_repeats_nothing(tmp_path: Path) -> None:
    file = trained_sweep(tmp_path)
    whole, cut = (plan_sweep(load_sweep(file), out=tmp_path / name) for name in ("whole", "cut"))
    progress = Notes()
    play(whole, progress)
    with pytest.raises(Killed):
        play(cut, KilledAt(progress.advanced * 0.6))
    before = {run.folder for unit in cut.units for run in unit.runs if run.finished}
    sessions = {folder: len(RunFolder.open(folder).sessions) for folder in before}
    assert 0 < len(before) < sum(len(unit.runs) for unit in cut.units)
    play(cut)
    assert {folder: len(RunFolder.open(folder).sessions) for folder in before} == sessions
    for name in ("seed-0/full/train", "seed-1/none/train"):
        last = Path("checkpoints") / "step-0001"
        assert same_weights(whole.out / name / last, cut.out / name / last)


def test_a_unit_that_fails_is_named_and_costs_only_what_needs_it(tmp_path: Path) -> None:
    file = trained_sweep(tmp_path)
    file.write_text(TRAINED.replace("synth.teacher=random", "synth.teacher=nobody:Nothing"), encoding="utf-8")
    plan = plan_sweep(load_sweep(file), out=tmp_path / "out", only=["seed-0/*"])
    done: list[str] = []
    failures = run_units(plan, progress=Notes(), on_unit=lambda unit: done.append(unit.id))
    assert done == []
    assert failures[0].unit == "seed-0/cold-shared" and "nobody" in failures[0].reason
    assert [failure.reason for failure in failures[1:]] == ["it needs seed-0/cold-shared, which failed"] * 3


def test_a_sweep_folder_of_other_settings_is_not_taken_for_finished(tmp_path: Path) -> None:
    file = choice_sweep(tmp_path)
    play(plan_sweep(load_sweep(file), out=tmp_path / "out", only=["seed-0/oracle"]))
    changed = plan_sweep(load_sweep(file, ["rollout.max_turns=2"]), out=tmp_path / "out")
    [unit] = [unit for unit in changed.units if unit.id == "seed-0/oracle"]
    with pytest.raises(RunFolderError, match=r"rollout\.max_turns was 6, is 2"):
        _ = unit.finished


def test_only_some_runs_can_be_chosen_and_what_they_need_comes_along(tmp_path: Path) -> None:
    sweep = load_sweep(trained_sweep(tmp_path))
    assert plan_sweep(sweep, out=tmp_path / "o", only=["*/none"]).selected == (
        "seed-0/cold-shared", "seed-0/none", "seed-1/cold-shared", "seed-1/none"
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"--only seed-0/ful: .*Did you mean 'seed-0/full'"):
        plan_sweep(sweep, out=tmp_path / "o", only=["seed-0/ful"])


def test_differences_are_taken_seed_by_seed(tmp_path: Path) -> None:
    plan = plan_sweep(load_sweep(choice_sweep(tmp_path)), out=tmp_path / "out")
    results = collect(plan, play(plan))
    base, oracle = results.results
    assert oracle.mean == 1.0 and base.minus_baseline is None
    over = t_interval([oracle.by_seed[seed] - base.by_seed[seed] for seed in (0, 1, 2)])
    assert oracle.minus_baseline == (over.mean, over.half_width)


@pytest.mark.slow
def test_runs_in_processes_of_their_own_bring_the_same_results(tmp_path: Path) -> None:
    file = choice_sweep(tmp_path)
    here, apart = (plan_sweep(load_sweep(file), out=tmp_path / name) for name in ("here", "apart"))
    done: list[str] = []
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "sweep.yaml").write_text(file.read_text())  # as the command does before it starts others
    command = [sys.executable, "-m", "dpepo", "sweep", str(file), "--out", str(tmp_path / "apart"), "--resume"]
    failures = run_in_processes(apart, jobs=2, command=command, progress=Notes(), on_unit=lambda unit: done.append(unit.id))
    assert failures == [] and sorted(done) == sorted(unit.id for unit in apart.units)
    assert collect(apart, done).results == collect(here, play(here)).results
    assert "evaluate" in (tmp_path / "apart" / "seed-0" / "oracle" / "log.txt").read_text()


@pytest.mark.slow
def test_a_process_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    plan = plan_sweep(load_sweep(choice_sweep(tmp_path)), out=tmp_path / "out", only=["seed-0/random"])
    command = [sys.executable, "-c", "import sys; sys.exit(3)"]
    [failure] = run_in_processes(plan, jobs=1, command=command, progress=Notes(), on_unit=lambda unit: None)
    assert failure.unit == "seed-0/random" and "exit code 3" in failure.reason and "log.txt" in failure.reason


def test_the_runner_needs_no_torch_where_nothing_is_trained() -> None:
    code = "import sys, dpepo.sweep.runner, dpepo.sweep.results; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
