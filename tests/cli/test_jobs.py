"""A job's way from words to a run folder, and what happens when it ends in other ways than well."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from dpepo.cli import app, jobs
from dpepo.config import Config
from dpepo.errors import JobError, TaskError
from dpepo.runs import Progress, RunFolder


class Played(NamedTuple):
    """A job's result."""

    episodes: int


@pytest.fixture
def synth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run ``dpepo synth`` with the given function standing for the job."""

    def run(job: Callable[..., Any], *words: str) -> Result:
        module = types.ModuleType("stand_in_job")
        module.run = job  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "stand_in_job", module)
        monkeypatch.setitem(jobs.JOBS, "synth", "stand_in_job:run")
        return CliRunner().invoke(app, ["synth", f"run.dir={tmp_path / 'r'}", *words])

    return run


def play(config: Config, *, run: RunFolder, progress: Progress) -> Played:
    progress.start("play", total=2, unit="episodes")
    for _ in range(2):
        progress.advance(success=0.5)
    run.metrics.log("synth", 0, {"kept": 2})
    return Played(episodes=2)


def last_session(tmp_path: Path) -> dict[str, Any]:
    return RunFolder.open(tmp_path / "r").sessions[-1]


def test_a_finished_job_leaves_its_result_and_says_where_it_is(tmp_path: Path, synth: Callable[..., Result]) -> None:
    result = synth(play)
    assert result.exit_code == 0, result.output
    assert last_session(tmp_path)["result"] == {"episodes": 2}
    assert f"dpepo view {tmp_path / 'r'}" in result.stdout
    assert "play: 2 of 2 episodes, success 0.5" in result.stderr


def test_a_job_that_fails_on_purpose_is_one_sentence_and_code_one(tmp_path: Path, synth: Callable[..., Result]) -> None:
    def fail(config: Config, *, run: RunFolder, progress: Progress) -> None:
        raise JobError("No demonstration succeeded.")

    result = synth(fail)
    assert (result.exit_code, result.stderr) == (1, "No demonstration succeeded.\n")
    assert last_session(tmp_path)["failed"] == "No demonstration succeeded."
    assert not (tmp_path / "r" / "error.txt").exists()


def test_an_unexpected_failure_is_one_sentence_with_its_traceback_in_the_folder(
    tmp_path: Path, synth: Callable[..., Result]
) -> None:
    def break_down(config: Config, *, run: RunFolder, progress: Progress) -> None:
        raise KeyError("weights")

    result = synth(break_down)
    assert result.exit_code == 1
    assert "Unexpected KeyError: 'weights'" in result.stderr
    assert "Traceback" not in result.stderr
    assert "break_down" in (tmp_path / "r" / "error.txt").read_text()
    assert isinstance(synth(break_down, "--resume", "--debug").exception, KeyError)


def test_a_request_found_wrong_late_leaves_its_folder_free(tmp_path: Path, synth: Callable[..., Result]) -> None:
    def refuse(config: Config, *, run: RunFolder, progress: Progress) -> None:
        raise TaskError("There are no gold actions for toy/room/1.")

    result = synth(refuse)
    assert (result.exit_code, result.stderr) == (2, "There are no gold actions for toy/room/1.\n")
    assert not (tmp_path / "r").exists()
    assert synth(play).exit_code == 0
    assert synth(refuse, "--resume").exit_code == 2
    assert last_session(tmp_path)["failed"].startswith("There are no gold")
    assert len(RunFolder.open(tmp_path / "r").read_metrics().rows) == 1


def test_a_full_disk_is_said_in_words(synth: Callable[..., Result]) -> None:
    def fill(config: Config, *, run: RunFolder, progress: Progress) -> None:
        raise OSError(28, "No space left on device", "model.bin")

    result = synth(fill)
    assert (result.exit_code, result.stderr) == (1, "The system refused: No space left on device: model.bin.\n")


def test_an_interrupted_job_says_how_to_go_on_and_that_works(tmp_path: Path, synth: Callable[..., Result]) -> None:
    def stop(config: Config, *, run: RunFolder, progress: Progress) -> None:
        raise KeyboardInterrupt

    result = synth(stop, "seed=3")
    assert result.exit_code == 130
    again = f"dpepo synth run.dir={tmp_path / 'r'} seed=3 --resume"
    assert again in result.stderr
    assert synth(play, "seed=3", "--resume").exit_code == 0
    assert len(RunFolder.open(tmp_path / "r").sessions) == 2


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_ends_a_job_with_code_130_and_a_resumable_folder(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "slow_job.py").write_text(
        "import time\n"
        "def run(config, *, run, progress):\n"
        "    run.metrics.log('synth', 1, {'kept': 1})\n"
        "    print('working', flush=True)\n"
        "    time.sleep(60)\n"
    )
    code = "import sys; from dpepo.cli import jobs, main; jobs.JOBS['synth'] = 'slow_job:run'; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, "synth", "run.dir=r"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(how)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Go on with: dpepo synth run.dir=r --resume" in errors
    assert "Traceback" not in errors
    assert json.loads((tmp_path / "r" / "run.json").read_text())["sessions"][0]["interrupted"] is True
    assert len(RunFolder.open(tmp_path / "r").read_metrics().rows) == 1
