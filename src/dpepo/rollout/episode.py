"""One episode: from a task to its last turn.

`EpisodeState` holds the rules and nothing else: it asks no model, steps no environment, and every change makes a new state.
`play_episode` is the whole loop in its plainest form. `dpepo.rollout.scheduler` runs the same rules for many episodes together.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dpepo.config import Form, OverLimit, PromptConfig
from dpepo.envs import BundleStart, EnvPool, LocalPool, World, load_world
from dpepo.policies import Policy
from dpepo.protocol import PromptBuilder, parse_reply
from dpepo.types import (
    Completion,
    Episode,
    EpisodeView,
    FinishReason,
    Observation,
    ParsedReply,
    Record,
    ReplyProblem,
    Request,
    Sampling,
    Step,
    StopReason,
    Task,
    Turn,
)


class EpisodeRequest(Record):
    """An episode to be played."""

    task: Task
    seed: int  # root of its randomness; with task, sibling and turn it fixes every reply
    sibling: int = 0  # 0..N-1 inside its group


class PlaySettings(Record):
    """What holds for all episodes played together."""

    num_envs: int | None  # K; None: as many as the agent asks for
    max_turns: int  # T, at least 1
    sampling: Sampling = Sampling()
    over_limit: OverLimit = OverLimit.IGNORE
    form: Form = Form.PARALLEL


@dataclass(frozen=True, kw_only=True)
class EpisodeState:
    """A running episode between two turns."""

    request: EpisodeRequest
    settings: PlaySettings
    start: BundleStart
    turns: tuple[Turn, ...] = ()
    stop: StopReason | None = None  # None while it runs
    error: str = ""

    @classmethod
    def begin(cls, request: EpisodeRequest, *, settings: PlaySettings, start: BundleStart) -> EpisodeState:
        """The state before the first turn; already finished when the task could not be started."""
        state = cls(request=request, settings=settings, start=start)
        if start.initial.failure:
            return replace(state, stop=StopReason.ENV_FAILED, error=start.initial.failure)
        if start.initial.ended:
            return replace(state, stop=StopReason.ALL_ENDED)
        return state

    @property
    def finished(self) -> bool:
        """Whether the episode has ended."""
        return self.stop is not None

    @property
    def view(self) -> EpisodeView:
        """What the next prompt is built from."""
        return EpisodeView(
            goal=self.start.goal,
            guide=self.start.guide,
            initial=self.start.initial,
            turns=tuple(turn.steps for turn in self.turns),
            num_envs=self.settings.num_envs,
            task_id=self.request.task.id,
            seed=reply_seed(self.request.seed, task_id=self.request.task.id, sibling=self.request.sibling, turn=-1),
        )

    def ask(self, prompts: PromptBuilder) -> Request:
        """The question to the policy at this turn."""
        view = self.view
        request = self.request
        seed = reply_seed(request.seed, task_id=request.task.id, sibling=request.sibling, turn=len(self.turns))
        return Request(prompt=prompts.build(view), view=view, seed=seed)

    def read(self, completion: Completion) -> ParsedReply:
        """Take the policy's reply apart."""
        return parse_reply(completion.text, num_envs=self.settings.num_envs, form=self.settings.form)

    def actions_to_run(self, completion: Completion, reply: ParsedReply) -> dict[int, str]:
        """The actions of a reply that are really done, by environment.

        Nothing is done in environments that have ended, after a completion that is no answer, or in a turn that ends the
        episode because it asked for an environment above K.
        """
        if completion.finish in _NO_ANSWER or self._breaks_limit(reply):
            return {}
        over = self.ended_envs()
        return {env_id: action for env_id, action in sorted(reply.actions.items()) if env_id not in over}

    def ended_envs(self) -> dict[int, Observation]:
        """Environments that take no more actions, with the last thing each of them said."""
        steps = (step for turn in self.turns for step in turn.steps)
        return {step.env_id: step.observation for step in steps if step.observation.ended}

    def take(
        self,
        asked: Request,
        *,
        completion: Completion,
        reply: ParsedReply,
        observations: Mapping[int, Observation],
        seconds: float = 0.0,
        env_seconds: float = 0.0,
    ) -> EpisodeState:
        """The state after a turn.

        Args:
            asked: From `ask`.
            completion: The policy's answer to it. One that is no answer (context full, policy failed) ends the episode and
                leaves no turn.
            reply: From `read`.
            observations: What the environments answered to `actions_to_run`, by id.
            seconds: Wall time of the turn.
            env_seconds: Of these, in the environments.
        """
        if completion.finish in _NO_ANSWER:
            return replace(self, stop=_NO_ANSWER[completion.finish], error=completion.error)
        done = self.actions_to_run(completion, reply)
        turn = Turn(
            prompt=asked.prompt,
            completion=completion,
            reply=reply,
            steps=tuple(Step(env_id=i, action=done[i], observation=observations[i]) for i in sorted(observations)),
            seconds=seconds,
            env_seconds=env_seconds,
        )
        after = replace(self, turns=(*self.turns, turn))
        return replace(after, stop=after._stop_after_last_turn(), error=after._broken())

    def episode(self) -> Episode:
        """The finished episode, as a record."""
        if self.stop is None:
            raise ValueError(f"the episode of {self.request.task.id} is still running")
        return Episode(
            task=self.request.task,
            goal=self.start.goal,
            guide=self.start.guide,
            num_envs=self.settings.num_envs or self._num_opened(),
            max_turns=self.settings.max_turns,
            seed=self.request.seed,
            sibling=self.request.sibling,
            initial=self.start.initial,
            turns=self.turns,
            stop=self.stop,
            error=self.error if self.stop in (StopReason.ENV_FAILED, StopReason.POLICY_FAILED) else "",
        )

    def _stop_after_last_turn(self) -> StopReason | None:
        turn = self.turns[-1]
        if any(step.observation.success for step in turn.steps):
            return StopReason.SUCCESS
        if self._breaks_limit(turn.reply):
            return StopReason.OVER_LIMIT
        ended = self.ended_envs()
        if len(ended) == self.settings.num_envs:
            return StopReason.ENV_FAILED if self._broken() else StopReason.ALL_ENDED
        return StopReason.MAX_TURNS if len(self.turns) >= self.settings.max_turns else None

    def _breaks_limit(self, reply: ParsedReply) -> bool:
        return self.settings.over_limit is OverLimit.FAIL and ReplyProblem.OVER_LIMIT in reply.problems

    def _broken(self) -> str:
        """Environments that broke and how, in one line; empty when none did."""
        broken = {env_id: seen.failure for env_id, seen in self.ended_envs().items() if seen.failure}
        return "; ".join(f"environment {env_id}: {broken[env_id]}" for env_id in sorted(broken))

    def _num_opened(self) -> int:
        """Copies an agent without a limit has used, counted by the highest number; at least 1."""
        return max([1, *(step.env_id for turn in self.turns for step in turn.steps)])


