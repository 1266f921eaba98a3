"""``dpepo play`` through its own command line, fed by a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.toy_jobs import Notes

from dpepo.cli import main
from dpepo.envs.toy import ToyWorld
from dpepo.runs.rundir import RunFolder
from dpepo.training.demonstrations import load_demonstrations

SRC = Path(__file__).parents[2] / "src"
EVIL = """
from dpepo.envs import TextEnv, World
from dpepo.types import Observation, Task, WorldGuide

BAD = "[bold]\\x1b[2J\\x07 \\x9b31m \\u202e over\\rwritten"


class Evil(TextEnv):
    goal = BAD

    def reset(self):
        return Observation(text=BAD, admissible_actions=(BAD,), objects=(BAD,))

    def step(self, action):
        return Observation(text=BAD, ended=True, failure=BAD)


class EvilWorld(World):
    name = "evil"
    guide = WorldGuide(role="You are in trouble.")

    def make(self, task_id):
        return Evil()

    def tasks(self, split):
        return [Task(id="evil/only", world="evil", name="only", split=split)]
"""


def play(*arguments: str, lines: list[str], columns: int = 100, path: Path = SRC) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dpepo", "play", *arguments],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={"COLUMNS": str(columns), "PATH": "/usr/bin:/bin", "TERM": "xterm", "PYTHONPATH": str(path)},
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


def test_sft_learns_from_what_was_played(tmp_path: Path) -> None:
    """Two sessions in one folder, then the command that learns from it."""
    torch = pytest.importorskip("torch")
    from tests.support.toy_jobs import SETTINGS, write_model

    torch.set_num_threads(1)
    folder = tmp_path / "played"
    compact = ("env.options.observation=compact", "prompt.templates=compact")
    for task in ("toy/room/0", "toy/room/1"):
        code, shown = play(task, *compact, "--save", str(folder), lines=[f"2: {action}" for action in solution(task)])
        assert code == 0 and "Kept a solved episode" in shown, shown
    assert [episode.task.id for episode in load_demonstrations(str(folder), progress=Notes())] == ["toy/room/0", "toy/room/1"]
    model = write_model(tmp_path / "model")
    settings = [f"model.path={model}", f"sft.demonstrations={folder}", "sft.epochs=1", f"run.dir={tmp_path / 'sft'}"]
    assert main(["sft", *SETTINGS, *settings]) == 0
    assert (tmp_path / "sft" / "checkpoints" / "latest").exists()


def test_an_episode_kept_twice_is_there_once_and_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    mine, foreign = tmp_path / "mine", tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x")
    lines = ["look", f"/save {mine}", "2: look", f"/save {mine}", "/undo", f"/save {foreign}", "/save"]
    code, shown = play("toy/room/0", "--save", str(mine), lines=lines)
    assert code == 0 and "holds no run" in shown and "Where?" in shown
    [episode] = load_demonstrations(str(mine), progress=Notes())
    assert len(episode.turns) == 1
    assert [path.name for path in foreign.iterdir()] == ["thesis.txt"]


def test_other_settings_do_not_mix_with_what_is_kept_and_nothing_played_is_lost(tmp_path: Path) -> None:
    for extra in ((), ("env.options.observation=compact",)):
        code, shown = play("toy/room/0", *extra, "--save", str(tmp_path / "r"), lines=["look"])
        assert code == 0, shown
    assert "other settings" in shown and "r-2" in shown
    for folder in ("r", "r-2"):
        assert len(load_demonstrations(str(tmp_path / folder), progress=Notes())) == 1


def test_thoughts_are_asked_for_and_rewards_explained(tmp_path: Path) -> None:
    lines = ["/reward", "look", "First I look around.", "all: look", "", "/think Again.", "1: look"]
    code, shown = play("toy/room/0", "--think", "--reward", "--save", str(tmp_path / "r"), lines=lines)
    assert code == 0 and "Nothing was played yet" in shown and "nothing repeated" in shown
    assert "done before in environment 1: 1" in shown
    [episode] = load_demonstrations(str(tmp_path / "r"), progress=Notes())
    assert [turn.reply.thought for turn in episode.turns] == ["First I look around.", "I go on.", "Again."]


def test_hostile_text_of_a_world_does_not_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "evil_world.py").write_text(EVIL)
    code, shown = play("evil/only", "env.world=evil_world:EvilWorld", lines=["/actions", "go"], path=tmp_path)
    assert code == 0, shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e\r") and "[bold]" in shown and "�[2J" in shown


def test_an_environment_that_cannot_start_is_said_and_the_exit_code_tells() -> None:
    code, shown = play("toy/room/0", "env.options.fail_at=0", lines=["look"])
    assert code == 1 and "could not be started: IndexError" in shown


def test_an_environment_that_breaks_is_a_lane_and_the_others_go_on() -> None:
    code, shown = play("toy/room/0", "env.options.fail_at=1", "env.options.fault_action=look", lines=["1: look", "2: dance"])
    assert code == 0 and "Environment 1 broke" in shown and "Environment 2 not understood" in shown


@pytest.mark.parametrize("leaving", ["\x03", "\x04"])
def test_a_person_at_a_terminal_leaves_by_control_c_or_d_and_what_was_played_is_kept(tmp_path: Path, leaving: str) -> None:
    folder = tmp_path / "r"
    command = [sys.executable, "-m", "dpepo", "play", "toy/room/0", "--save", str(folder)]
    environment = {"COLUMNS": "100", "PATH": "/usr/bin:/bin", "TERM": "xterm", "PYTHONPATH": str(SRC)}
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, environment)
    shown = _until(terminal, "[1]> ")
    os.write(terminal, b"2: look\n")
    shown += _until(terminal, "[2]> ")
    os.write(terminal, leaving.encode())
    shown += _until(terminal, None)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    assert "Kept an episode" in shown and "Traceback" not in shown
    [episode] = load_demonstrations(str(folder), progress=Notes())
    assert [step.env_id for step in episode.turns[0].steps] == [2]


def _until(terminal: int, mark: str | None) -> str:
    """Read a terminal until something is shown, or to its end."""
    shown, until = "", time.monotonic() + 60
    while time.monotonic() < until and (mark is None or mark not in shown):
        try:
            read = os.read(terminal, 4096)
        except OSError:  # Linux's way of saying that the other side has closed
            break
        shown += read.decode(errors="replace")
        if not read:
            break
    return shown


@pytest.mark.slow
def test_scienceworld_is_played_in_two_copies_undone_and_kept(tmp_path: Path) -> None:
    lines = [
        "1: look around; 2: inventory",
        "/actions 2",
        "/actions 2 open",
        "1: open door to kitchen",
        "/undo",
        "2: look around",
    ]
    code, shown = play("scienceworld/boil/0", "--num-envs", "2", "--save", str(tmp_path / "r"), lines=lines)
    assert code == 0 and "In your inventory" in shown and "Objects: " in shown and "taken back" in shown
    [episode] = load_demonstrations(str(tmp_path / "r"), progress=Notes())
    assert [{step.env_id: step.action for step in turn.steps} for turn in episode.turns] == [
        {1: "look around", 2: "inventory"},
        {2: "look around"},
    ]
