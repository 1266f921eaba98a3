"""A model behind a server: what it answers, and what a server that misbehaves costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_server import ChatServer, chat_server

from dpepo.config import ServerConfig
from dpepo.errors import ConfigError, JobError
from dpepo.policies.openai import OpenAIPolicy
from dpepo.types import Completion, EpisodeView, FinishReason, Message, Observation, Prompt, Request, Sampling, WorldGuide

KEY = "sk-test-0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.02)
    with chat_server(lambda body: f"reply to {body['messages'][-1]['content']}") as running:
        yield running


def policy(server: ChatServer, *, ledger: Path | None = None, **settings: Any) -> OpenAIPolicy:
    settings = {"base_url": server.url, "model": "tiny", "key_env": "TEST_KEY", "timeout_s": 5.0, "tries": 3, **settings}
    return OpenAIPolicy(ServerConfig(**settings), ledger=ledger)


def request(text: str = "hello", *, seed: int = 7) -> Request:
    view = EpisodeView(goal="", guide=WorldGuide(role=""), initial=Observation(text=""), num_envs=1)
    messages = (Message(role="system", content="be brief"), Message(role="user", content=text))
    return Request(prompt=Prompt(messages=messages), view=view, seed=seed)


def ask(asked: OpenAIPolicy, *requests: Request) -> list[Completion]:
    try:
        return asked.generate(requests or [request()], sampling=Sampling(temperature=0.4, top_p=0.9, max_new_tokens=20))
    finally:
        asked.close()


def test_a_request_carries_prompt_sampling_and_seed_and_the_reply_its_counts(server: ChatServer) -> None:
    [completion] = ask(policy(server, extra={"reasoning_effort": "low"}))
    assert completion == Completion(text="reply to hello", finish=FinishReason.STOP, num_prompt_tokens=3, num_reply_tokens=3)
    [body] = server.requests
    assert body == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
        "temperature": 0.4,
        "top_p": 0.9,
        "max_tokens": 20,
        "seed": 7,
        "reasoning_effort": "low",
    }
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_replies_come_in_the_order_asked_with_no_more_in_flight_than_allowed(server: ChatServer) -> None:
    server.delay_s = 0.05
    completions = ask(policy(server, concurrency=3), *(request(str(n)) for n in range(9)))
    assert [completion.text for completion in completions] == [f"reply to {n}" for n in range(9)]
    assert server.most_in_flight == 3


@pytest.mark.parametrize("fault", [429, 500, 503, "cut", "garbage", "not json", "empty"])
def test_a_fault_that_passes_is_asked_again_and_seen_by_nobody(server: ChatServer, fault: int | str) -> None:
    server.faults = [fault]
    assert [completion.text for completion in ask(policy(server))] == ["reply to hello"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", [429, 500, "cut", "garbage", "not json", "empty", "hang"])
def test_a_fault_that_stays_costs_one_reply_and_not_the_others(server: ChatServer, fault: int | str) -> None:
    tries = 1 if fault == "hang" else 2
    server.faults = [fault] * tries
    asked = policy(server, tries=tries, concurrency=1, timeout_s=0.5)
    lost, good = ask(asked, request("first"), request("second"))
    assert (lost.finish, lost.text) == (FinishReason.ERROR, "")
    assert lost.error
    assert good.text == "reply to second"


def test_a_server_that_is_not_there_is_a_value_too() -> None:
    dead = OpenAIPolicy(ServerConfig(base_url="http://127.0.0.1:9/v1", model="m", tries=1, timeout_s=1.0))
    [completion] = ask(dead)
    assert completion.finish is FinishReason.ERROR and "Connection" in completion.error


@pytest.mark.parametrize(("status", "says"), [(401, "TEST_KEY"), (403, "TEST_KEY"), (404, "server.base_url")])
def test_what_can_never_work_stops_the_job_and_does_not_tell_the_key(server: ChatServer, status: int, says: str) -> None:
    server.faults = [status] * 9
    server.error_text = f"Incorrect API key provided: {KEY}"
    with pytest.raises(ConfigError, match=says) as caught:
        ask(policy(server))
    assert KEY not in str(caught.value) and caught.value.__cause__ is None
    assert len(server.requests) == 1


def test_a_prompt_that_does_not_fit_ends_the_episode_as_context_full(server: ChatServer) -> None:
    """Case B08, behind a server."""
    server.faults = [400]
    server.error_text = "This model's maximum context length is 128 tokens."
    [completion] = ask(policy(server))
    assert completion.finish is FinishReason.CONTEXT_FULL


def test_a_model_that_knows_only_the_newer_name_of_the_limit_gets_that_one(server: ChatServer) -> None:
    server.faults = [400]
    server.error_text = "Unsupported parameter: use 'max_completion_tokens' instead."
    asked = policy(server)
    assert asked.generate([request()], sampling=Sampling(max_new_tokens=20))[0].text == "reply to hello"
    ask(asked)
    assert ["max_tokens" in body for body in server.requests] == [True, False, False]
    assert server.requests[1]["max_completion_tokens"] == 20


def test_a_budget_of_tokens_stops_the_job_and_survives_a_restart(server: ChatServer, tmp_path: Path) -> None:
    ledger = tmp_path / "usage.json"
    first = policy(server, ledger=ledger, max_tokens_total=13, concurrency=1)
    assert len(ask(first, request(), request())) == 2  # six tokens each
    assert json.loads(ledger.read_text()) == {"prompt_tokens": 6, "reply_tokens": 6}
    again = policy(server, ledger=ledger, max_tokens_total=13, concurrency=1)
    with pytest.raises(JobError, match="max_tokens_total"):
        ask(again, request(), request())
    assert len(server.requests) == 3


def test_a_budget_of_money_goes_by_the_prices_given(server: ChatServer) -> None:
    prices: dict[str, Any] = {"usd_per_million_prompt_tokens": 1e6, "usd_per_million_reply_tokens": 2e6}  # 9 USD a reply
    with pytest.raises(JobError, match=r"budget of 10 USD is spent \(18\.00 used\)"):
        ask(policy(server, max_usd=10.0, concurrency=1, **prices), *[request()] * 3)
    assert len(server.requests) == 2
    with pytest.raises(ValueError, match="max_usd needs"):
        ServerConfig(max_usd=1.0)


def test_an_address_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="key_env"):
        ServerConfig(base_url="https://user:secret@example.com/v1")


@pytest.mark.parametrize("missing", ["base_url", "model"])
def test_a_server_without_address_or_model_is_a_wrong_request(missing: str) -> None:
    with pytest.raises(ConfigError, match=rf"server\.{missing} is empty"):
        OpenAIPolicy(ServerConfig(**{"base_url": "http://127.0.0.1:9/v1", "model": "m", missing: ""}))
