"""One episode driven from outside, turn by turn, with a way back: what a person plays, and what other tools can drive.

The rules are those of `dpepo.rollout.episode`; what was played is an `Episode` like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from dpepo.envs import EnvPool
from dpepo.errors import JobError
from dpepo.protocol import PromptBuilder, format_reply
from dpepo.rollout.episode import EpisodeRequest, EpisodeState, PlaySettings
from dpepo.types import Completion, Episode, FinishReason, Observation, StopReason, Task


class Session:
    """An episode that waits for actions."""

    def __init__(self, task: Task, *, pool: EnvPool, settings: PlaySettings, prompts: PromptBuilder) -> None:
        """Start the episode.

        Args:
            task: What is played.
            pool: Where; left open.
            settings: K, turn limit, form of replies.
            prompts: The words that are recorded as the prompt of each turn.

        Raises:
            RequestError: The task does not exist, or its world lacks something.
        """
        self._pool, self._prompts = pool, prompts
        self._request = EpisodeRequest(task=task, seed=0)
        self._settings = settings
        self._handle, self.state = self._begun()

    @property
    def finished(self) -> bool:
        """Whether the episode has ended; `undo` takes it back into play."""
        return self.state.finished

    def act(self, actions: Mapping[int, str], *, thought: str) -> dict[int, Observation]:
        """Play one turn.

        Args:
            actions: Environment id (1..K) to action.
            thought: What goes between the think tags; not empty.

        Returns:
            What the environments answered; those that had ended are left out.

        Raises:
            ValueError: The episode has ended, or thought and actions make no well-formed reply (tags in them, no such id).
        """
        if self.finished:
            raise ValueError("the episode has ended")
        text = format_reply(thought, actions, form=self._settings.form)
        completion = Completion(text=text, finish=FinishReason.STOP)
        reply = self.state.read(completion)
        if reply.problems:
            raise ValueError(" ".join(reply.messages) or f"the reply has a problem: {', '.join(reply.problems)}")
        todo = self.state.actions_to_run(completion, reply)
        [seen] = self._pool.step_many([(self._handle, todo)]) if todo else [{}]
        self.state = self.state.take(self.state.ask(self._prompts), completion=completion, reply=reply, observations=seen)
        return seen

    def undo(self) -> None:
        """Take the last turn back, by playing all the others again in fresh environments.

        Where that fails, the episode stays as it was.

        Raises:
            ValueError: There is no turn to take back.
            JobError: The world answers the same actions otherwise than before.
        """
        if not self.state.turns:
            raise ValueError("there is nothing to undo")
        kept = self.state.turns[:-1]
        handle, state = self._begun()
        try:
            for turn in kept:
                actions = {step.env_id: step.action for step in turn.steps}
                [seen] = self._pool.step_many([(handle, actions)]) if actions else [{}]
                if seen != {step.env_id: step.observation for step in turn.steps}:
                    raise JobError(f"{self._request.task.id} cannot be taken back: the world answers otherwise than before")
        except BaseException:
            self._pool.close_many([handle])
            raise
        self._pool.close_many([self._handle])
        self._handle, self.state = handle, replace(state, turns=kept)

    def episode(self) -> Episode:
        """What was played so far, as a record; an episode still in play counts as stopped by its turn limit."""
        state = self.state if self.finished else replace(self.state, stop=StopReason.MAX_TURNS)
        return state.episode()

    def close(self) -> None:
        """Give the environments back; calling it twice does no harm."""
        self._pool.close_many([self._handle])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _begun(self) -> tuple[int, EpisodeState]:
        [(handle, start)] = self._pool.open_many([(self._request.task.id, self._settings.num_envs)])
        return handle, EpisodeState.begin(self._request, settings=self._settings, start=start)
