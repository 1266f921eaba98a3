"""What a run folder says of itself, whole or damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpepo.config import Config
from dpepo.runs.rundir import RunFolder
from dpepo.runs.state import read_state


def started(path: Path) -> RunFolder:
    return RunFolder.create(path, config=Config(), job="train")


def test_a_job_is_running_while_it_holds_its_folder_and_not_finished_after_a_kill(tmp_path: Path) -> None:
    run = started(tmp_path)
    assert read_state(tmp_path).state == "running"
    run.close()
    assert read_state(tmp_path).state == "not finished"
    assert read_state(tmp_path).job == "train"


def test_asking_for_the_state_takes_no_lock(tmp_path: Path) -> None:
    started(tmp_path).close()
    read_state(tmp_path)
    RunFolder.create(tmp_path, config=Config(run={"resume": True}), job="train").close()


def test_finished_failed_and_interrupted_jobs_are_told_apart(tmp_path: Path) -> None:
    endings: dict[str, Callable[[RunFolder], None]] = {
        "finished": lambda run: run.finish({"success_rate": 0.5}),
        "failed": lambda run: run.record(failed="All episodes were lost."),
        "interrupted": lambda run: run.record(interrupted=True),
    }
    for state, end in endings.items():
        run = started(tmp_path / state)
        end(run)
        run.close()
        assert read_state(tmp_path / state).state == state
    assert read_state(tmp_path / "finished").success == 0.5
    assert read_state(tmp_path / "failed").error == "All episodes were lost."


def test_a_job_that_is_still_going_has_the_success_of_its_newest_row(tmp_path: Path) -> None:
    run = started(tmp_path)
    run.metrics.log("rl", 1, {"episode/success_rate": 0.25})
    run.metrics.log("rl", 2, {"episode/success_rate": 0.75})
    run.metrics.log("rl", 3, {"train/seconds": 1.0})
    assert (read_state(tmp_path).success, read_state(tmp_path).success_of) == (0.75, "rl, step 2")
    run.close()


def test_a_success_rate_that_is_none_is_not_shown(tmp_path: Path) -> None:
    for value in (None, "many", 7.0, True, [1]):
        content: dict[str, Any] = {"format": 1, "job": "eval", "sessions": [{"result": {"success_rate": value}}]}
        (tmp_path / "run.json").write_text(json.dumps(content))
        assert read_state(tmp_path).success is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"job": "x"}', '{"job": "x", "sessions": [3]}', "\x00", '{"job": "x", "sessions": {}}']
)
def test_damage_is_a_notice_not_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert len(read_state(tmp_path).notices) == 1


def test_a_folder_without_a_run_file_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path).state == "unknown"
    assert read_state(tmp_path).notices == ()
