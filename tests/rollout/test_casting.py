"""Who plays which tasks: oracles for each, or one agent for all."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.toy_jobs import Clumsy

from dpepo.config import Form, PromptConfig
from dpepo.envs import LocalPool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError, TaskError
from dpepo.protocol import PromptBuilder, parse_reply
from dpepo.rollout import (
    Agent,
    AgentPolicy,
    EpisodeRequest,
    OracleAgent,
    PlaySettings,
    RandomAgent,
    cast,
    play_episode,
    play_many,
)
from dpepo.types import EpisodeView, Observation, StopReason, WorldGuide


class Secretive(ToyWorld):
    """A toy world that knows no gold actions."""

    def expert(self, task_id: str) -> Any:
        return None


def view(*, goal: str = "Find it.", num_envs: int | None = 4, **seen: Any) -> EpisodeView:
    initial = Observation(text="here", admissible_actions=("look", "wait"), **seen)
    return EpisodeView(goal=goal, guide=WorldGuide(role=""), initial=initial, num_envs=num_envs)


def test_one_oracle_wins_every_task_and_finds_the_plans_of_a_round_together() -> None:
    world = ToyWorld()
    tasks = [world.task(f"toy/castle/{n}") for n in range(6)]
    asked: list[list[str]] = []

    def find(task_ids: Sequence[str]) -> list[list[str] | None]:
        asked.append(list(task_ids))
        return [world.expert(task_id) for task_id in task_ids]

    with LocalPool(world) as pool:
        episodes = play_many(
            [EpisodeRequest(task=task, seed=0, sibling=n) for task in tasks for n in range(2)],
            settings=PlaySettings(num_envs=3, max_turns=4),
            policy=AgentPolicy(OracleAgent(find)),
            pool=pool,
            prompts=PromptBuilder(PromptConfig()),
        )
    assert all(episode.success for episode in episodes)
    assert asked == [[task.id for task in tasks]]


def test_a_task_without_gold_actions_costs_the_oracle_that_episode_only() -> None:
    world = ToyWorld()
    agent = OracleAgent(lambda ids: [None if task_id.endswith("/1") else world.expert(task_id) for task_id in ids])
    found = [play_episode(f"toy/room/{n}", policy=AgentPolicy(agent), num_envs=1, max_turns=4) for n in (0, 1)]
    assert [episode.stop for episode in found] == [StopReason.SUCCESS, StopReason.POLICY_FAILED]
    assert "no gold actions for toy/room/1" in found[1].error


def test_which_environment_follows_the_plan_differs_between_goals() -> None:
    agent = OracleAgent(lambda ids: [["go"] for _ in ids])
    first: Counter[int] = Counter()
    for number in range(200):
        reply = agent.reply(view(goal=f"Find thing {number}."), random.Random(0))
        actions = parse_reply(reply, num_envs=4).actions
        [planned] = [env for env, action in actions.items() if action == "go"]
        assert len(actions) == 4  # the others look around in the first turns
        first[planned] += 1
    assert set(first) == {1, 2, 3, 4} and min(first.values()) > 20


def cast_by_name(name: str) -> Agent:
    with LocalPool(ToyWorld()) as pool:
        return cast(name, [], pool=pool, form=Form.PARALLEL, key="eval.policy")


def test_the_oracle_says_nothing_more_when_its_plan_is_done() -> None:
    reply = parse_reply(
        OracleAgent(lambda ids: [[] for _ in ids], form=Form.SEQUENTIAL).reply(view(num_envs=1), random.Random(0)), num_envs=1
    )
    assert dict(reply.actions) == {}


def test_a_random_agent_or_one_of_ones_own_is_found_by_name() -> None:
    world = ToyWorld()
    tasks = [world.task(f"toy/room/{n}") for n in range(3)]
    with LocalPool(world) as pool:
        assert isinstance(cast("random", tasks, pool=pool, form=Form.PARALLEL, key="eval.policy"), RandomAgent)
        own = cast("tests.support.toy_jobs:Clumsy", tasks, pool=pool, form=Form.PARALLEL, key="eval.policy")
        assert type(own).__name__ == Clumsy.__name__


def test_a_world_without_gold_actions_has_no_oracle() -> None:
    world = Secretive()
    with LocalPool(world) as pool, pytest.raises(TaskError, match=r"toy/room/0.*synth\.teacher=random"):
        cast("oracle", [world.task("toy/room/0")], pool=pool, form=Form.PARALLEL, key="synth.teacher")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("orcale", "Did you mean 'oracle'"),
        ("", "module:Class"),
        ("no_such_module:Agent", "no_such_module"),
        ("json:NoSuchAgent", "NoSuchAgent"),
        (":Agent", "cannot be made"),
        ("json:", "cannot be made"),
        ("pathlib:Path", "no method reply"),
        ("dpepo.rollout.casting:OracleAgent", "find"),
    ],
)
def test_an_agent_that_cannot_be_made_is_refused_before_anything_starts(name: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        cast_by_name(name)
    assert str(caught.value).startswith("eval.policy")


def test_an_agent_whose_module_fails_is_a_wrong_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_agent.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"eval\.policy 'failing_agent:A' cannot be made: ZeroDivisionError"):
        cast_by_name("failing_agent:A")
