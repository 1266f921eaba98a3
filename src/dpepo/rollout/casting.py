"""Agents by name: who plays which tasks when no language model does. Shared by cold start and evaluation."""

from __future__ import annotations

import importlib
import random
import zlib
from collections.abc import Sequence

from dpepo.config import Form
from dpepo.envs import EnvPool
from dpepo.errors import ConfigError, TaskError, did_you_mean
from dpepo.protocol.reply import format_reply
from dpepo.rollout.agents import Agent, RandomAgent, latest_observations
from dpepo.types import EpisodeView, Task

ORACLE, RANDOM = "oracle", "random"
_LOOK_AROUND_TURNS = 2  # turns in which the other environments are used as well, before all turns go to the one with the plan


class OracleAgent:
    """Follows gold actions in one environment; for the first turns the others try admissible actions.

    Which environment has the plan depends on the goal, so that a model cannot learn "always the first".
    """

    def __init__(self, gold: Sequence[str], *, form: Form = Form.PARALLEL) -> None:
        self._gold = tuple(gold)
        self._form = form
        self._others = RandomAgent(form=form)

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """The next gold action, and something else beside it while the episode is young."""
        latest = latest_observations(view)
        planned = 1 + zlib.crc32(view.goal.encode()) % len(latest)
        done = sum(step.env_id == planned for turn in view.turns for step in turn)
        actions = self._others.picks(view, rng) if len(view.turns) < _LOOK_AROUND_TURNS else {}
        actions.pop(planned, None)
        if done < len(self._gold) and not latest[planned].ended:
            actions[planned] = self._gold[done]
        elsewhere = " and look at something else in the others" if len(actions) > 1 else ""
        return format_reply(f"I go on with the plan in environment {planned}{elsewhere}.", actions, form=self._form)


def check_agent(name: str, *, key: str) -> None:
    """Refuse a name that `cast` would refuse, before anything starts.

    Args:
        name: The agent's name.
        key: The setting it comes from, for the message.

    Raises:
        ConfigError: No such agent.
    """
    if name != ORACLE:
        _load_agent(name, form=Form.PARALLEL, key=key)


def cast(name: str, tasks: Sequence[Task], *, pool: EnvPool, form: Form, key: str) -> list[tuple[Agent, list[Task]]]:
    """Agents for tasks: one for all of them, or an oracle for each.

    Args:
        name: "oracle", "random", or an agent class of one's own, ``module:Class``.
        tasks: What is to be played.
        pool: Where; asked for gold actions when the oracle plays.
        form: The shape of the replies.
        key: The setting the name comes from, for messages.

    Raises:
        ConfigError: No such agent.
        TaskError: The oracle has no gold actions for a task.
    """
    if name != ORACLE:
        return [(_load_agent(name, form=form, key=key), list(tasks))]
    gold = pool.expert_many([task.id for task in tasks])
    missing = [task.id for task, actions in zip(tasks, gold, strict=True) if actions is None]
    if missing:
        others = f" and {len(missing) - 1} more of the {len(tasks)} tasks" if len(missing) > 1 else ""
        raise TaskError(f"There are no gold actions for {missing[0]}{others}. Try: {key}={RANDOM}")
    return [(OracleAgent(actions or (), form=form), [task]) for task, actions in zip(tasks, gold, strict=True)]


def _load_agent(name: str, *, form: Form, key: str) -> Agent:
    if name == RANDOM:
        return RandomAgent(form=form)
    module_name, colon, class_name = name.partition(":")
    if not colon:
        raise ConfigError(
            f"{key} {name!r} does not exist. {did_you_mean(name, (ORACLE, RANDOM))} An own agent is named module:Class."
        )
    try:
        agent: Agent = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:  # a foreign module may fail in any way
        raise ConfigError(f"{key} {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not callable(getattr(agent, "reply", None)):
        raise ConfigError(f"{key} {name!r} is no agent: it has no method reply(view, rng)")
    return agent
