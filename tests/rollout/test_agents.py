from __future__ import annotations

import random
from typing import Any

import pytest

from dpepo.config import Form
from dpepo.protocol import parse_reply
from dpepo.rollout import AgentPolicy, RandomAgent, latest_observations
from dpepo.types import (
    ActionTemplate,
    EpisodeView,
    FinishReason,
    Message,
    Observation,
    Prompt,
    Request,
    Sampling,
    Step,
    WorldGuide,
)

OPEN = Observation(text="a", admissible_actions=("open OBJ", "look", "help", "move OBJ to OBJ"), objects=("box", "jar"))
GUIDE = WorldGuide(role="r", hidden_actions=("help",))


def view(
    *turns: tuple[Step, ...], num_envs: int | None = 3, initial: Observation = OPEN, guide: WorldGuide = GUIDE
) -> EpisodeView:
    return EpisodeView(goal="g", guide=guide, initial=initial, turns=turns, num_envs=num_envs)


def picks(seen: EpisodeView) -> set[str]:
    replies = [RandomAgent().reply(seen, random.Random(seed)) for seed in range(200)]
    return {action for reply in replies for action in parse_reply(reply, num_envs=None).actions.values()}


def test_a_random_agent_fills_templates_and_never_uses_hidden_actions() -> None:
    moves = {f"move {one} to {other}" for one in ("box", "jar") for other in ("box", "jar")}
    assert picks(view()) == {"open box", "open jar", "look", *moves}


def test_a_random_agent_falls_back_on_the_worlds_templates() -> None:
    guide = WorldGuide(role="r", action_templates=(ActionTemplate(template="focus on OBJ"),))
    assert picks(view(initial=Observation(text="a", objects=("axe",)), guide=guide)) == {"focus on axe"}


def test_a_random_agent_says_nothing_where_nothing_is_offered() -> None:
    assert picks(view(initial=Observation(text="a"))) == set()
    assert picks(view(initial=Observation(text="a", admissible_actions=("open OBJ",)))) == set()


def test_a_random_agent_leaves_ended_environments_alone() -> None:
    """E17, agent's side."""
    turn = (Step(env_id=2, action="look", observation=Observation(text="over", ended=True)),)
    reply = parse_reply(RandomAgent().reply(view(turn), random.Random(0)), num_envs=3)
    assert set(reply.actions) == {1, 3}
    assert reply.problems == ()


def test_a_random_agent_speaks_the_sequential_form() -> None:
    text = RandomAgent(form=Form.SEQUENTIAL).reply(view(num_envs=1), random.Random(0))
    assert parse_reply(text, num_envs=1, form=Form.SEQUENTIAL).problems == ()


def test_the_latest_observation_is_the_last_answer_or_the_initial_one() -> None:
    older, newer = Observation(text="older"), Observation(text="newer")
    turns = ((Step(env_id=2, action="a", observation=older),), (Step(env_id=2, action="b", observation=newer),))
    assert latest_observations(view(*turns)) == {1: OPEN, 2: newer, 3: OPEN}
    assert latest_observations(view(*turns, num_envs=None)) == {1: OPEN, 2: newer, 3: OPEN}
    assert latest_observations(view(num_envs=None)) == {1: OPEN}


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_an_agent_is_a_policy_whose_randomness_is_the_requests_seed(seed: int) -> None:
    request = Request(prompt=Prompt(messages=(Message(role="user", content=""),)), view=view(), seed=seed)
    policy = AgentPolicy(RandomAgent())
    first, second = policy.generate([request, request], sampling=Sampling())
    assert first == second
    assert first.token_ids == ()
    assert policy.version == "RandomAgent"


class Broken:
    """An agent whose reply is whatever it was given, or an error."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (KeyError("plan"), "The agent Broken failed: KeyError: 'plan'"),
        (5, "The agent Broken failed: it must reply with text, got 5"),
    ],
)
def test_an_agent_that_fails_costs_its_own_episode_and_is_named_as_the_cause(reply: Any, message: str) -> None:
    request = Request(prompt=Prompt(messages=(Message(role="user", content=""),)), view=view(), seed=0)
    [completion] = AgentPolicy(Broken(reply)).generate([request], sampling=Sampling())
    assert completion.finish is FinishReason.ERROR and message in completion.error
