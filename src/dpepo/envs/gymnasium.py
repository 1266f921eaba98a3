"""Any Gymnasium environment whose actions and observations are text, as a world of dpepo. See docs/environments.md.

A task is a seed of the environment's `reset`; K copies of it are K environments reset with that seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

from dpepo.envs.base import TextEnv, World, WorldStatus
from dpepo.errors import ConfigError, MissingPackage, TaskError
from dpepo.types import Observation, Task, WorldGuide

WORLD = "gymnasium"
SPLITS = {"train": (0, 1000), "dev": (1000, 1100), "test": (2000, 2200)}
"""First seed of each split, and the one after the last."""


class GymnasiumWorld(World):
    """One registered Gymnasium environment."""

    name: ClassVar[str] = WORLD
    splits: ClassVar[tuple[str, ...]] = tuple(SPLITS)

    def __init__(
        self,
        *,
        env_id: str = "",
        module: str = "",
        kwargs: Mapping[str, Any] | None = None,
        role: str = "You act in a text environment. You read what you see and carry out a task by short commands.",
        goal: str = "",
        success_reward: float | None = None,
    ) -> None:
        """Check the options; the environment is made when a task is asked for.

        Args:
            env_id: Its registered id, e.g. "MyGame-v0".
            module: A module to import first, which registers it.
            kwargs: Arguments of ``gymnasium.make``.
            role: Who the agent is, for the prompt.
            goal: The task in words; "": ``info["goal"]`` of `reset`.
            success_reward: A terminated episode whose rewards add up to at least this much has succeeded; None: it has where
                ``info["success"]`` (or "is_success", "won") is true.

        Raises:
            ConfigError: ``env_id`` is missing.
        """
        if not env_id or not isinstance(env_id, str):
            raise ConfigError("gymnasium: which environment? Try: env.options.env_id=MyGame-v0 env.options.module=my_package")
        self.guide = WorldGuide(role=role)
        self._env_id, self._module, self._kwargs = env_id, module, dict(kwargs or {})
        self._goal, self._success_reward = goal, success_reward
        self._id = re.compile(rf"{WORLD}/{re.escape(env_id)}/(?P<seed>0|[1-9][0-9]{{0,8}})", re.ASCII)

    def make(self, task_id: str) -> TextEnv:
        """Make one environment of a task; see `World.make`."""
        seed = self._seed(task_id)
        return _GymnasiumCopy(self._make(), seed=seed, goal=self._goal, success_reward=self._success_reward)

    def tasks(self, split: str) -> list[Task]:
        """The seeds of a split; see `World.tasks`."""
        self.check_split(split)
        return [self._task(seed, split) for seed in range(*SPLITS[split])]

    def task(self, task_id: str) -> Task:
        """Look a seed up; see `World.task`."""
        seed = self._seed(task_id)
        split = next((name for name, (first, end) in SPLITS.items() if first <= seed < end), "")
        if not split:
            raise TaskError(f"{task_id!r}: seeds are {', '.join(f'{a}..{b - 1} ({name})' for name, (a, b) in SPLITS.items())}")
        return self._task(seed, split)

    def metadata(self) -> dict[str, str]:
        """The environment's id and the package's version."""
        from importlib import metadata

        return {"env_id": self._env_id, "gymnasium": metadata.version("gymnasium")}

    @classmethod
    def check(cls) -> WorldStatus:
        """Look for the package, without importing it."""
        if find_spec("gymnasium") is None:
            detail = "the package gymnasium is not installed. Try: pip install 'dpepo[gymnasium]'"
            return WorldStatus(name=cls.name, ready=False, detail=detail)
        return WorldStatus(name=cls.name, ready=True, detail="any environment of text: env.options.env_id=MyGame-v0")

    def _make(self) -> Any:
        try:
            import gymnasium
        except ModuleNotFoundError:
            raise MissingPackage("gymnasium", extra="gymnasium", needed_for="The world 'gymnasium'") from None
        name = f"{self._module}:{self._env_id}" if self._module else self._env_id
        try:
            env = gymnasium.make(name, disable_env_checker=True, **self._kwargs)
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise ConfigError(f"gymnasium: {name!r} cannot be made: {error}") from None
        if not isinstance(env.action_space, gymnasium.spaces.Text):
            env.close()
            raise ConfigError(f"gymnasium: {name!r} has actions of {env.action_space}, and this adapter speaks Text only")
        return env

    def _seed(self, task_id: str) -> int:
        match = self._id.fullmatch(task_id)
        if match is None:
            raise TaskError(f"{task_id!r} is no task of this environment: ids look like '{WORLD}/{self._env_id}/17' (a seed)")
        return int(match["seed"])

    def _task(self, seed: int, split: str) -> Task:
        return Task(id=f"{WORLD}/{self._env_id}/{seed}", world=WORLD, name=self._env_id, split=split)


class _GymnasiumCopy(TextEnv):
    """One Gymnasium environment."""

    def __init__(self, env: Any, *, seed: int, goal: str, success_reward: float | None) -> None:
        self._env, self._seed_of_task = env, seed
        self._success_reward = success_reward
        self._rewards = 0.0
        self.goal = goal

    def reset(self) -> Observation:
        """Back to the initial state; see `TextEnv.reset`."""
        seen, info = self._env.reset(seed=self._seed_of_task)
        self._rewards = 0.0
        self.goal = self.goal or str(info.get("goal", ""))
        return self._observation(seen, info, terminated=False, truncated=False)

    def step(self, action: str) -> Observation:
        """Do one action; see `TextEnv.step`."""
        seen, reward, terminated, truncated, info = self._env.step(action)
        self._rewards += float(reward)
        return self._observation(seen, info, terminated=terminated, truncated=truncated)

    def close(self) -> None:
        """See `TextEnv.close`."""
        self._env.close()

    def _observation(self, seen: Any, info: Mapping[str, Any], *, terminated: bool, truncated: bool) -> Observation:
        if not isinstance(seen, str):
            raise TypeError(f"the environment shows {type(seen).__name__}, not text")
        if self._success_reward is None:
            success = any(bool(info.get(name)) for name in ("success", "is_success", "won"))
        else:
            success = bool(terminated) and self._rewards >= self._success_reward
        return Observation(
            text=seen,
            admissible_actions=info.get("admissible_actions", info.get("admissible_commands", ())),
            score=self._rewards,
            success=success,
            ended=bool(terminated or truncated or success),
            valid=bool(info.get("valid", True)),
            state=str(info.get("state", "")),
        )
