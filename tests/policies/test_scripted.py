from __future__ import annotations

from dpepo.policies import ScriptedPolicy
from dpepo.types import Completion, EpisodeView, FinishReason, Message, Observation, Prompt, Request, Sampling, WorldGuide


def request(num_turns: int, *, seed: int = 0) -> Request:
    view = EpisodeView(goal="g", guide=WorldGuide(role="r"), initial=Observation(text="t"), turns=((),) * num_turns, num_envs=1)
    return Request(prompt=Prompt(messages=(Message(role="user", content="p"),)), view=view, seed=seed)


def test_replies_go_by_turn_and_end_in_silence() -> None:
    completions = ScriptedPolicy(["a", "b"]).generate([request(1), request(0), request(2)], sampling=Sampling())
    assert [completion.text for completion in completions] == ["b", "a", ""]
    assert all(completion.finish is FinishReason.STOP for completion in completions)


def test_a_function_sees_request_and_turn() -> None:
    policy = ScriptedPolicy(lambda asked, turn: f"{asked.seed}:{turn}")
    assert policy.generate([request(3, seed=9)], sampling=Sampling())[0].text == "9:3"


def test_a_whole_completion_passes_unchanged() -> None:
    """T01: a fake sampler can bring its own ids."""
    whole = Completion(text="hello", finish=FinishReason.LENGTH, token_ids=(1, 2), logprobs=(-1.0, -2.0))
    assert ScriptedPolicy([whole]).generate([request(0)], sampling=Sampling()) == [whole]
