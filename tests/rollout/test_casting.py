"""Who plays which tasks: oracles for each, or one agent for all."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.toy_jobs import Clumsy

from dpepo.config import Form
from dpepo.envs import LocalPool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError, TaskError
from dpepo.protocol import parse_reply
from dpepo.rollout import AgentPolicy, OracleAgent, RandomAgent, cast, check_agent, play_episode
from dpepo.types import EpisodeView, Observation, WorldGuide


class Secretive(ToyWorld):
    """A toy world that knows no gold actions."""

    def expert(self, task_id: str) -> Any:
        return None


def view(*, goal: str = "Find it.", num_envs: int | None = 4, **seen: Any) -> EpisodeView:
    initial = Observation(text="here", admissible_actions=("look", "wait"), **seen)
    return EpisodeView(goal=goal, guide=WorldGuide(role=""), initial=initial, num_envs=num_envs)


def test_the_oracle_is_cast_once_for_every_task_and_each_one_wins() -> None:
    world = ToyWorld()
    tasks = [world.task(f"toy/castle/{n}") for n in range(6)]
    with LocalPool(world) as pool:
        players = cast("oracle", tasks, pool=pool, form=Form.PARALLEL, key="eval.policy")
        assert [chosen for _, chosen in players] == [[task] for task in tasks]
        for agent, [task] in players:
            assert play_episode(task, policy=AgentPolicy(agent), num_envs=3, max_turns=4, world=pool).success


def test_which_environment_follows_the_plan_differs_between_goals() -> None:
    agent = OracleAgent(["go"])
    first: Counter[int] = Counter()
    for number in range(200):
        reply = agent.reply(view(goal=f"Find thing {number}."), random.Random(0))
        actions = parse_reply(reply, num_envs=4).actions
        [planned] = [env for env, action in actions.items() if action == "go"]
        assert len(actions) == 4  # the others look around in the first turns
        first[planned] += 1
    assert set(first) == {1, 2, 3, 4} and min(first.values()) > 20


def test_the_oracle_says_nothing_more_when_its_plan_is_done() -> None:
    reply = parse_reply(OracleAgent([], form=Form.SEQUENTIAL).reply(view(num_envs=1), random.Random(0)), num_envs=1)
    assert dict(reply.actions) == {}


def test_one_random_agent_or_one_of_ones_own_plays_all_tasks() -> None:
    world = ToyWorld()
    tasks = [world.task(f"toy/room/{n}") for n in range(3)]
    with LocalPool(world) as pool:
        [(blind, chosen)] = cast("random", tasks, pool=pool, form=Form.PARALLEL, key="eval.policy")
        assert isinstance(blind, RandomAgent) and chosen == tasks
        [(own, chosen)] = cast("tests.support.toy_jobs:Clumsy", tasks, pool=pool, form=Form.PARALLEL, key="eval.policy")
        assert type(own).__name__ == Clumsy.__name__ and chosen == tasks


@pytest.mark.parametrize("count", [1, 3])
def test_a_world_without_gold_actions_has_no_oracle(count: int) -> None:
    world = Secretive()
    tasks = [world.task(f"toy/room/{n}") for n in range(count)]
    with LocalPool(world) as pool, pytest.raises(TaskError, match=r"toy/room/0.*synth\.teacher=random") as caught:
        cast("oracle", tasks, pool=pool, form=Form.PARALLEL, key="synth.teacher")
    assert ("2 more of the 3 tasks" in str(caught.value)) is (count == 3)


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
        ("dpepo.rollout.casting:OracleAgent", "gold"),
    ],
)
def test_an_agent_that_cannot_be_made_is_refused_before_anything_starts(name: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part) as caught:
        check_agent(name, key="eval.policy")
    assert str(caught.value).startswith("eval.policy")


def test_an_agent_whose_module_fails_is_a_wrong_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_agent.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"eval\.policy 'failing_agent:A' cannot be made: ZeroDivisionError"):
        check_agent("failing_agent:A", key="eval.policy")


def test_agents_that_exist_pass_the_check() -> None:
    for name in ("oracle", "random", "tests.support.toy_jobs:Clumsy"):
        check_agent(name, key="eval.policy")