_NO_ANSWER = {FinishReason.CONTEXT_FULL: StopReason.CONTEXT_FULL, FinishReason.ERROR: StopReason.POLICY_FAILED}


def reply_seed(seed: int, *, task_id: str, sibling: int, turn: int) -> int:
    """Seed of one reply: the same on every machine, different for every turn of every sibling. Turn -1: of the whole episode.

    Returns:
        An integer in [0, 2**64).

    >>> reply_seed(0, task_id="toy/house/3", sibling=0, turn=0) == reply_seed(0, task_id="toy/house/3", sibling=0, turn=1)
    False
    """
    digest = hashlib.sha256(f"{seed}/{task_id}/{sibling}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def broken_environments(episode: Episode) -> dict[int, str]:
    """Environments of an episode that broke, with what happened, whether or not others went on."""
    steps = (step for turn in episode.turns for step in turn.steps)
    return {step.env_id: step.observation.failure for step in steps if step.observation.failure}


def play_episode(
    task: Task | str,
    *,
    policy: Policy,
    num_envs: int | None,
    max_turns: int,
    seed: int = 0,
    sibling: int = 0,
    world: World | EnvPool | None = None,
    prompts: PromptBuilder | None = None,
    sampling: Sampling | None = None,
    over_limit: OverLimit = OverLimit.FAIL,
    form: Form = Form.PARALLEL,
) -> Episode:
    """Play one episode, here and now.

    Args:
        task: A task or its id.
        policy: Who acts.
        num_envs: K; None: as many copies as the agent asks for.
        max_turns: T, model calls at most.
        seed: Root of the episode's randomness.
        sibling: Its number inside a group; another number, other replies.
        world: A world or a pool to play in, left open; None: the task's own world, in this process.
        prompts: The words; None: the built-in ones for ``form``.
        sampling: How replies are drawn; None: temperature 1.
        over_limit: What happens when an environment above K is addressed.
        form: The shape of a reply.

    Returns:
        The episode, whatever became of it: faults of environments and policy are values in it.

    Raises:
        RequestError: The task or its world does not exist, or something they need is missing.

    Example:
        >>> from dpepo.policies import ScriptedPolicy
        >>> look = ScriptedPolicy(["<think>look</think><parallel><env_1>look around</env_1></parallel>"])
        >>> play_episode("toy/house/0", policy=look, num_envs=2, max_turns=1).stop
        <StopReason.MAX_TURNS: 'max_turns'>
    """
    settings = PlaySettings(
        num_envs=num_envs, max_turns=max_turns, sampling=sampling or Sampling(), over_limit=over_limit, form=form
    )
    prompts = prompts or PromptBuilder(PromptConfig(form=form))
    with _stage(world, task=task) as (pool, known_task):
        [(handle, start)] = pool.open_many([(known_task.id, num_envs)])
        try:
            request = EpisodeRequest(task=known_task, seed=seed, sibling=sibling)
            state = EpisodeState.begin(request, settings=settings, start=start)
            while not state.finished:
                state = _play_turn(state, handle=handle, policy=policy, pool=pool, prompts=prompts)
        finally:
            pool.close_many([handle])
    return state.episode()


def _play_turn(state: EpisodeState, *, handle: int, policy: Policy, pool: EnvPool, prompts: PromptBuilder) -> EpisodeState:
    """Ask, act, and take what came of it."""
    began = time.perf_counter()
    asked = state.ask(prompts)
    [completion] = policy.generate([asked], sampling=state.settings.sampling)
    reply = state.read(completion)
    actions = state.actions_to_run(completion, reply)
    acted_at = time.perf_counter()
    [observations] = pool.step_many([(handle, actions)]) if actions else [{}]
    now = time.perf_counter()
    return state.take(
        asked,
        completion=completion,
        reply=reply,
        observations=observations,
        seconds=now - began,
        env_seconds=now - acted_at,
    )


@contextmanager
def _stage(place: World | EnvPool | None, *, task: Task | str) -> Iterator[tuple[EnvPool, Task]]:
    """A pool to play in, and the task as a record; only what was opened here is closed here."""
    if isinstance(place, World):
        yield LocalPool(place), task if isinstance(task, Task) else place.task(task)
    elif place is not None and isinstance(task, Task):
        yield place, task
    else:
        name = task.world if isinstance(task, Task) else task.partition("/")[0]
        with load_world(name, {}) as world:
            yield place or LocalPool(world), task if isinstance(task, Task) else world.task(task)
