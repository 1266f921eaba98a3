"""Agents without a language model: baselines, and teachers of the cold start. They look at the episode, not at a prompt."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dpepo.config import Form
from dpepo.policies import Policy
from dpepo.protocol.reply import format_reply
from dpepo.types import Completion, EpisodeView, FinishReason, Observation, Request, Sampling

_SLOT = re.compile(r"\bOBJ\b")


class Agent(Protocol):
    """Something that can answer a view of an episode."""

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """The text of a reply, in the form that is parsed; all randomness comes from ``rng``."""
        ...


@runtime_checkable
class PreparingAgent(Agent, Protocol):
    """An agent that has something to look up, and does so for many episodes at once."""

    def prepare(self, task_ids: Sequence[str]) -> None:
        """Called before a round of replies with the tasks of all of them."""
        ...


class AgentPolicy(Policy):
    """Lets an `Agent` take the place of a model. Its completions hold text only, no token ids."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.version = type(agent).__name__

    def generate(self, requests: Sequence[Request], *, sampling: Sampling) -> list[Completion]:
        """Answer every request with the agent; ``sampling`` has no effect. An agent that fails costs its own episode only."""
        if isinstance(self._agent, PreparingAgent):
            self._agent.prepare([request.view.task_id for request in requests])
        return [self._completion(request) for request in requests]

    def _completion(self, request: Request) -> Completion:
        try:
            reply = self._agent.reply(request.view, random.Random(request.seed))
        except Exception as error:  # an agent of somebody's own may fail in any way
            return self._failed(f"{type(error).__name__}: {error}")
        if not isinstance(reply, str):
            return self._failed(f"it must reply with text, got {reply!r:.80}")
        return Completion(text=reply, finish=FinishReason.STOP)

    def _failed(self, what: str) -> Completion:
        return Completion(text="", finish=FinishReason.ERROR, error=f"The agent {self.version} failed: {what}")


class RandomAgent:
    """Does an admissible action, picked at random, in every environment that has not ended: the blind baseline."""

    def __init__(self, *, form: Form = Form.PARALLEL) -> None:
        self._form = form

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """One action per live environment; none where an environment offers nothing."""
        return format_reply("pick at random", self.picks(view, rng), form=self._form)

    def picks(self, view: EpisodeView, rng: random.Random) -> dict[int, str]:
        """An admissible action for every environment that is live and offers one."""
        picks = {env_id: self._pick(seen, view, rng) for env_id, seen in latest_observations(view).items() if not seen.ended}
        return {env_id: pick for env_id, pick in picks.items() if pick}

    def _pick(self, seen: Observation, view: EpisodeView, rng: random.Random) -> str:
        hidden = set(view.guide.hidden_actions)
        offered = seen.admissible_actions or tuple(entry.template for entry in view.guide.action_templates)
        usable = [action for action in offered if action not in hidden and (seen.objects or not _SLOT.search(action))]
        return _SLOT.sub(lambda _: rng.choice(seen.objects), rng.choice(usable)) if usable else ""


def latest_observations(view: EpisodeView) -> dict[int, Observation]:
    """What every environment 1..K shows now; where K is unlimited, those addressed so far and the next one.

    Args:
        view: An episode before its next turn.
    """
    used = [step.env_id for turn in view.turns for step in turn]
    latest = {env_id: view.initial for env_id in range(1, (view.num_envs or max([0, *used]) + 1) + 1)}
    for turn in view.turns:
        latest.update({step.env_id: step.observation for step in turn})
    return latest
