"""Episodes on disk come back as they were, whatever the model wrote and wherever the writer was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpepo.runs.episodes import episode_file_name, parse_file_name, read_episodes, write_episodes
from dpepo.types import (
    Completion,
    Episode,
    FinishReason,
    Message,
    Observation,
    ParsedReply,
    Prompt,
    ScoredEpisode,
    Step,
    StepReward,
    StopReason,
    Task,
    Turn,
    WorldGuide,
)


def episode(*, reply: str = "<think>x</think>", seed: int = 0) -> Episode:
    turn = Turn(
        prompt=Prompt(messages=(Message(role="user", content="look around"),)),
        completion=Completion(text=reply, finish=FinishReason.STOP, token_ids=(1, 2), logprobs=(-0.5, -1.25)),
        reply=ParsedReply(thought="x", actions={2: "look"}),
        steps=(Step(env_id=2, action="look", observation=Observation(text="a hall", success=True)),),
    )
    return Episode(
        task=Task(id="toy/room/1", world="toy", name="room"),
        goal="find it",
        guide=WorldGuide(role="You search."),
        num_envs=4,
        max_turns=3,
        seed=seed,
        initial=Observation(text="a hall"),
        turns=(turn,),
        stop=StopReason.SUCCESS,
    )


def scored(source: Episode) -> ScoredEpisode:
    return ScoredEpisode(episode=source, outcome=1.0, step_rewards=(StepReward(value=1.0, scale="reference", num_actions=1),))


def test_episodes_of_both_kinds_come_back_equal_and_in_order(tmp_path: Path) -> None:
    write_episodes(tmp_path, "rl", 2, [scored(episode(seed=1))])
    write_episodes(tmp_path, "eval-k4", 10, [episode(seed=2)])
    write_episodes(tmp_path, "rl", 2, [episode(seed=3)])
    problems: list[str] = []
    lines = list(read_episodes(tmp_path, problems=problems))
    assert [(line.stage, line.step, line.episode.seed) for line in lines] == [("eval-k4", 10, 2), ("rl", 2, 1), ("rl", 2, 3)]
    assert lines[1].record == scored(episode(seed=1))
    assert [line.episode.seed for line in read_episodes(tmp_path, stage="rl", problems=problems)] == [1, 3]
    assert problems == []


@pytest.mark.parametrize("reply", ["→ 日本語 \u2028 \x00 \x1b[31m", "half a pair: \ud83d", 'quote " and \\ and </script>', ""])
def test_any_reply_is_written_as_utf8_on_one_line(tmp_path: Path, reply: str) -> None:
    """F16: arrows, CJK, lone surrogates."""
    path = write_episodes(tmp_path, "rl", 1, [episode(reply=reply)])
    assert path.read_bytes().decode("utf-8").count("\n") == 1
    (line,) = read_episodes(tmp_path, problems=[])
    assert line.episode.turns[0].completion.text == reply


def test_the_locale_has_no_say_in_the_encoding(tmp_path: Path) -> None:
    """F16: LC_ALL=C, without Python's own remedy for it."""
    (tmp_path / "source").mkdir()
    write_episodes(tmp_path / "source", "rl", 1, [episode(reply="→ 日本語")])
    code = (
        "import sys; from pathlib import Path; from dpepo.runs.episodes import *\n"
        "(line,) = read_episodes(Path(sys.argv[1]), problems=[])\n"
        "write_episodes(Path(sys.argv[2]), 'rl', 1, [line.record])"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "source"), str(tmp_path / "copy")], env=environment, check=True)
    assert (tmp_path / "copy" / "rl-0001.jsonl").read_bytes() == (tmp_path / "source" / "rl-0001.jsonl").read_bytes()


def test_a_cut_last_line_is_reported_and_later_episodes_are_not_lost(tmp_path: Path) -> None:
    path = write_episodes(tmp_path, "rl", 1, [episode(seed=1), episode(seed=2)])
    path.write_bytes(path.read_bytes()[:-100])
    problems: list[str] = []
    assert [line.episode.seed for line in read_episodes(tmp_path, problems=problems)] == [1]
    assert "rl-0001.jsonl, line 2 is cut off" in problems[0]
    write_episodes(tmp_path, "rl", 1, [episode(seed=3)])
    assert [line.episode.seed for line in read_episodes(tmp_path, problems=[])] == [1, 3]


@pytest.mark.parametrize(
    "change", [{"kind": "other"}, {"kind": None}, {"record": None}, {"record": {"task": 3}}, {"record": [1]}]
)
def test_lines_that_hold_no_episode_are_reported_and_left_out(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_episodes(tmp_path, "rl", 1, [episode()])
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, **change}) + "\n" + path.read_text())
    problems: list[str] = []
    assert len(list(read_episodes(tmp_path, problems=problems))) == 1
    assert "rl-0001.jsonl, line 1" in problems[0]


def test_other_files_and_a_missing_folder_hold_no_episodes(tmp_path: Path) -> None:
    (tmp_path / "rl-0001.jsonl").mkdir()
    (tmp_path / "notes.jsonl").write_text("hello\n")
    assert list(read_episodes(tmp_path, problems=[])) == []
    assert list(read_episodes(tmp_path / "none", problems=[])) == []


@pytest.mark.parametrize("stage", ["", "../up", "a/b", ".hidden", "a b", "a\n"])
def test_a_stage_cannot_leave_the_folder(stage: str) -> None:
    with pytest.raises(ValueError, match="stage"):
        episode_file_name(stage, 1)


@pytest.mark.parametrize(("stage", "step"), [("rl", 0), ("eval-k4-10", 12345), ("a-1", 7)])
def test_file_names_can_be_read_back(stage: str, step: int) -> None:
    assert parse_file_name(episode_file_name(stage, step)) == (stage, step)
