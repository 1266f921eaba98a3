"""The whole way on the toy world through the real command line: demonstrations, fine-tuning, RL, evaluation, page."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.toy_jobs import ONE_TASK, SETTINGS, ColdStart, same_weights, write_model
from typer.testing import CliRunner, Result

from dpepo.cli import app
from dpepo.runs.rundir import RunFolder


@pytest.fixture
def dpepo(tmp_path: Path) -> Callable[..., Result]:
    """Run a command on a run folder of its own; further words win."""

    def run(job: str, *words: str, folder: str = "") -> Result:
        place = f"run.dir={tmp_path / (folder or job)}"
        return CliRunner().invoke(app, [job, *SETTINGS, *ONE_TASK, place, *words])

    return run


def good(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def test_every_command_takes_up_what_the_one_before_left(tmp_path: Path, dpepo: Callable[..., Result]) -> None:
    model = write_model(tmp_path / "model")
    good(dpepo("synth", "synth.teacher=random", "synth.keep=all", "synth.episodes_per_task=8"))
    good(dpepo("sft", f"model.path={model}", f"sft.demonstrations={tmp_path / 'synth'}", "sft.epochs=2"))
    tuned = tmp_path / "sft" / "checkpoints" / "latest" / "model"
    output = good(dpepo("train", f"model.path={tuned}", "train.steps=2", "train.eval_every=2", "tasks.eval.limit=2"))
    assert "sampling: temperature 1.0" in output
    trained = tmp_path / "train" / "checkpoints" / "latest" / "model"
    output = good(dpepo("eval", f"model.path={trained}", "tasks.eval.limit=3"))
    assert "of 3 finished episodes; 0 lost of 3 played" in output
    for job in ("synth", "sft", "train", "eval"):
        folder = tmp_path / job
        assert {"config.yaml", "run.json", "metrics.jsonl"} <= {path.name for path in folder.iterdir()}
        [session] = RunFolder.open(folder).sessions
        assert session["finished"] and session["result"]
    assert _episode_files(tmp_path / "synth") == {"synth-0002.jsonl"}
    assert _episode_files(tmp_path / "train") == {"rl-0001.jsonl", "rl-0002.jsonl", "val-0000.jsonl", "val-0002.jsonl"}
    assert _episode_files(tmp_path / "eval") == {"eval-0000.jsonl"}
    for job in ("synth", "train", "eval"):
        viewed = CliRunner().invoke(app, ["view", str(tmp_path / job)])
        assert viewed.exit_code == 0, viewed.output
        [page] = (tmp_path / job).glob("*.html")
        assert "toy/room/" in page.read_text(encoding="utf-8")


def _episode_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "episodes").iterdir()}


def test_finished_jobs_that_are_resumed_do_nothing_and_exit_with_zero(
    tmp_path: Path, dpepo: Callable[..., Result], cold_start: ColdStart
) -> None:
    jobs = {
        "synth": ("tasks.train.limit=2",),
        "sft": (f"model.path={cold_start.untrained}", f"sft.demonstrations={cold_start.demonstrations}"),
        "train": (f"model.path={cold_start.model}", "train.steps=1"),
        "eval": ("eval.policy=random",),
    }
    for job, words in jobs.items():
        good(dpepo(job, *words))
        before = (tmp_path / job / "metrics.jsonl").read_text(encoding="utf-8").count("\n")
        again = dpepo(job, *words)
        assert again.exit_code == 2 and "run.resume=true" in again.output  # not by accident
        good(dpepo(job, *words, "--resume"))
        after = (tmp_path / job / "metrics.jsonl").read_text(encoding="utf-8").count("\n")
        assert after - before == (1 if job == "eval" else 0)  # an evaluation says its result again
        first, second = RunFolder.open(tmp_path / job).sessions
        assert second["result"] == first["result"]


def test_broken_environments_end_every_job_with_code_one(
    tmp_path: Path, dpepo: Callable[..., Result], cold_start: ColdStart
) -> None:
    """E18."""
    broken = "env.options.fail_at=0"
    model = f"model.path={cold_start.model}"
    for job, words in {"synth": (), "train": (model,), "eval": ("eval.policy=random",)}.items():
        result = dpepo(job, broken, *words)
        assert result.exit_code == 1, result.output
        assert "lost" in result.output and "Traceback" not in result.output
        assert "lost" in json.loads((tmp_path / job / "run.json").read_text(encoding="utf-8"))["sessions"][-1]["failed"]


def test_an_interrupted_training_is_resumed_by_the_command_it_names(
    tmp_path: Path, dpepo: Callable[..., Result], cold_start: ColdStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpepo.training import rl

    words = (f"model.path={cold_start.model}", "train.steps=3", "train.save_every=1")
    real = rl.train_step

    def step_until_ctrl_c(session: rl.Session, step: int) -> dict[str, float]:
        if step == 2:
            raise KeyboardInterrupt
        return real(session, step)

    monkeypatch.setattr(rl, "train_step", step_until_ctrl_c)
    stopped = dpepo("train", *words)
    assert stopped.exit_code == 130 and "--resume" in stopped.output
    monkeypatch.setattr(rl, "train_step", real)
    good(dpepo("train", *words, "--resume"))
    assert [row.step for row in RunFolder.open(tmp_path / "train").read_metrics().rows] == [1, 2, 3]


@pytest.mark.slow
def test_a_training_process_that_is_killed_goes_on_to_the_same_weights(
    tmp_path: Path, dpepo: Callable[..., Result], cold_start: ColdStart
) -> None:
    """A real process with a worker of its own, killed outright after its second checkpoint."""
    words = [f"model.path={cold_start.model}", "train.steps=6", "train.save_every=1", "train.keep_last=10"]
    good(dpepo("train", *words, folder="whole"))
    command = [sys.executable, "-m", "dpepo", "train", *SETTINGS, *ONE_TASK, f"run.dir={tmp_path / 'cut'}", *words]
    process = subprocess.Popen([*command, "env.workers=1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        stop = time.monotonic() + 120
        while not (tmp_path / "cut" / "checkpoints" / "step-0002").is_dir():
            assert process.poll() is None and time.monotonic() < stop
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    left = RunFolder.open(tmp_path / "cut").latest_checkpoint().checkpoint
    assert left is not None and 2 <= left.step < 6
    good(dpepo("train", *words, "--resume", folder="cut"))
    name = Path("checkpoints") / "step-0006"
    assert same_weights(tmp_path / "whole" / name, tmp_path / "cut" / name)
