"""Groups: N sibling episodes of one task, compared with each other by the algorithms."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence

from dpepo.envs import EnvPool
from dpepo.policies import Policy
from dpepo.protocol import PromptBuilder
from dpepo.rollout.episode import EpisodeRequest, PlaySettings, broken_environments
from dpepo.rollout.scheduler import PlayClock, play_many
from dpepo.types import Episode, Task


def group_requests(tasks: Sequence[Task], *, group_size: int, seed: int) -> list[EpisodeRequest]:
    """The episodes of all groups, group after group.

    A task that is listed again gets another seed for its later groups, so that they do not repeat the first.

    Args:
        tasks: One group for each.
        group_size: N, at least 1.
        seed: Root of all randomness; give every training step another one.
    """
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}")
    seen: Counter[str] = Counter()
    requests = []
    for task in tasks:
        group_seed = _repeat_seed(seed, seen[task.id])
        seen[task.id] += 1
        requests += [EpisodeRequest(task=task, seed=group_seed, sibling=sibling) for sibling in range(group_size)]
    return requests


def play_groups(
    tasks: Sequence[Task],
    *,
    group_size: int,
    seed: int,
    settings: PlaySettings,
    policy: Policy,
    pool: EnvPool,
    prompts: PromptBuilder,
    max_active: int = 64,
    on_episode: Callable[[Episode], None] | None = None,
    clock: PlayClock | None = None,
) -> list[list[Episode]]:
    """Play a group of siblings for every task, all of them together.

    Args:
        tasks: One group for each; a task may be listed several times.
        group_size: N, siblings per group.
        seed: Root of all randomness; give every training step another one.
        settings: See `play_many`, as the rest.
        policy: Who acts.
        pool: Where they are played.
        prompts: The words the policy reads.
        max_active: Episodes at a time. Siblings sit next to each other, and policy and environments share what they have in
            common, so that a multiple of ``group_size`` is best.
        on_episode: Called with every episode as it finishes.
        clock: Is told how long policy and environments took.

    Returns:
        Groups in the order of ``tasks``, siblings in order inside each.
    """
    requests = group_requests(tasks, group_size=group_size, seed=seed)
    episodes = play_many(
        requests,
        settings=settings,
        policy=policy,
        pool=pool,
        prompts=prompts,
        max_active=max_active,
        on_episode=on_episode,
        clock=clock,
    )
    return [episodes[start : start + group_size] for start in range(0, len(episodes), group_size)]


def lost_reason(episodes: Sequence[Episode]) -> str:
    """A sentence on what broke most often in episodes that were lost; for messages. Empty when none was lost."""
    reasons = Counter(
        episode.error or next(iter(broken_environments(episode).values()), episode.stop.value)
        for episode in episodes
        if episode.outcome is None
    )
    return f"The most frequent reason: {reasons.most_common(1)[0][0]}" if reasons else ""


def _repeat_seed(seed: int, occurrence: int) -> int:
    """The seed itself for a task's first group, a derived one for its later groups."""
    if occurrence == 0:
        return seed
    digest = hashlib.sha256(f"{seed}/again/{occurrence}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
