"""Supervised fine-tuning as a job: it learns, uses every sample once per epoch, and goes on exactly where it stopped."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.toy_jobs import ColdStart, Killed, KilledAt, Notes, open_run, same_weights, toy_config, write_model

from dpepo.config import Config, ModelConfig, SftConfig
from dpepo.errors import ConfigError, JobError, TaskError
from dpepo.learning import Learner, supervised_config
from dpepo.policies import load_hf
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import run_synth
from dpepo.training.demonstrations import DemonstrationSet, hold_out, load_demonstrations, plan_epoch
from dpepo.training.sft import SftResult, plan_steps, run_sft


def sft_config(start: ColdStart, folder: Path, *settings: str) -> Config:
    """A job of about a dozen steps in two epochs."""
    return toy_config(
        folder,
        f"model.path={start.untrained}",
        f"sft.demonstrations={start.demonstrations}",
        "sft.batch_tokens=1600",
        "sft.epochs=2",
        "sft.save_every=2",
        *settings,
    )


def run_it(config: Config, progress: Notes | None = None) -> SftResult:
    run = open_run(config, "sft")
    try:
        return run_sft(config, run=run, progress=progress or Notes())
    finally:
        run.close()


def interrupted(config: Config, *, after: float) -> None:
    with pytest.raises(Killed):
        run_it(config, KilledAt(after))


def resumed(config: Config) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update={"resume": True})})


def test_the_loss_falls_on_toy_demonstrations(cold_start: ColdStart) -> None:
    rows = RunFolder.open(cold_start.run).read_metrics().rows
    losses = [float(row.values["sft/loss"] or 0) for row in rows]
    assert losses[0] > 4.0  # about the logarithm of the vocabulary: nothing is known
    assert cold_start.result.loss < 0.5
    assert [row.step for row in rows] == list(range(1, cold_start.result.steps + 1))
    assert (cold_start.model / "config.json").is_file()


def test_demonstrations_in_words_that_the_games_do_not_understand_are_flagged(cold_start: ColdStart, tmp_path: Path) -> None:
    """Case E01: "put X in/on Y" is what release 2.1.1 of ALFWorld understands; generated games say "move X to Y"."""
    file = tmp_path / "synth-0004.jsonl"
    recorded = next(iter(sorted(Path(cold_start.demonstrations, "episodes").glob("synth-*.jsonl")))).read_text()
    recorded = recorded.replace('"world":"toy"', '"world":"alfworld"')
    file.write_text(re.sub(r'"action":"take [^"]*"', '"action":"put mug 1 in/on desk 1"', recorded))
    notes = Notes()
    splits = ("tasks.train.split=generated_train", "tasks.eval.split=generated_dev")
    config = sft_config(cold_start, tmp_path / "run", f"sft.demonstrations={file}", "sft.epochs=1", *splits)
    alfworld = config.env.model_copy(update={"world": "alfworld", "options": {}})
    run_it(config.model_copy(update={"env": alfworld}), notes)
    (told,) = [note for note in notes.notes if "release 2.1.1" in note]
    assert "'put mug 1 in/on desk 1'" in told and "generated_train" in told


@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
def test_every_sample_is_used_once_per_epoch(batch_tokens: int) -> None:
    lengths = [random.Random(n).randint(5, 90) for n in range(37)]
    plan = plan_steps(lengths, config=SftConfig(epochs=3, batch_tokens=batch_tokens), seed=1)
    assert [step.number for step in plan] == list(range(1, len(plan) + 1))
    orders = [[index for step in plan if step.epoch == epoch for index in step.samples] for epoch in range(3)]
    assert all(sorted(order) == list(range(37)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert plan == plan_steps(lengths, config=SftConfig(epochs=3, batch_tokens=batch_tokens), seed=1)


def test_a_limit_of_tokens_ends_the_job_in_the_middle_of_an_epoch() -> None:
    lengths = [random.Random(n).randint(5, 90) for n in range(37)]
    whole = plan_steps(lengths, config=SftConfig(epochs=3, batch_tokens=200), seed=1)
    limit = int(1.5 * sum(lengths))
    plan = plan_steps(lengths, config=SftConfig(epochs=3, batch_tokens=200, max_tokens=limit), seed=1)
    used = [sum(lengths[index] for index in step.samples) for step in plan]
    assert plan == whole[: len(plan)]  # the order does not depend on the limit
    assert sum(used[:-1]) < limit <= sum(used)


def test_a_batch_stays_within_its_tokens_and_a_long_sample_is_alone() -> None:
    lengths = [30, 200, 30, 30, 30, 200]
    batches = plan_epoch(lengths, batch_tokens=100, rng=random.Random(3))
    assert all(len(batch) == 1 or sum(lengths[index] for index in batch) <= 100 for batch in batches)


def test_a_resumed_job_ends_with_the_weights_of_one_that_never_stopped(cold_start: ColdStart, tmp_path: Path) -> None:
    """Killed while step 5 was done but not saved: step 5 is done again."""
    whole = run_it(sft_config(cold_start, tmp_path / "whole"))
    config = sft_config(cold_start, tmp_path / "cut")
    interrupted(config, after=5)
    assert RunFolder.open(tmp_path / "cut").latest_checkpoint().checkpoint.step == 4  # type: ignore[union-attr]
    again = run_it(resumed(config))
    assert again.steps == whole.steps
    assert same_weights(whole.checkpoint, again.checkpoint)
    assert again.loss == whole.loss


def test_dropout_does_not_make_a_resumed_job_differ(cold_start: ColdStart, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", attention_dropout=0.2)
    settings = (f"model.path={model}", "sft.epochs=1")
    whole = run_it(sft_config(cold_start, tmp_path / "whole", *settings))
    torch.rand(7)  # a new process starts with other random numbers
    config = sft_config(cold_start, tmp_path / "cut", *settings)
    interrupted(config, after=3)
    assert same_weights(whole.checkpoint, run_it(resumed(config)).checkpoint)


def test_a_resume_at_the_end_of_an_epoch_goes_on_with_the_next(cold_start: ColdStart, tmp_path: Path) -> None:
    """C01: the checkpoint falls on the last step of the first epoch; the steps of the second are done."""
    whole = run_it(sft_config(cold_start, tmp_path / "whole"))
    per_epoch = [row.values["sft/epoch"] for row in RunFolder.open(tmp_path / "whole").read_metrics().rows].count(0)
    config = sft_config(cold_start, tmp_path / "cut", f"sft.save_every={per_epoch}")
    interrupted(config, after=per_epoch + 1)
    assert RunFolder.open(tmp_path / "cut").latest_checkpoint().checkpoint.step == per_epoch  # type: ignore[union-attr]
    notes = Notes()
    again = run_it(resumed(config), notes)
    assert notes.advanced == again.steps == whole.steps > per_epoch
    assert same_weights(whole.checkpoint, again.checkpoint)


def test_a_finished_job_that_is_resumed_does_nothing(cold_start: ColdStart, tmp_path: Path) -> None:
    config = sft_config(cold_start, tmp_path / "run")
    first = run_it(config)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "run.json"}
    assert run_it(resumed(config)) == first
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file() and path.name != "run.json"}
    assert before == after


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(cold_start: ColdStart, tmp_path: Path) -> None:
    """C03: half of the newest weights is missing."""
    whole = run_it(sft_config(cold_start, tmp_path / "whole"))
    config = sft_config(cold_start, tmp_path / "cut")
    interrupted(config, after=5)
    file = tmp_path / "cut" / "checkpoints" / "step-0004" / "model" / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    notes = Notes()
    again = run_it(resumed(config), notes)
    assert any("step-0004" in note for note in notes.notes)
    assert same_weights(whole.checkpoint, again.checkpoint)


def test_the_last_step_is_saved_whatever_save_every_says(cold_start: ColdStart, tmp_path: Path) -> None:
    """C05."""
    result = run_it(sft_config(cold_start, tmp_path / "run", "sft.save_every=1000", "sft.epochs=1"))
    assert result.checkpoint.endswith(f"step-{result.steps:04d}")


def test_samples_longer_than_the_context_are_left_out_and_counted(cold_start: ColdStart, tmp_path: Path) -> None:
    """Case T03: the job says how many, and fails where none is left."""
    everything = sft_config(cold_start, tmp_path / "unused")
    episodes = load_demonstrations(everything.sft.demonstrations, progress=Notes())
    lengths = DemonstrationSet(episodes, tokenizer=load_hf(everything.model)[1], max_length=1000).lengths
    middle = sorted(lengths)[len(lengths) // 2]
    notes = Notes()
    short = ("sft.epochs=1", "sampling.max_new_tokens=4")
    result = run_it(sft_config(cold_start, tmp_path / "run", f"model.max_length={middle}", *short), notes)
    assert result.dropped == sum(length > middle for length in lengths) > 0
    assert result.samples == len(lengths) - result.dropped > 0
    assert any(note.startswith(f"{result.dropped} samples are longer") for note in notes.notes)
    with pytest.raises(TaskError, match=r"model\.max_length"):
        run_it(sft_config(cold_start, tmp_path / "none", "model.max_length=16", *short))


def test_a_job_in_which_no_step_was_finite_fails(cold_start: ColdStart, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    tensors = load_file(model / "model.safetensors")
    tensors["model.norm.weight"] = torch.full_like(tensors["model.norm.weight"], float("nan"))
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    settings = (f"model.path={model}", "sft.epochs=1", "sft.batch_tokens=100000")
    with pytest.raises(JobError, match=r"sft\.lr"):
        run_it(sft_config(cold_start, tmp_path / "run", *settings))


@pytest.fixture(scope="module")
def many_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Demonstrations of several tasks."""
    folder = tmp_path_factory.mktemp("many") / "synth"
    config = toy_config(folder, "synth.teacher=oracle", "tasks.train.limit=6", "rollout.max_turns=4")
    run = open_run(config, "synth")
    run_synth(config, run=run, progress=Notes())
    run.close()
    return folder


