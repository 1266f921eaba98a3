"""``dpepo play`` through its own command line, fed by a pipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.toy_jobs import Notes

from dpepo.envs.toy import ToyWorld
from dpepo.runs.rundir import RunFolder
from dpepo.training.demonstrations import load_demonstrations


def play(*arguments: str, lines: list[str], columns: int = 100) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dpepo", "play", *arguments],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        env={"COLUMNS": str(columns), "PATH": "/usr/bin:/bin", "TERM": "xterm"},
    )
    return done.returncode, done.stdout + done.stderr


def solution(task: str) -> list[str]:
    plan = ToyWorld().expert(task)
    assert plan is not None
    return plan


def test_a_person_solves_a_task_and_keeps_it_as_a_demonstration_that_sft_reads(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    lines = ["/think I look at both.", "all: look", *(f"2: {action}" for action in solution("toy/house/3")), f"/save {folder}"]
    code, shown = play("toy/house/3", "--num-envs", "2", lines=lines)
    assert code == 0 and "Solved" in shown and "Task: " in shown
    [episode] = load_demonstrations(str(folder), progress=Notes())
    assert episode.success and episode.turns[0].reply.thought == "I look at both."
    assert {step.env_id for step in episode.turns[0].steps} == {1, 2}
    assert RunFolder.open(folder).job == "synth"


def test_an_undone_turn_is_not_in_the_demonstration(tmp_path: Path) -> None:
    task = "toy/room/0"
    plan = solution(task)
    code, shown = play(task, "--save", str(tmp_path / "r"), lines=["1: look", "/undo", *(f"1: {action}" for action in plan)])
    assert code == 0 and "taken back" in shown
    [episode] = load_demonstrations(str(tmp_path / "r"), progress=Notes())
    assert [turn.steps[0].action for turn in episode.turns] == plan


def test_slips_of_the_finger_are_answered_and_the_game_goes_on() -> None:
    slips = ["9: look", "0: look", "1:", "/fly", "/undo", "1: </env_1>", "/actions 7", "", "dance", "/actions", "/prompt"]
    code, shown = play("toy/room/0", lines=[*slips, "/help", "look"])
    assert code == 0
    answers = ("no environment 9", "no environment 0", "An action is missing", "There is no /fly", "nothing to undo")
    for part in (*answers, "not understood"):
        assert part in shown, part
    assert "Environment 1:" in shown and "--- user" in shown and "Traceback" not in shown


def test_wide_terminals_show_lanes_side_by_side_and_narrow_ones_below_each_other() -> None:
    _, wide = play("toy/room/0", "--num-envs", "2", lines=[], columns=120)
    _, narrow = play("toy/room/0", "--num-envs", "2", lines=[], columns=60)
    both = [line for line in wide.splitlines() if "Environment 1" in line and "Environment 2" in line]
    assert len(both) == 1
    assert not [line for line in narrow.splitlines() if "Environment 1" in line and "Environment 2" in line]


def test_a_task_that_does_not_exist_is_a_wrong_request() -> None:
    code, shown = play("toy/roam/0", lines=[])
    assert code == 2 and "room" in shown


@pytest.mark.slow
def test_scienceworld_is_played_in_two_copies() -> None:
    code, shown = play("scienceworld/boil/0", "--num-envs", "2", lines=["1: look around; 2: inventory", "/actions 2", "/undo"])
    assert code == 0 and "In your inventory" in shown and "Objects: " in shown and "taken back" in shown
