"""Cold start: what teachers play is kept, counted, and true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.support.toy_jobs import Killed, KilledAt, Notes, open_run, toy_config

from dpepo.config import Config, Form
from dpepo.envs import Bundle, load_world
from dpepo.errors import ConfigError, JobError
from dpepo.protocol import parse_reply
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import SynthResult, run_synth
from dpepo.types import Episode

CLUMSY = "synth.teacher=tests.support.toy_jobs:Clumsy"


def run_it(config: Config, progress: Notes | None = None) -> SynthResult:
    run = open_run(config, "synth")
    try:
        return run_synth(config, run=run, progress=progress or Notes())
    finally:
        run.close()


def resumed(config: Config) -> Config:
    return config.model_copy(update={"run": config.run.model_copy(update={"resume": True})})


def episodes_of(folder: Path) -> list[Episode]:
    problems: list[str] = []
    found = [line.episode for line in RunFolder.open(folder).read_episodes(stage="synth", problems=problems)]
    assert problems == []
    return found


@pytest.mark.parametrize("name", ["room", "house"])
def test_demonstrations_of_the_oracle_really_succeed_and_replay(tmp_path: Path, name: str) -> None:
    """Every recorded action, done again in fresh environments, brings the recorded observation and the success."""
    settings = (f"tasks.train.names=[{name}]", "env.options.observation=full", "rollout.max_turns=6", "synth.num_envs=[1,4]")
    config = toy_config(tmp_path / "r", *settings)
    result = run_it(config)
    assert (result.played, result.kept, result.succeeded, result.dropped) == (40, 40, 40, {})
    episodes = episodes_of(tmp_path / "r")
    assert Counter(episode.num_envs for episode in episodes) == {1: 20, 4: 20}
    with load_world("toy", config.env.options) as world:
        for episode in episodes:
            bundle = Bundle(world, episode.task.id, episode.num_envs)
            assert bundle.reset().initial == episode.initial
            for turn in episode.turns:
                said = parse_reply(turn.completion.text, num_envs=episode.num_envs)
                assert dict(said.actions) == {step.env_id: step.action for step in turn.steps}
                seen = bundle.step(said.actions)
                assert seen == {step.env_id: step.observation for step in turn.steps}
            assert any(observation.success for observation in seen.values())
            bundle.close()


@pytest.mark.parametrize("order", ["[4,1,2]", "[1,2,4]", "[2,2,4,1]"])
def test_the_order_in_which_numbers_of_copies_are_named_loses_nothing(tmp_path: Path, order: str) -> None:
    result = run_it(toy_config(tmp_path / "r", f"synth.num_envs={order}", "tasks.train.limit=3"))
    assert result.kept == 9
    assert Counter(episode.num_envs for episode in episodes_of(tmp_path / "r")) == {1: 3, 2: 3, 4: 3}
    assert not list((tmp_path / "r" / "episodes").glob("replaced-*"))


def test_a_killed_job_plays_what_is_missing_and_nothing_else(tmp_path: Path) -> None:
    def config(name: str) -> Config:
        return toy_config(tmp_path / name, "synth.num_envs=[4,1]", "tasks.train.limit=5", "synth.teacher=oracle")

    whole = run_it(config("whole"))
    with pytest.raises(Killed):
        run_it(config("cut"), KilledAt(8))  # five of K = 1, three of K = 4
    notes = Notes()
    again = run_it(resumed(config("cut")), notes)
    assert again == whole
    assert notes.stages == ["demonstrations, K = 4: 5 episodes"]
    assert len(_replies(tmp_path / "cut")) == 10
    assert _without_seconds(episodes_of(tmp_path / "cut")) == _without_seconds(episodes_of(tmp_path / "whole"))
    before = {path: path.read_bytes() for path in (tmp_path / "cut" / "episodes").glob("*.jsonl")}
    assert run_it(resumed(config("cut"))) == whole  # a finished job does nothing
    assert before == {path: path.read_bytes() for path in (tmp_path / "cut" / "episodes").glob("*.jsonl")}
    assert sorted(path.name for path in before) == ["synth-0001.jsonl", "synth-0004.jsonl"]


def _replies(folder: Path) -> set[tuple[str, int]]:
    return {(episode.task.id, episode.num_envs) for episode in episodes_of(folder)}


def _without_seconds(episodes: list[Episode]) -> list[Episode]:
    return [
        episode.model_copy(
            update={"turns": tuple(turn.model_copy(update={"seconds": 0.0, "env_seconds": 0.0}) for turn in episode.turns)}
        )
        for episode in episodes
    ]


def test_what_is_dropped_is_counted_by_reason(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "r", CLUMSY, "synth.episodes_per_task=3")
    result = run_it(config)
    assert set(result.dropped) == {"malformed", "failed", "duplicate"}
    assert result.played == 60 == result.kept + sum(result.dropped.values())
    kept = episodes_of(tmp_path / "r")
    dropped = [line.episode for line in RunFolder.open(tmp_path / "r").read_episodes(stage="dropped", problems=[])]
    assert len(dropped) == sum(result.dropped.values())
    assert 0 < len(kept) == result.kept < result.succeeded  # some succeeded after a reply without form
    assert all(episode.success and not any(turn.reply.problems for turn in episode.turns) for episode in kept)


def test_keep_all_keeps_failures_but_nothing_malformed(tmp_path: Path) -> None:
    result = run_it(toy_config(tmp_path / "r", CLUMSY, "synth.episodes_per_task=3", "synth.keep=all"))
    assert set(result.dropped) == {"malformed", "duplicate"}
    assert any(not episode.success for episode in episodes_of(tmp_path / "r"))


def test_a_job_that_kept_nothing_fails_and_says_what_was_dropped(tmp_path: Path) -> None:
    """E18: broken environments do not end in an empty file and exit code 0."""
    with pytest.raises(JobError, match="'lost': 20"):
        run_it(toy_config(tmp_path / "r", "env.options.fail_at=1", "synth.num_envs=[1]"))


def test_a_sequential_teacher_speaks_the_sequential_form(tmp_path: Path) -> None:
    settings = ("prompt.form=sequential", "prompt.templates=default", "env.num_envs=1", "synth.num_envs=[1]")
    assert run_it(toy_config(tmp_path / "r", *settings)).kept == 20
    text = episodes_of(tmp_path / "r")[0].turns[0].completion.text
    assert parse_reply(text, num_envs=1, form=Form.SEQUENTIAL).problems == ()


@pytest.mark.parametrize("teacher", ["orcale", "json:loads", "no.such.module:Agent", ":Agent", "json:"])
def test_a_teacher_that_does_not_exist_is_a_wrong_request(tmp_path: Path, teacher: str) -> None:
    with pytest.raises(ConfigError, match=r"synth\.teacher"):
        run_it(toy_config(tmp_path / "r", f"synth.teacher={json.dumps(teacher)}"))
