"""Agents by name: who plays which tasks when no language model does. Shared by cold start and evaluation."""

from __future__ import annotations

import importlib
import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from dpepo.config import Config, Form
from dpepo.envs import EnvPool
from dpepo.errors import ConfigError, TaskError, did_you_mean
from dpepo.policies import Policy
from dpepo.policies.openai import OpenAIPolicy
from dpepo.protocol.reply import format_reply
from dpepo.rollout.agents import Agent, AgentPolicy, RandomAgent, latest_observations
from dpepo.types import EpisodeView, Task

FindPlans = Callable[[Sequence[str]], Sequence[Sequence[str] | None]]
OPENAI, ORACLE, RANDOM = "openai", "oracle", "random"
USAGE_FILE = "usage.json"  # in a run folder: tokens used up at a server
_LOOK_AROUND_TURNS = 2  # turns in which the other environments are used as well, before all turns go to the one with the plan


class OracleAgent:
    """Follows gold actions in one environment; for the first turns the others try admissible actions.

    Which environment has the plan depends on the goal, so that a model cannot learn "always the first".
    """

    def __init__(self, find: FindPlans, *, form: Form = Form.PARALLEL) -> None:
        """Play by gold actions, asked for when a task comes up.

        Args:
            find: From task ids to the gold actions of each, None where there are none, e.g. `EnvPool.expert_many`.
            form: The shape of the replies.
        """
        self._find = find
        self._plans: dict[str, tuple[str, ...] | None] = {}
        self._form = form
        self._others = RandomAgent(form=form)

    def prepare(self, task_ids: Sequence[str]) -> None:
        """Find the plans of tasks that come up together in one call, which a pool spreads over its workers."""
        new = [task_id for task_id in dict.fromkeys(task_ids) if task_id not in self._plans]
        for task_id, plan in zip(new, self._find(new) if new else (), strict=True):
            self._plans[task_id] = None if plan is None else tuple(plan)

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """The next gold action, and something else beside it while the episode is young.

        Raises:
            LookupError: There are no gold actions for the task.
        """
        self.prepare([view.task_id])
        gold = self._plans[view.task_id]
        if gold is None:
            raise LookupError(f"there are no gold actions for {view.task_id}")
        latest = latest_observations(view)
        planned = 1 + zlib.crc32(view.goal.encode()) % len(latest)
        done = sum(step.env_id == planned for turn in view.turns for step in turn)
        actions = self._others.picks(view, rng) if len(view.turns) < _LOOK_AROUND_TURNS else {}
        actions.pop(planned, None)
        if done < len(gold) and not latest[planned].ended:
            actions[planned] = gold[done]
        elsewhere = " and look at something else in the others" if len(actions) > 1 else ""
        return format_reply(f"I go on with the plan in environment {planned}{elsewhere}.", actions, form=self._form)


def cast(name: str, tasks: Sequence[Task], *, pool: EnvPool, form: Form, key: str) -> Agent:
    """The agent of a name, ready for some tasks.

    Args:
        name: "oracle", "random", or an agent class of one's own, ``module:Class``.
        tasks: What is to be played.
        pool: Where; asked for gold actions when the oracle plays.
        form: The shape of the replies.
        key: The setting the name comes from, for messages.

    Raises:
        ConfigError: No such agent.
        TaskError: The oracle has no gold actions for the first task, and so hardly for the others.
    """
    if name != ORACLE:
        return _load_agent(name, form=form, key=key)
    if tasks and pool.expert_many([tasks[0].id]) == [None]:
        raise TaskError(f"The oracle knows no gold actions for {tasks[0].id}. Try: {key}={RANDOM}")
    return OracleAgent(pool.expert_many, form=form)


def cast_policy(name: str, tasks: Sequence[Task], *, config: Config, pool: EnvPool, key: str, ledger: Path) -> Policy:
    """Who plays under a name that is not the run's own model: a server's model, or an agent.

    Args:
        name: "openai" for the model behind ``server.base_url``, or a name of `cast`.
        tasks: What is to be played.
        config: Sections ``server`` and ``prompt``.
        pool: Where.
        key: The setting the name comes from, for messages.
        ledger: File that counts what a server's replies cost.

    Raises:
        RequestError: No such agent, no gold actions, or no server is named.
    """
    if name == OPENAI:
        return OpenAIPolicy(config.server, ledger=ledger)
    return AgentPolicy(cast(name, tasks, pool=pool, form=config.prompt.form, key=key))


def _load_agent(name: str, *, form: Form, key: str) -> Agent:
    if name == RANDOM:
        return RandomAgent(form=form)
    module_name, colon, class_name = name.partition(":")
    if not colon:
        raise ConfigError(
            f"{key} {name!r} does not exist. {did_you_mean(name, (OPENAI, ORACLE, RANDOM))} An own agent is named module:Class."
        )
    try:
        agent: Agent = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:  # a foreign module may fail in any way
        raise ConfigError(f"{key} {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not callable(getattr(agent, "reply", None)):
        raise ConfigError(f"{key} {name!r} is no agent: it has no method reply(view, rng)")
    return agent
