from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from dpepo.config import OverLimit, PromptConfig
from dpepo.envs import LocalPool, WorkerPool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import JobError, TaskError
from dpepo.policies import Policy, ScriptedPolicy
from dpepo.protocol import PromptBuilder
from dpepo.protocol.reply import format_reply
from dpepo.rollout import AgentPolicy, EpisodeRequest, PlaySettings, RandomAgent, play_episode, play_many
from dpepo.types import Completion, Episode, FinishReason, Observation, Request, Sampling, StopReason, Task, Turn

SETTINGS = PlaySettings(num_envs=3, max_turns=6)
PROMPTS = PromptBuilder(PromptConfig())


def requests(count: int = 12) -> list[EpisodeRequest]:
    tasks = ToyWorld().tasks("train")
    return [EpisodeRequest(task=tasks[index * 5 % len(tasks)], seed=3, sibling=index % 4) for index in range(count)]


def timeless(episode: Episode) -> Episode:
    turns = [turn.model_copy(update={"seconds": 0.0, "env_seconds": 0.0}) for turn in episode.turns]
    return episode.model_copy(update={"turns": tuple(turns)})


class Counting(Policy):
    """A random agent that notes how many it was asked at once, and fails on demand."""

    def __init__(self, *, fail_at_call: int = 0, short: bool = False) -> None:
        self.sizes: list[int] = []
        self._inner = AgentPolicy(RandomAgent())
        self._fail_at_call = fail_at_call
        self._short = short

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        self.sizes.append(len(requests))
        if len(self.sizes) == self._fail_at_call:
            raise KeyboardInterrupt
        return self._inner.generate(requests, sampling=sampling)[: -1 if self._short else None]


class Watched(LocalPool):
    """A pool that knows which handles are open."""

    def __init__(self) -> None:
        super().__init__(ToyWorld())
        self.most = 0

    @property
    def num_open(self) -> int:
        return len(self._bundles)

    def step_many(self, actions: Sequence[tuple[int, Mapping[int, str]]]) -> list[dict[int, Observation]]:
        self.most = max(self.most, self.num_open)
        return super().step_many(actions)


def play(policy: Policy, *, pool: LocalPool | WorkerPool | None = None, max_active: int = 64, count: int = 12) -> list[Episode]:
    pool = pool or LocalPool(ToyWorld())
    return play_many(requests(count), settings=SETTINGS, policy=policy, pool=pool, prompts=PROMPTS, max_active=max_active)


@pytest.mark.parametrize("max_active", [1, 5, 64])
def test_episodes_played_together_are_those_played_alone(max_active: int) -> None:
    together = play(AgentPolicy(RandomAgent()), max_active=max_active)
    alone = [
        play_episode(
            request.task,
            policy=AgentPolicy(RandomAgent()),
            num_envs=3,
            max_turns=6,
            seed=request.seed,
            sibling=request.sibling,
            over_limit=OverLimit.IGNORE,
        )
        for request in requests()
    ]
    assert [timeless(episode) for episode in together] == [timeless(episode) for episode in alone]
    assert {episode.stop for episode in together} >= {StopReason.SUCCESS, StopReason.MAX_TURNS}


def test_worker_processes_change_nothing() -> None:
    with WorkerPool("toy", workers=2) as pool:
        apart = play(AgentPolicy(RandomAgent()), pool=pool)
    assert [timeless(episode) for episode in apart] == [timeless(episode) for episode in play(AgentPolicy(RandomAgent()))]


def test_no_more_play_at_a_time_than_asked_and_free_places_are_filled() -> None:
    policy, pool = Counting(), Watched()
    episodes = play(policy, pool=pool, max_active=5)
    assert max(policy.sizes) == 5
    assert pool.most == 5
    assert sum(policy.sizes) == sum(len(episode.turns) for episode in episodes)
    # places never stay empty while somebody waits: the last newcomers start as soon as 7 of 12 have finished
    assert policy.sizes.count(5) >= len(policy.sizes) - SETTINGS.max_turns


def test_results_keep_the_order_of_the_requests_and_are_told_as_they_finish() -> None:
    told: list[Episode] = []
    episodes = play_many(
        requests(), settings=SETTINGS, policy=Counting(), pool=LocalPool(ToyWorld()), prompts=PROMPTS, on_episode=told.append
    )
    assert [(episode.task.id, episode.sibling) for episode in episodes] == [(r.task.id, r.sibling) for r in requests()]
    assert sorted(map(id, told)) == sorted(map(id, episodes))
    assert [len(episode.turns) for episode in told] == sorted(len(episode.turns) for episode in episodes)


def test_nothing_stays_open_after_the_last_episode_or_an_interruption() -> None:
    pool = Watched()
    play(Counting(), pool=pool)
    assert pool.num_open == 0
    with pytest.raises(KeyboardInterrupt):
        play(Counting(fail_at_call=3), pool=pool)
    assert pool.num_open == 0


def test_no_requests_give_no_episodes() -> None:
    assert play(Counting(), count=0) == []


def test_an_unknown_task_is_a_wrong_request_and_leaves_nothing_open() -> None:
    pool = Watched()
    bad = EpisodeRequest(task=Task(id="toy/room/99", world="toy", name="room"), seed=0)
    with pytest.raises(TaskError):
        play_many([*requests(), bad], settings=SETTINGS, policy=Counting(), pool=pool, prompts=PROMPTS, max_active=5)
    assert pool.num_open == 0


def test_a_policy_that_forgets_an_answer_is_named() -> None:
    with pytest.raises(JobError, match=r"Counting\.generate gave 11 completions for 12 requests"):
        play(Counting(short=True))


def test_one_episodes_fault_is_no_other_episodes_business() -> None:
    """B08, E04, T07: full context, failed policy, empty reply and a good episode side by side."""

    def answer(request: Request, turn: int) -> str | Completion:
        special: dict[int, str | Completion] = {
            0: Completion(text="", finish=FinishReason.CONTEXT_FULL),
            1: Completion(text="", finish=FinishReason.ERROR, error="gone"),
            2: "",
        }
        good = format_reply("t", {1: "look"})
        return good if turn == 0 else special.get(request.seed % 16, good)

    episodes = play(ScriptedPolicy(answer), count=40)
    assert {episode.stop for episode in episodes} == {StopReason.CONTEXT_FULL, StopReason.POLICY_FAILED, StopReason.MAX_TURNS}
    for episode in episodes:
        assert 1 <= len(episode.turns) <= SETTINGS.max_turns
        assert episode.outcome == (None if episode.stop is StopReason.POLICY_FAILED else 0.0)


def test_siblings_differ_and_repeat_exactly_with_the_same_seed() -> None:
    """T08: same request, same episode; another sibling or seed, another one."""
    task = ToyWorld().task("toy/castle/0")

    def actions(seed: int, sibling: int) -> list[str]:
        request = EpisodeRequest(task=task, seed=seed, sibling=sibling)
        [episode] = play_many([request], settings=SETTINGS, policy=Counting(), pool=LocalPool(ToyWorld()), prompts=PROMPTS)
        turns: tuple[Turn, ...] = episode.turns
        return [step.action for turn in turns for step in turn.steps]

    assert actions(0, 0) == actions(0, 0)
    assert len({tuple(actions(seed, sibling)) for seed in range(2) for sibling in range(2)}) == 4
