"""A server's model as teacher and as candidate, against a local server that answers, and misbehaves, as told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_server import ChatServer, chat_server
from tests.support.toy_jobs import Killed, KilledAt, Notes, open_run, toy_config

from dpepo.config import Config
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError, JobError
from dpepo.evaluation import run_eval
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import SynthResult, run_synth
from dpepo.synthesis.examples import ExampleEpisode, ExampleTurn, show_examples
from dpepo.types import Episode

KEY = "sk-secret-000111222"


def knows_the_way(body: dict[str, Any]) -> str:
    """Opens every container it reads of, then takes what is asked for: a plain reader of the prompt."""
    text = body["messages"][-1]["content"]
    wanted = re.findall(r"Find the ([a-z ]+?) and", text)[-1]
    if f"a {wanted}" in text or f"take {wanted}" in text:
        return f"<think>There it is.</think><parallel><env_1>take {wanted}</env_1></parallel>"
    doors = list(dict.fromkeys(re.findall(r"open (\w+)", text)))
    tried = len(re.findall(r"Action \d+: open|open \w+ ->", text))
    return f"<think>I look inside.</think><parallel><env_1>open {doors[tried % len(doors)]}</env_1></parallel>"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)
    with chat_server(knows_the_way) as running:
        yield running


def config(folder: Path, server: ChatServer, *more: str) -> Config:
    settings = (
        "synth.teacher=openai",
        "eval.policy=openai",
        f"server.base_url={server.url}",
        "server.model=tiny",
        "server.key_env=TEST_KEY",
        "server.timeout_s=5",
        "server.tries=3",
        "synth.keep=all",
        "synth.num_envs=[1]",
        "tasks.train.limit=4",
        "prompt.templates=default",
        "env.options.observation=full",
    )
    return toy_config(folder, *settings, *more)


def synth(chosen: Config, progress: Notes | None = None) -> SynthResult:
    run = open_run(chosen, "synth")
    try:
        return run_synth(chosen, run=run, progress=progress or Notes())
    finally:
        run.close()


def resumed(chosen: Config, **server: object) -> Config:
    changes = {
        "run": chosen.run.model_copy(update={"resume": True}),
        "server": chosen.server.model_copy(update=server),
    }
    return chosen.model_copy(update=changes)


def episodes(folder: Path, stage: str) -> list[Episode]:
    return [line.episode for line in RunFolder.open(folder).read_episodes(stage=stage, problems=[])]


def test_a_servers_model_demonstrates_and_its_tokens_are_counted(server: ChatServer, tmp_path: Path) -> None:
    result = synth(config(tmp_path / "r", server))
    assert (result.played, result.kept) == (4, 4)
    kept = episodes(tmp_path / "r", "synth")
    turns = [turn for episode in kept for turn in episode.turns]
    assert all(turn.completion.reply_length > 0 and turn.completion.prompt_length > 0 for turn in turns)
    usage = json.loads((tmp_path / "r" / "usage.json").read_text())
    assert usage["reply_tokens"] == sum(turn.completion.num_reply_tokens for turn in turns)


def test_a_server_that_misbehaves_costs_no_trajectory(server: ChatServer, tmp_path: Path) -> None:
    server.faults = [429, 500, "cut", "garbage", 503, "not json"]
    result = synth(config(tmp_path / "r", server))
    assert (result.kept, result.dropped) == (4, {})


def test_a_dead_server_is_counted_and_a_resumed_job_plays_the_lost_ones_again(server: ChatServer, tmp_path: Path) -> None:
    server.faults = [500] * 3  # one answer's tries
    chosen = config(tmp_path / "r", server, "server.concurrency=1")
    result = synth(chosen)
    assert result.dropped == {"lost": 1} and result.kept == 3
    assert episodes(tmp_path / "r", "dropped")[0].error.startswith("InternalServerError")


def test_a_killed_job_neither_repeats_nor_loses_a_trajectory(server: ChatServer, tmp_path: Path) -> None:
    chosen = config(tmp_path / "r", server, "synth.num_envs=[1,2]", "server.concurrency=1")
    with pytest.raises(Killed):
        synth(chosen, KilledAt(6))
    asked = len(server.requests)
    result = synth(resumed(chosen))
    assert result.kept == 8
    assert len({(one.task.id, one.num_envs) for one in episodes(tmp_path / "r", "synth")}) == 8
    whole = tmp_path / "whole"
    before = len(server.requests)
    synth(config(whole, server, "synth.num_envs=[1,2]", "server.concurrency=1"))
    assert before - asked < len(server.requests) - before  # the second session asked for less than a whole job


def test_a_spent_budget_ends_the_job_and_a_larger_one_goes_on(server: ChatServer, tmp_path: Path) -> None:
    chosen = config(tmp_path / "r", server, "server.max_tokens_total=60", "server.concurrency=1")
    with pytest.raises(JobError, match="max_tokens_total"):
        synth(chosen)
    assert synth(resumed(chosen, max_tokens_total=0)).kept == 4


def test_the_key_is_written_nowhere(server: ChatServer, tmp_path: Path) -> None:
    server.faults = [500] * 3
    server.error_text = f"bad key {KEY}"
    synth(config(tmp_path / "r", server, "server.concurrency=1"))
    for path in (tmp_path / "r").rglob("*"):
        assert not path.is_file() or KEY not in path.read_text(encoding="utf-8", errors="replace"), path


def test_a_refused_key_stops_at_once(server: ChatServer, tmp_path: Path) -> None:
    server.faults = [401] * 99
    with pytest.raises(ConfigError, match="TEST_KEY"):
        synth(config(tmp_path / "r", server))


def test_a_servers_model_is_evaluated_like_any_other(server: ChatServer, tmp_path: Path) -> None:
    chosen = config(tmp_path / "r", server, "tasks.eval.limit=5", "rollout.max_turns=6", "eval.num_envs=1")
    run = open_run(chosen, "eval")
    try:
        result = run_eval(chosen, run=run, progress=Notes())
    finally:
        run.close()
    assert result.n == 5 and result.lost == 0 and result.reply_tokens > 0


def test_a_teacher_reads_examples_that_its_students_do_not_see(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ToyWorld().make("toy/room/0").reset()
    example = ExampleEpisode(
        task="toy/room/0",
        num_envs=2,
        shows="search apart",
        goal="Find the coin.",
        initial=first.text,
        turns=(
            ExampleTurn(thought="I look in both.", actions={1: "open box", 2: "open jar"}, answers={1: "Empty.", 2: "A coin."}),
        ),
    )
    monkeypatch.setattr("dpepo.synthesis.teachers.load_examples", lambda world: (example,))
    synth(config(tmp_path / "r", server))
    shown = show_examples([example])
    assert all(shown in body["messages"][0]["content"] for body in server.requests)
    recorded = [
        message.content for one in episodes(tmp_path / "r", "synth") for turn in one.turns for message in turn.prompt.messages
    ]
    assert recorded and not any("I look in both." in text for text in recorded)


def test_a_data_card_says_what_is_in_the_folder(server: ChatServer, tmp_path: Path) -> None:
    synth(config(tmp_path / "r", server))
    card = (tmp_path / "r" / "README.md").read_text(encoding="utf-8")
    for part in ("4 episodes", "`openai` (`tiny`)", "| room | 4 |", "K = 1: 4 episodes", "dpepo synth", "provider's terms"):
        assert part in card, part