def test_tasks_held_out_are_never_learnt_from_and_their_loss_is_taken_after_each_epoch(
    cold_start: ColdStart, many_tasks: Path, tmp_path: Path
) -> None:
    episodes = load_demonstrations(str(many_tasks), progress=Notes())
    learn, held = hold_out(episodes, share=0.3, seed=0)
    assert len({one.task.id for one in held}) == round(0.3 * 6)
    assert not {one.task.id for one in learn} & {one.task.id for one in held}
    assert hold_out(episodes, share=0.3, seed=0) == (learn, held)
    assert any(hold_out(episodes, share=0.3, seed=seed)[1] != held for seed in range(1, 5))
    assert hold_out(episodes, share=0.0, seed=0) == (episodes, [])
    with pytest.raises(ConfigError, match="two tasks"):
        hold_out(held[:1], share=0.3, seed=0)
    settings = ("sft.epochs=3", "sft.val_share=0.3", "sft.save_every=50", "sft.batch_tokens=500")
    result = run_it(sft_config(cold_start, tmp_path / "run", f"sft.demonstrations={many_tasks}", *settings))
    rows = RunFolder.open(tmp_path / "run").read_metrics().rows
    losses = {row.step: float(row.values["val/loss"] or 0) for row in rows if "val/loss" in row.values}
    assert list(losses) == [result.steps // 3, 2 * result.steps // 3, result.steps]
    assert losses[result.steps] < losses[result.steps // 3]
    model, tokenizer = load_hf(ModelConfig(path=str(tmp_path / "run"), device="cpu"))
    unseen = DemonstrationSet(held, tokenizer=tokenizer, max_length=256)
    samples = [unseen.sample(index, seed="") for index in range(len(unseen))]
    learner = Learner(model, config=supervised_config(SftConfig(), micro_tokens=100))
    assert learner.supervised_loss(samples) == pytest.approx(losses[result.steps], rel=1e-5)
    best = min(losses, key=lambda step: losses[step])
    assert (tmp_path / "run" / "checkpoints" / "best").resolve().name == f"step-{best:04d}"


def test_success_is_measured_between_epochs_and_the_best_is_kept(cold_start: ColdStart, tmp_path: Path) -> None:
    settings = ("sft.epochs=3", "sft.eval_every=2", "tasks.eval.limit=3", "sft.save_every=50", "sampling.max_new_tokens=4")
    config = sft_config(cold_start, tmp_path / "run", *settings)
    result = run_it(config)
    folder = RunFolder.open(tmp_path / "run")
    played = {row.step: row.values["val/n"] for row in folder.read_metrics().rows if "val/n" in row.values}
    assert played == {2 * result.steps // 3: 3, result.steps: 3}
    assert {line.step for line in folder.read_episodes(stage="sft-val", problems=[])} == set(played)
    assert (tmp_path / "run" / "checkpoints" / "best").exists()
    plain = run_it(sft_config(cold_start, tmp_path / "plain", "sft.epochs=3", "sft.save_every=50"))
    assert same_weights(plain.checkpoint, result.checkpoint)  # looking changes nothing


def test_a_resume_on_other_demonstrations_is_refused(cold_start: ColdStart, many_tasks: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(many_tasks, tmp_path / "synth")
    config = sft_config(cold_start, tmp_path / "cut", f"sft.demonstrations={copied}", "sft.batch_tokens=300")
    interrupted(config, after=3)
    [file] = (copied / "episodes").glob("synth-*.jsonl")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ConfigError, match=r"no longer holds what this run began with"):
        run_it(resumed(config))
