from __future__ import annotations

import pytest

from dpepo.config import PromptConfig
from dpepo.envs import LocalPool
from dpepo.envs.toy import ToyWorld
from dpepo.protocol import PromptBuilder
from dpepo.rollout import AgentPolicy, PlaySettings, RandomAgent, group_requests, play_groups


def test_groups_keep_the_order_of_tasks_and_siblings() -> None:
    world = ToyWorld()
    tasks = world.tasks("train")[:3]
    groups = play_groups(
        tasks,
        group_size=4,
        seed=1,
        settings=PlaySettings(num_envs=2, max_turns=3),
        policy=AgentPolicy(RandomAgent()),
        pool=LocalPool(world),
        prompts=PromptBuilder(PromptConfig()),
        max_active=5,
    )
    assert [[(episode.task, episode.sibling) for episode in group] for group in groups] == [
        [(task, sibling) for sibling in range(4)] for task in tasks
    ]


def test_a_task_listed_twice_gets_two_different_groups() -> None:
    task = ToyWorld().task("toy/castle/0")
    requests = group_requests([task, task, task], group_size=2, seed=7)
    assert len({(request.seed, request.sibling) for request in requests}) == 6
    assert requests[0].seed == 7
    assert group_requests([task], group_size=2, seed=7) == requests[:2]


def test_a_group_has_at_least_one_sibling() -> None:
    with pytest.raises(ValueError, match="group_size"):
        group_requests([], group_size=0, seed=0)
