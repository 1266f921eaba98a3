"""The groups of an RL step: which tasks, played and scored, and replaced where they could not teach anything."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dpepo.config import Config
from dpepo.envs import EnvPool
from dpepo.errors import ConfigError, JobError
from dpepo.policies import HfPolicy
from dpepo.protocol import PromptBuilder
from dpepo.rewards import score_episode
from dpepo.rollout import PlayClock, lost_reason, play_groups, play_settings
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode, EpisodeGroup, Task

STAGE = "rl"


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What a step plays."""

    groups: list[EpisodeGroup]  # to learn from
    drawn: list[EpisodeGroup]  # as played first: rates over groups chosen for their outcomes would say nothing of the policy
    metrics: dict[str, float]  # how many were replaced


@dataclass(frozen=True, kw_only=True)
class Collector:
    """Plays the groups of a step with the present policy."""

    config: Config
    tasks: Sequence[Task]
    pool: EnvPool
    prompts: PromptBuilder
    policy: HfPolicy
    run: RunFolder  # receives every episode, those of replaced groups too
    clock: PlayClock = field(default_factory=PlayClock)  # of the whole session
    experts: dict[str, list[str] | None] = field(default_factory=dict)  # gold actions by task id, asked for once

    def collect(self, step: int, *, on_episode: Callable[[Episode], None] | None = None) -> Collected:
        """The groups of a step.

        Groups whose episodes all ended alike teach nothing. ``train.refill`` rounds replace them by groups of other tasks where
        those differ (dynamic sampling of DAPO, arXiv 2503.14476, bounded).

        Raises:
            JobError: All episodes were lost to faults, so that there is nothing to learn from.
            ConfigError: ``algorithm.process_reward`` in a world without experts.
        """
        train, seed = self.config.train, self.config.seed
        tasks = pick_tasks(self.tasks, step=step, count=train.tasks_per_step, seed=seed)
        drawn = self._play(tasks, seed=step_seed(seed, step), step=step, on_episode=on_episode)
        _check_any_left(drawn, step=step)
        groups = list(drawn)
        num_replaced = num_rounds = 0
        for number in range(1, train.refill + 1):
            flat = [place for place, group in enumerate(groups) if ended_alike(group)]
            if not flat:
                break
            num_rounds += 1
            others = refill_tasks(self.tasks, step=step, number=number, count=len(flat), seed=seed)
            fresh = self._play(others, seed=step_seed(seed, step, refill=number), step=step, on_episode=on_episode)
            for place, group in zip(flat, fresh, strict=True):
                if not ended_alike(group):
                    groups[place] = group
                    num_replaced += 1
        counts = {"train/refill_rounds": num_rounds, "train/refilled_groups": num_replaced} if train.refill else {}
        return Collected(groups=groups, drawn=drawn, metrics={name: float(count) for name, count in counts.items()})

    def _play(
        self, tasks: Sequence[Task], *, seed: int, step: int, on_episode: Callable[[Episode], None] | None
    ) -> list[EpisodeGroup]:
        experts = self._experts(tasks) if self.config.algorithm.process_reward else [None] * len(tasks)
        played = play_groups(
            tasks,
            group_size=self.config.train.group_size,
            seed=seed,
            settings=play_settings(self.config),
            policy=self.policy,
            pool=self.pool,
            prompts=self.prompts,
            max_active=self.config.sampling.batch_size,
            on_episode=on_episode,
            clock=self.clock,
        )
        groups = [
            EpisodeGroup(
                task=task,
                siblings=tuple(score_episode(episode, self.config.step_reward, expert=expert) for episode in siblings),
            )
            for task, siblings, expert in zip(tasks, played, experts, strict=True)
        ]
        self.run.write_episodes(STAGE, step, [sibling for group in groups for sibling in group.siblings])
        return groups

    def _experts(self, tasks: Sequence[Task]) -> list[list[str] | None]:
        new = [task.id for task in tasks if task.id not in self.experts]
        if new:
            self.experts.update(zip(new, self.pool.expert_many(new), strict=True))
        if all(expert is None for expert in self.experts.values()):
            raise ConfigError(
                f"algorithm.process_reward needs a world that knows a way to the goal, {self.config.env.world!r} does not. "
                "Try: algorithm.process_reward=false"
            )
        return [self.experts[task.id] for task in tasks]


def ended_alike(group: EpisodeGroup) -> bool:
    """Whether the outcomes of a group that were not lost do not differ."""
    return len({sibling.outcome for sibling in group.siblings if sibling.outcome is not None}) <= 1


def pick_tasks(tasks: Sequence[Task], *, step: int, count: int, seed: int) -> list[Task]:
    """The tasks of a step: epochs of all tasks in an order drawn afresh for each, cut into steps without a gap.

    Args:
        tasks: All training tasks.
        step: From 1.
        count: Tasks per step; may exceed the number of tasks.
        seed: Root of the orders.
    """
    chosen = []
    for position in range((step - 1) * count, step * count):
        epoch, place = divmod(position, len(tasks))
        order = list(range(len(tasks)))
        random.Random(f"{seed}/epoch/{epoch}").shuffle(order)
        chosen.append(tasks[order[place]])
    return chosen


def refill_tasks(tasks: Sequence[Task], *, step: int, number: int, count: int, seed: int) -> list[Task]:
    """Tasks drawn to replace groups of a step; where a step was cannot change, so they stand outside the epochs."""
    rng = random.Random(f"{seed}/step/{step}/refill/{number}")
    return [tasks[rng.randrange(len(tasks))] for _ in range(count)]


def step_seed(seed: int, step: int, *, refill: int = 0) -> int:
    """The root of a step's randomness, in [0, 2**63); another one for every round of refilling."""
    name = f"{seed}/step/{step}" + (f"/refill/{refill}" if refill else "")
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def _check_any_left(groups: Sequence[EpisodeGroup], *, step: int) -> None:
    episodes = [sibling.episode for group in groups for sibling in group.siblings]
    if all(episode.outcome is None for episode in episodes):
        raise JobError(f"All {len(episodes)} episodes of step {step} were lost. {lost_reason(episodes)}")
