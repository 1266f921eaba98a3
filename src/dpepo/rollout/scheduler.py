"""Many episodes in lock-step: all of them ask, the policy answers them together, all of them act.

The rules of an episode are in `dpepo.rollout.episode`; here is only who is playing, and that the two expensive parts, model
and environments, are called once per round for everybody.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpepo.envs import EnvPool
from dpepo.errors import JobError
from dpepo.policies import Policy
from dpepo.protocol import PromptBuilder
from dpepo.rollout.episode import EpisodeRequest, EpisodeState, PlaySettings
from dpepo.types import Completion, Episode, Observation, Request


@dataclass
class PlayClock:
    """Where the time of playing goes, added up over calls."""

    sample_s: float = 0.0  # in the policy
    env_s: float = 0.0  # in the environments


@dataclass
class _Seat:
    """An episode being played."""

    place: int  # its position among the requests
    handle: int  # its environments in the pool
    state: EpisodeState


def play_many(
    requests: Sequence[EpisodeRequest],
    *,
    settings: PlaySettings,
    policy: Policy,
    pool: EnvPool,
    prompts: PromptBuilder,
    max_active: int = 64,
    on_episode: Callable[[Episode], None] | None = None,
    clock: PlayClock | None = None,
) -> list[Episode]:
    """Play episodes together; each of them comes out as if it had been played alone.

    Args:
        requests: What to play; may be empty.
        settings: Holds for all of them.
        policy: Who acts in all of them.
        pool: Where they are played; left open, with no episode of this call in it, also after an error or Ctrl-C.
        prompts: The words the policy reads.
        max_active: Episodes at a time; a place that becomes free is taken by the next request before the next round. The
            policy's batch size is a good value.
        on_episode: Called with every episode as it finishes, in order of finishing.
        clock: Is told how long policy and environments took.

    Returns:
        One episode per request, in the order of the requests. Faults of environments and policy are values in them.

    Raises:
        RequestError: A task does not exist, or its world lacks something.
        JobError: The policy broke its contract.
    """
    if max_active < 1:
        raise ValueError(f"max_active must be at least 1, got {max_active}")
    waiting = deque(enumerate(requests))
    seats: list[_Seat] = []
    episodes: dict[int, Episode] = {}
    clock = clock or PlayClock()
    try:
        while waiting or seats:
            newcomers = [waiting.popleft() for _ in range(min(len(waiting), max_active - len(seats)))]
            began = time.perf_counter()
            seats += _seated(newcomers, settings=settings, pool=pool)
            clock.env_s += time.perf_counter() - began
            playing = [seat for seat in seats if not seat.state.finished]
            _play_round(playing, policy=policy, pool=pool, prompts=prompts, settings=settings, clock=clock)
            finished = [seat for seat in seats if seat.state.finished]
            seats = [seat for seat in seats if not seat.state.finished]
            pool.close_many([seat.handle for seat in finished])
            for seat in finished:
                episodes[seat.place] = seat.state.episode()
                if on_episode is not None:
                    on_episode(episodes[seat.place])
    finally:
        pool.close_many([seat.handle for seat in seats])
    return [episodes[place] for place in range(len(requests))]


def _seated(newcomers: Sequence[tuple[int, EpisodeRequest]], *, settings: PlaySettings, pool: EnvPool) -> list[_Seat]:
    """Open environments for episodes that begin now."""
    opened = pool.open_many([(request.task.id, settings.num_envs) for _, request in newcomers]) if newcomers else []
    return [
        _Seat(place=place, handle=handle, state=EpisodeState.begin(request, settings=settings, start=start))
        for (place, request), (handle, start) in zip(newcomers, opened, strict=True)
    ]


def _play_round(
    seats: Sequence[_Seat],
    *,
    policy: Policy,
    pool: EnvPool,
    prompts: PromptBuilder,
    settings: PlaySettings,
    clock: PlayClock,
) -> None:
    """One turn of every episode."""
    if not seats:
        return
    began = time.perf_counter()
    asked = [seat.state.ask(prompts) for seat in seats]
    asked_at = time.perf_counter()
    completions = _answers(policy, asked, settings=settings)
    clock.sample_s += time.perf_counter() - asked_at
    replies = [seat.state.read(completion) for seat, completion in zip(seats, completions, strict=True)]
    actions = [
        seat.state.actions_to_run(completion, reply)
        for seat, completion, reply in zip(seats, completions, replies, strict=True)
    ]
    acted_at = time.perf_counter()
    observations = _stepped(pool, {seat.handle: todo for seat, todo in zip(seats, actions, strict=True) if todo})
    now = time.perf_counter()
    clock.env_s += now - acted_at
    took = {"seconds": (now - began) / len(seats), "env_seconds": (now - acted_at) / len(seats)}
    for seat, question, completion, reply in zip(seats, asked, completions, replies, strict=True):
        seen = observations.get(seat.handle, {})
        seat.state = seat.state.take(question, completion=completion, reply=reply, observations=seen, **took)


def _answers(policy: Policy, asked: Sequence[Request], *, settings: PlaySettings) -> list[Completion]:
    completions = policy.generate(asked, sampling=settings.sampling)
    if len(completions) != len(asked):
        raise JobError(f"{type(policy).__name__}.generate gave {len(completions)} completions for {len(asked)} requests")
    return completions


def _stepped(pool: EnvPool, actions: Mapping[int, Mapping[int, str]]) -> dict[int, dict[int, Observation]]:
    """Observations by handle and environment."""
    answers = pool.step_many(list(actions.items())) if actions else []
    return dict(zip(actions, answers, strict=True))
